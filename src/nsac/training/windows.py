"""Forecasting windows of long series, cut when a batch needs them."""

import copy
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from nsac.models.windows import MIN_RELATIVE_AMPLITUDE, interpolate_missing

RECENT_DIVISOR = 4
"""The recent roughness of a target is that of the last `lookback // RECENT_DIVISOR` steps of its window."""
MIN_CHANGE = 1e-6  # smallest typical change, in standard deviations of the target

W = TypeVar("W", bound="WindowData")


@dataclass(eq=False, repr=False)
class WindowData:
    """Forecasting windows of series that are stored once.

    The target is the change from the last known value, in units of its typical change at each lead time. A batch holds
    `x`, (B, lookback, inputs); `y`, (B, horizon * targets), NaN where the target was not observed; `persistence` and
    `seasonal`, the forecasts of these baselines in the unit of `y`; and `calendar`.
    """

    values: Tensor  # (rows, inputs), standardised; NaN where a value is missing, which needs `bounds`
    ends: Tensor
    """forecast origins, the last row of each window. Without `bounds` windows are complete: take the origins from
    `window_ends` with a history of at least `lookback` and `season`"""
    lookback: int  # rows of a window
    horizon: int  # rows to predict
    targets: Sequence[int]  # columns to predict
    change_std: Tensor
    """(horizon, targets), typical change at each lead time; `typical_change` of the training windows. With n further
    lead times a last known value that is a steps old, up to n, counts as such: lead time h has the unit of h + a"""
    calendar: Tensor | None = None  # (rows, features), known in advance of the forecast
    season: int = 0  # rows of a season; 0 for none
    _: KW_ONLY
    bounds: tuple[Tensor, Tensor] | None = None
    """first row, and first row after the end, of the regular stretch that each row belongs to, (rows,) both. What a
    window would see outside its stretch is NaN; its targets must have a known value in the lookback. None for complete
    windows, which are views"""
    roughness: float | None = None
    """typical root mean square step of a target. If given, the unit of `y` grows with the square root of the target's
    recent roughness over this one"""
    interpolate: bool = False  # fill missing values of `x`, for a model without missing values
    with_age: bool = False  # whether `calendar` has one more number, the logarithm of 1 + `age` of the first target
    hidden: Tensor | None = None
    """(windows, inputs), how many of its last steps a window does not see, as in an outage; needs `bounds`"""

    def __post_init__(self):
        rows = len(self.values)
        self._start, self._stop = self.bounds or torch.tensor([[0], [rows]]).expand(2, rows)
        self._target, self._back = self.values[:, list(self.targets)], torch.arange(1 - self.lookback, 1)
        if self.bounds is None:
            self._check_complete()
            self._views = self.values.unfold(0, self.lookback, 1)  # (rows - lookback + 1, inputs, lookback), no copy

    def __len__(self) -> int:
        return len(self.ends)

    def with_ends(self: W, ends: Tensor, hidden: Tensor | None = None) -> W:
        """Windows of the same series that end elsewhere."""
        other = copy.copy(self)
        other.ends, other.hidden = ends, hidden
        if other.bounds is None:
            other._check_complete()
        return other

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The windows with these numbers."""
        end = self.ends[rows]
        last, unit = self._last_and_unit(rows)
        if self.bounds is None:
            x = self._views[end - self.lookback + 1].mT
        else:
            x = self._at(self.values, end, self._back)
            x = x if self.hidden is None else _hide(x, self.hidden[rows], self._back)
            x = interpolate_missing(x) if self.interpolate else x
        out = {"x": x, "y": ((self.future(end) - last) / unit).flatten(1)}
        out["persistence"] = torch.zeros_like(out["y"])
        if self.season:  # as few whole seasons as possible before each lead time; the last value where it is not known
            steps = torch.arange(self.horizon)
            seasons = 1 + torch.div(steps, self.season, rounding_mode="floor")
            before = self._seen_targets(rows, 1 + steps - self.season * seasons)
            out["seasonal"] = ((torch.where(before.isnan(), last, before) - last) / unit).flatten(1)
        known = [] if self.calendar is None else [self.calendar[end]]
        if self.with_age:
            known.append(self.age(rows)[:, :1].log1p().to(self.values))
        if known:
            out["calendar"] = torch.cat(known, 1)
        return out

    def offset_and_scale(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Offset and scale, (B, horizon * targets) both, that take `y` back to the unit of `values`."""
        last, unit = self._last_and_unit(rows)
        shape = (len(last), self.horizon, len(self.targets))
        return last.expand(shape).flatten(1), unit.expand(shape).flatten(1)

    def age(self, rows: Tensor) -> Tensor:
        """Steps since the last known value of each target, (B, targets); `lookback` if no value is known."""
        return steps_since_known(self._seen_targets(rows, self._back))

    def known(self, rows: Tensor) -> Tensor:
        """Number of known values of the first target in each window, (B,)."""
        return (~self._seen_targets(rows, self._back)[..., 0].isnan()).sum(1)

    def future(self, end: Tensor) -> Tensor:
        """Observed values after these rows, (B, horizon, targets); NaN where they are not known."""
        return self._at(self._target, end, torch.arange(1, self.horizon + 1))

    def _last_and_unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """See `last_and_unit`."""
        if self.bounds is None and self.roughness is None:
            return self._target[self.ends[rows][:, None]], self.change_std  # nothing is missing: one row is enough
        past = self._seen_targets(rows, self._back)
        return last_and_unit(past, self.change_std, self.horizon, self.roughness)

    def _seen_targets(self, rows: Tensor, offsets: Tensor) -> Tensor:
        """Targets at offsets of at most 0 from the ends of windows, (B, offsets, targets); NaN where not known."""
        past = self._at(self._target, self.ends[rows], offsets)
        return past if self.hidden is None else _hide(past, self.hidden[rows][:, list(self.targets)], offsets)

    def _at(self, values: Tensor, end: Tensor, offsets: Tensor) -> Tensor:
        """Values at offsets from these rows, (B, offsets, columns); NaN outside the stretch that a row belongs to."""
        rows = end[:, None] + offsets
        outside = (rows < self._start[end, None]) | (rows >= self._stop[end, None])
        return values[rows.clamp(0, len(values) - 1)].masked_fill(outside[..., None], torch.nan)

    def _check_complete(self) -> None:
        """Refuse windows that would begin before the first row or end after the last one."""
        ends, first, last = self.ends, max(self.lookback, self.season) - 1, len(self.values) - self.horizon - 1
        if len(ends) and not first <= int(ends.min()) <= int(ends.max()) <= last:
            raise ValueError(
                f"`ends` must be from {first} to {last}: a window of {self.lookback} rows and a season of "
                f"{self.season} come before a forecast, {self.horizon} rows after it. Got {int(ends.min())} to "
                f"{int(ends.max())} instead. Take them from `window_ends(segments, max(lookback, season), horizon)`."
            )


