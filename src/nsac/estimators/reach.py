"""Which windows of a grid there are, how they are dealt out, and what is typical of them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.base import Split, calibration_size
from nsac.estimators.windows import Grid, Windows, counts_within
from nsac.models.windows import interpolate_missing

SINGLE = 6
"""A single member leaves out one such part of time, the latest."""
VALIDATED = 2000
"""Windows that choose weights, at most; a block of time is thinned out evenly."""
WHOLE = 0.95
"""If this share of the windows has no hole, the others are left out, and the model does not learn about holes."""
FEWEST = 20
"""Windows it takes to fit."""
SAMPLED = 4096
"""Windows that say what is typical."""


@dataclass(frozen=True)
class Reach:
    """How far windows look, in steps."""

    lookback: int
    horizon: int

    def check(self, grid: Grid, step: str) -> None:
        """Refuse a grid that is too short."""
        longest, need = int((grid.stop - grid.start).max()), self.lookback + self.horizon
        if longest < need:
            raise ValueError(
                f"`lookback` + `horizon` must be no longer than the data. Got {self.lookback} + {self.horizon} = "
                f"{need} steps, and the longest stretch without a long hole has {longest} steps of {step}. Lower them, "
                "or pass more rows."
            )

    def usable(self, grid: Grid) -> np.ndarray:
        """Whether there is a known target both before and after a slot, within reach."""
        slots = np.arange(len(grid.times))
        known = np.isfinite(grid.values[:, 0])
        before = counts_within(known, np.maximum(grid.start, slots + 1 - self.lookback), slots + 1)
        after = counts_within(known, slots + 1, np.minimum(grid.stop, slots + 1 + self.horizon))
        return (before > 0) & (after > 0)

    def choose(self, grid: Grid) -> tuple[np.ndarray, bool]:
        """Slots to forecast from, and whether the model is to know of holes."""
        slots = np.arange(len(grid.times))
        first, stop = slots + 1 - self.lookback, slots + 1 + self.horizon
        inside = (first >= grid.start) & (stop <= grid.stop)
        absent = np.isnan(grid.values)
        hole, gap = absent.sum(1) > 0, absent[:, 0]
        whole = inside.copy()
        whole[inside] = counts_within(hole, first[inside], slots[inside] + 1) == 0
        whole[whole] = counts_within(gap, slots[whole] + 1, stop[whole]) == 0
        usable = self.usable(grid)
        if whole.sum() >= WHOLE * inside.sum() and inside.sum() >= usable.sum() / 2:
            return np.flatnonzero(whole), False
        return np.flatnonzero(usable), True

    def split(self, when: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows to learn from and rows to calibrate on, the latest; between them a gap of the horizon, or less."""
        n = len(when)
        if n < FEWEST:
            raise ValueError(
                f"`frame` must give at least {FEWEST} windows of {self.lookback} + {self.horizon} steps. Got {n} "
                "instead. Pass more rows, or lower `lookback` and `horizon`."
            )
        aside = calibration_size(n)
        calibration = np.arange(n - aside, n)
        rest = np.flatnonzero(when[: n - aside] <= when[n - aside] - self._gap(n))
        return rest if len(rest) >= n // 2 else np.arange(n - aside), calibration

    def _gap(self, n: int) -> int:
        return min(self.horizon, n // 20)

    def parts(self, rest: np.ndarray, when: np.ndarray, folds: int) -> list[Split]:
        """Time is cut into two blocks per member; member k leaves out the second of its two, and what overlaps it."""
        folds = max(1, min(folds, len(rest) // 8))
        blocks = np.array_split(rest, 2 * folds)[1::2] if folds > 1 else [rest[-(len(rest) // SINGLE) :]]
        gap = self._gap(len(when))
        far = [(when[rest] <= when[b[0]] - gap) | (when[rest] >= when[b[-1]] + gap) for b in blocks]
        return [(rest[ok], thinned(block, VALIDATED)) for ok, block in zip(far, blocks, strict=True)]


class Scales(NamedTuple):
    """What is typical of a record."""

    centre: np.ndarray  # (inputs,), mean
    unit: np.ndarray  # (inputs,), deviation
    rough: float  # of the target: root mean square of its steps in a window, in `unit`
    amplitudes: np.ndarray  # (inputs,), root mean square of a window's differences to its last value, in `unit`


def typical_scales(grid: Grid, values: np.ndarray, past: np.ndarray, reach: Reach) -> Scales:
    """From the slots that are `past`; `values` are those of the grid, and what else is an input."""
    known = np.where(np.isnan(values[past]).all(0), 0.0, values[past])  # an input may begin later
    unit = np.where(np.nanmax(known, 0) > np.nanmin(known, 0), np.nanstd(known, 0), 1.0)
    centre = np.nanmean(known, 0)
    some, sizes, steps = thinned(np.flatnonzero(past & reach.usable(grid)), SAMPLED), [], []
    for block in np.array_split(some, -(-len(some) // 256)):
        back = block[:, None] + np.arange(1 - reach.lookback, 1)
        x = np.where((back < grid.start[block, None])[..., None], np.nan, values[np.maximum(back, 0)])
        x = interpolate_missing(torch.as_tensor((x - centre) / unit))
        sizes.append((x - x[:, -1:]).square().mean(1).sqrt())
        steps.append((x[..., 0].diff(dim=1).square().sum(1) / max(1, reach.lookback - 1)).sqrt())
    return Scales(centre, unit, float(_typical(torch.cat(steps))), _typical(torch.cat(sizes)).numpy())


def thinned(rows: np.ndarray, most: int) -> np.ndarray:
    """Evenly spaced rows, the last one among them."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).round().astype(np.int64)]


def typical_change(windows: Windows, rows: np.ndarray) -> np.ndarray:
    """Root mean square of `y` at each step ahead, where `change` is 1."""
    total, count = torch.zeros(2, len(windows.change), dtype=torch.float64)
    for some in torch.from_numpy(rows).split(4096):
        y = windows.batch(some)["y"].double()
        total, count = total + y.square().nansum(0), count + (~y.isnan()).sum(0)
    size = (total / count.clamp(min=1)).sqrt()
    return torch.where(size > 0, size, size[size > 0].mean() if (size > 0).any() else 1.0).numpy()


def _typical(sizes: Tensor) -> Tensor:
    """Median over rows; the root mean square if most are 0, and 1 if all are."""
    median, rms = sizes.median(0).values, sizes.square().mean(0).sqrt()
    typical = torch.where(median > 0, median, rms)
    return torch.where(typical > 0, typical, 1.0)
