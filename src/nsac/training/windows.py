"""Windows of a long record: views, cut when a batch asks for them."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def window_ends(segments: np.ndarray, history: int, horizon: int, whole: np.ndarray | None = None) -> Tensor:
    """Rows at which a forecast can be made: the window up to it and the horizon after it lie in one segment.

    Args:
        segments: (rows,), number of the regular stretch, bearing or drive each row belongs to; equal and adjacent rows
            belong together. Pass zeros to let windows run across everything.
        history: rows needed up to and with the forecast's own.
        horizon: rows needed after it.
        whole: (rows,), False where a row may be in no window, for instance since a value is missing.
    """
    span = history + horizon
    broken = np.zeros(len(segments), dtype=np.int64)
    broken[1:] = segments[1:] != segments[:-1]
    if whole is not None:
        broken = broken + 2 * ~whole  # a bad row counts even as the first of a window, a change of segment does not
    if len(segments) < span:
        return torch.empty(0, dtype=torch.long)
    total = np.concatenate([[0], np.cumsum(broken)])
    first = np.arange(len(segments) - span + 1)
    inside = total[first + span] - total[first]  # breaks anywhere in the window
    inside -= np.concatenate([[0], np.diff(segments) != 0])[first].astype(np.int64)  # one at its start is no break
    return torch.from_numpy(first[inside == 0] + history - 1)


class WindowData:
    """Forecasting windows of a record that is kept once.

    The target is the change from the last value, in units of `change_std`. A batch holds `x`, (B, lookback, variables);
    `y`, (B, horizon * targets); `persistence` and `seasonal`, the naive forecasts in the unit of `y`; and `calendar`.

    Args:
        values: (rows, variables), standardised.
        ends: rows at which forecasts are made: `window_ends` with a history of at least `lookback` and `season`.
        lookback: rows of a window.
        horizon: rows to predict.
        targets: columns to predict.
        change_std: (horizon, targets), typical change at each step ahead; `typical_change` of the training windows.
        calendar: (rows, numbers), what is known in advance of a forecast's row.
        season: rows of a season; 0 for none.
    """

    def __init__(
        self,
        values: Tensor,
        ends: Tensor,
        lookback: int,
        horizon: int,
        targets: Sequence[int],
        change_std: Tensor,
        calendar: Tensor | None = None,
        season: int = 0,
    ):
        first, last = max(lookback, season) - 1, len(values) - horizon - 1
        if len(ends) and not first <= int(ends.min()) <= int(ends.max()) <= last:
            raise ValueError(
                f"`ends` must be from {first} to {last}: a window of {lookback} rows and a season of {season} come "
                f"before a forecast, {horizon} rows after it. Got {int(ends.min())} to {int(ends.max())} instead. "
                "Take them from `window_ends(segments, max(lookback, season), horizon)`."
            )
        self.values, self.ends, self.lookback, self.horizon = values, ends, lookback, horizon
        self.targets, self.change_std, self.calendar, self.season = list(targets), change_std, calendar, season
        self._past = values.unfold(0, lookback, 1)  # (rows - lookback + 1, variables, lookback), no copy
        self._goals = values[:, self.targets].unfold(0, horizon, 1)

    def __len__(self) -> int:
        return len(self.ends)

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The windows with these numbers."""
        end = self.ends[rows]
        last = self.values[end][:, self.targets].unsqueeze(1)  # b 1 t
        unit = self.change_std
        out = {
            "x": self._past[end - self.lookback + 1].mT,
            "y": ((self._goals[end + 1].mT - last) / unit).flatten(1),
        }
        out["persistence"] = torch.zeros_like(out["y"])
        if self.season:
            steps = torch.arange(self.horizon)
            before = end[:, None] + 1 + steps - self.season * (1 + torch.div(steps, self.season, rounding_mode="floor"))
            out["seasonal"] = ((self.values[:, self.targets][before] - last) / unit).flatten(1)
        if self.calendar is not None:
            out["calendar"] = self.calendar[end]
        return out

    def level(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Shift and scale, (B, horizon * targets) both, that take `y` back to the unit of `values`."""
        last = self.values[self.ends[rows]][:, self.targets].unsqueeze(1)
        shape = (len(last), *self.change_std.shape)
        return last.expand(shape).flatten(1), self.change_std.expand(shape).flatten(1)


def typical_change(values: Tensor, ends: Tensor, horizon: int, targets: Sequence[int]) -> Tensor:
    """Root mean square change from the last value at each step ahead, (horizon, targets)."""
    chosen = values[:, list(targets)]
    last = chosen[ends]
    steps = [(chosen[ends + step] - last).square().mean(0).sqrt() for step in range(1, horizon + 1)]
    return torch.stack(steps).clamp(min=1e-6)