def _hide(values: Tensor, hidden: Tensor, offsets: Tensor) -> Tensor:  # b l v, b v, l -> b l v
    return values.masked_fill(offsets[:, None] > -hidden[:, None], torch.nan)


def last_and_unit(
    past: Tensor, change_std: Tensor, horizon: int, roughness: float | None = None
) -> tuple[Tensor, Tensor]:
    """Last known values, (B, 1, targets), and the unit of changes from them, (B, horizon, targets).

    `past` has the windows of the targets, (B, lookback, targets), NaN where a value is missing; see `WindowData`.
    """
    age = steps_since_known(past).clamp(max=len(change_std) - horizon)[:, None]  # b 1 t
    lead = age + torch.arange(horizon, device=past.device)[:, None]
    unit = change_std[lead, torch.arange(past.shape[2], device=past.device)]
    past = interpolate_missing(past)
    if roughness is None:
        return past[:, -1:], unit
    lookback = past.shape[1]
    recent = min(lookback, max(2, lookback // RECENT_DIVISOR))  # values up to the last known one
    places = torch.arange(lookback - recent, lookback, device=past.device)[:, None]
    steps = past.gather(1, places - age.clamp(max=lookback - recent)).diff(dim=1)
    mean_square = steps.square().sum(1, keepdim=True) / max(1, steps.shape[1])
    return past[:, -1:], (mean_square / roughness**2 + MIN_RELATIVE_AMPLITUDE**2) ** 0.25 * unit


def steps_since_known(past: Tensor) -> Tensor:  # b l t -> b t
    """Number of NaN after the last value."""
    lookback = past.shape[1]
    places = torch.arange(lookback, device=past.device)[:, None]
    return lookback - 1 - torch.where(past.isnan(), -1, places).amax(1)


def typical_change(values: Tensor, ends: Tensor, horizon: int, targets: Sequence[int]) -> Tensor:
    """Root mean square change from the last value at each lead time, (horizon, targets), of complete windows."""
    chosen = values[:, list(targets)]
    last = chosen[ends]
    steps = [(chosen[ends + step] - last).square().mean(0).sqrt() for step in range(1, horizon + 1)]
    return torch.stack(steps).clamp(min=MIN_CHANGE)


def window_ends(segments: np.ndarray, history: int, horizon: int, complete: np.ndarray | None = None) -> Tensor:
    """Forecast origins whose window and horizon lie in one segment.

    Args:
        segments: (rows,), number of the regular stretch, bearing or drive each row belongs to; equal and adjacent rows
            belong together. Pass zeros to let windows run across all rows.
        history: rows needed up to and including the origin.
        horizon: rows needed after it.
        complete: (rows,), False where a row may be in no window, for instance because a value is missing.
    """
    span = history + horizon
    first = np.arange(len(segments) - span + 1)
    stretch = np.concatenate([[0], np.cumsum(segments[1:] != segments[:-1])])
    inside = stretch[first + span - 1] == stretch[first]
    if complete is not None:
        excluded = np.concatenate([[0], np.cumsum(~complete)])  # among the rows before each one
        inside &= excluded[first + span] == excluded[first]
    return torch.from_numpy(first[inside] + history - 1)
