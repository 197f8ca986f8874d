"""Regular grids with holes, and windows of them that are cut when a batch asks for them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.records import Record, show_times
from nsac.models.windows import MIN_RELATIVE_AMPLITUDE, interpolate_missing

DAY = 86_400 * 10**9
CYCLES = {"day": DAY, "week": 7 * DAY, "year": round(365.2425 * DAY)}
"""Nanoseconds of the cycles a calendar has."""
SEEN, RESOLVED = 2, 4
"""A cycle counts if the record goes round that often, and if it has that many steps."""
APART, RARE = 0.05, 0.01
"""A record is irregular if more than the second share of its rows lie more than the first share of a step off."""
LATELY = 4
"""How rough a series was lately is seen in the last quarter of a window."""
ROOM = 4
"""Slots of a grid per row of the record, at most: longer holes are cut out."""


@dataclass(frozen=True)
class Grid:
    """Regular stretches, one after the other; every slot has the mean of the rows nearest to it, or NaN."""

    values: np.ndarray
    """(slots, inputs), float64"""
    offset: np.ndarray
    """(slots,), how far off its slot an observation was, in steps; NaN where there is none"""
    times: np.ndarray
    """(slots,)"""
    codes: np.ndarray
    """(slots,), number of the series"""
    start: np.ndarray
    """(slots,), first slot of the stretch"""
    stop: np.ndarray
    """(slots,), first slot after it"""
    irregular: bool
    """whether many rows are off their slots"""


def to_grid(record: Record, step: float | int, longest: int | None, to_last: bool = False) -> Grid:
    """Put every row into its nearest slot.

    Args:
        record: rows.
        step: between slots.
        longest: a hole of more steps begins a new stretch; None for one stretch per series.
        to_last: count slots from the last row of a stretch, not from the first.
    """
    times, codes, rows = record.times, record.codes, len(record.times)
    gaps = np.diff(times) / step
    same = np.diff(codes) == 0
    breaks = np.flatnonzero(~same | (gaps > (np.inf if longest is None else _affordable(gaps[same], longest, rows))))
    first, last = np.append(0, breaks + 1), np.append(breaks, rows - 1)
    stretch = np.repeat(np.arange(len(first)), last - first + 1)
    if to_last:
        place = -(times[last][stretch] - times) / step
        lowest = np.rint(place[first]).astype(np.int64)
        slot = np.rint(place).astype(np.int64) - lowest[stretch]
        origin = times[last] + lowest * step
    else:
        place = (times - times[first][stretch]) / step
        slot, origin = np.rint(place).astype(np.int64), times[first]
    off = place - np.rint(place)
    lengths = slot[last] + 1
    start = np.concatenate([[0], np.cumsum(lengths)])
    where, slots = start[stretch] + slot, int(start[-1])
    which = np.repeat(np.arange(len(first)), lengths)
    values = np.stack([_slot_means(column, where, slots) for column in record.values.T], 1)
    within = np.arange(slots) - start[which]
    return Grid(
        values, _slot_means(off, where, slots), origin[which] + within * step,
        codes[first][which], start[which], start[which + 1],
        bool((np.abs(off) > APART).mean() > RARE),
    )  # fmt: skip


def _affordable(gaps: np.ndarray, longest: float, rows: int) -> float:
    """The longest hole to bridge, if all shorter ones are bridged too and there is room for so many slots."""
    gaps = np.sort(gaps[gaps <= longest])
    few = int(np.searchsorted(np.cumsum(gaps), ROOM * rows))
    return np.nextafter(gaps[few], 0) if few < len(gaps) else longest


def cycles_in(times: np.ndarray, step: float | int) -> list[str]:
    """Cycles that a record of dates goes round twice or more, and in more than a few steps; none for numbers."""
    if times.dtype != np.int64:
        return []
    span = int(times.max()) - int(times.min())
    return [name for name, length in CYCLES.items() if span >= SEEN * length and step * RESOLVED <= length]


def calendar_of(times: np.ndarray, stamps: Any, cycles: Sequence[str]) -> np.ndarray:
    """Sine and cosine of each cycle at the local time, (times, 2 * cycles)."""
    local = times
    zone = getattr(stamps, "tz", None)
    if zone is not None and cycles:
        local = show_times(times, stamps).dt.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    angles = [2 * np.pi * (local % CYCLES[name]) / CYCLES[name] for name in cycles]
    parts = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
    return np.stack(parts, 1) if parts else np.zeros((len(times), 0))


@dataclass
class Windows:
    """Forecasting windows of a grid that is kept once.

    The target, the first input, is to be predicted as the change from its last known value, in units of `change` times
    the square root of how rough it was lately. A batch holds `x`, (B, lookback, inputs); `y`, (B, horizon), NaN where
    nothing was observed; `persistence` and `seasonal`, naive forecasts in the unit of `y`; and `calendar`. Before its
    stretch a window has NaN.
    """

    values: Tensor
    """(slots, inputs), standardised"""
    start: Tensor
    stop: Tensor
    """(slots,), see `Grid`"""
    calendar: Tensor
    """(slots, numbers)"""
    ends: Tensor
    """slots at which forecasts are made"""
    lookback: int
    change: Tensor
    """(horizon,), typical change at each step ahead"""
    rough: float = 1.0
    """typical step of the target"""
    season: int = 0
    """steps of a day; 0 for none"""
    fill: bool = False
    """whether holes of `x` are filled, for a model that knows none"""
    last: Tensor = field(init=False)
    """(slots,), last known value of the target"""

    def __post_init__(self):
        target = self.values[:, 0]
        known = torch.where(target.isnan(), 0, torch.arange(len(target)))
        self.last = target[known.cummax(0).values]

    def __len__(self) -> int:
        return len(self.ends)

    def at(self, ends: Tensor) -> "Windows":
        """Other windows of the same grid."""
        chosen = object.__new__(Windows)
        chosen.__dict__.update(self.__dict__, ends=ends)
        return chosen

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The windows with these numbers."""
        end = self.ends[rows]
        x, (last, scale) = self._past(end, slice(None)), self.level(rows)
        out = {"x": interpolate_missing(x) if self.fill else x, "y": (self.goals(end) - last) / scale}
        out["persistence"] = torch.zeros_like(out["y"])
        if self.season:
            ahead = torch.arange(1, len(self.change) + 1)
            before = end[:, None] + ahead - self.season * torch.div(ahead - 1 + self.season, self.season).floor().long()
            old = self.values[before.clamp(min=0), 0]
            old = torch.where((before < self.start[end, None]) | old.isnan(), last, old)
            out["seasonal"] = (old - last) / scale
        if self.calendar.shape[1]:
            out["calendar"] = self.calendar[end]
        return out

    def level(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Shift and scale, (B, 1) and (B, horizon), that take `y` back to the unit of `values`."""
        end = self.ends[rows]
        lately = interpolate_missing(self._past(end, slice(0, 1)))[:, -max(2, self.lookback // LATELY) :, 0]
        step = lately.diff(dim=1).square().sum(1, keepdim=True) / max(1, lately.shape[1] - 1)
        return self.last[end, None], (step / self.rough**2 + MIN_RELATIVE_AMPLITUDE**2) ** 0.25 * self.change

    def _past(self, end: Tensor, inputs: slice) -> Tensor:
        back = end[:, None] + torch.arange(1 - self.lookback, 1)
        x = self.values[:, inputs][back.clamp(min=0)]
        return x.masked_fill((back < self.start[end, None])[..., None], torch.nan)

    def goals(self, end: Tensor) -> Tensor:
        """What came after these slots, (B, horizon); NaN where it is not known."""
        ahead = end[:, None] + torch.arange(1, len(self.change) + 1)
        goal = self.values[ahead.clamp(max=len(self.values) - 1), 0]
        return goal.masked_fill(ahead >= self.stop[end, None], torch.nan)


def counts_within(flags: np.ndarray, first: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """How many flags are set from `first` to before `stop`, for each pair."""
    total = np.concatenate([[0], np.cumsum(flags)])
    return total[stop] - total[first]


def _slot_means(values: np.ndarray, where: np.ndarray, slots: int) -> np.ndarray:
    known = ~np.isnan(values)
    count = np.bincount(where[known], minlength=slots)
    total = np.bincount(where[known], weights=values[known], minlength=slots)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
