"""Offsets and scales of a series: what its inputs, steps and changes are standardised with."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.grid import Grid
from nsac.estimators.windows import WindowShape, subsample
from nsac.models.windows import interpolate_missing
from nsac.training import WindowData

MAX_SCALING_WINDOWS = 4096
"""Windows from which roughness and amplitudes are estimated, at most."""
SCALING_CHUNK, CHANGE_CHUNK = 256, 4096
"""Windows in memory at once."""


@dataclass(frozen=True)
class SeriesScaling:
    """Statistics of the training split."""

    offset: np.ndarray
    """(inputs,), mean"""
    scale: np.ndarray
    """(inputs,), standard deviation; 1 for a constant"""
    roughness: float
    """typical root mean square step of the target in a window, in `scale`"""
    change: np.ndarray
    """(horizon,), root mean square of the change from the last known value, see `nsac.training.WindowData`"""

    def standardise(self, values: np.ndarray) -> np.ndarray:
        """From the unit of the inputs, (slots, inputs)."""
        return (values - self.offset) / self.scale


def fit_scaling(
    grid: Grid, values: np.ndarray, past: np.ndarray, shape: WindowShape
) -> tuple[SeriesScaling, np.ndarray]:
    """Scaling with `change` 1, and typical amplitudes of the inputs.

    An amplitude is the root mean square of a window's differences to its last value, in `scale`.

    Args:
        grid: the series.
        values: (slots, inputs), those of the grid and further inputs.
        past: (slots,), whether a slot belongs to the training split.
        shape: of the windows.
    """
    known = np.where(np.isnan(values[past]).all(0), 0.0, values[past])  # an input may begin later
    scale = np.where(np.nanmax(known, 0) > np.nanmin(known, 0), np.nanstd(known, 0), 1.0)
    offset = np.nanmean(known, 0)
    ends = subsample(np.flatnonzero(past & shape.usable(grid)), MAX_SCALING_WINDOWS)
    amplitudes, roughness = [], []
    for block in np.array_split(ends, -(-len(ends) // SCALING_CHUNK)):
        back = block[:, None] + np.arange(1 - shape.lookback, 1)
        x = np.where((back < grid.start[block, None])[..., None], np.nan, values[np.maximum(back, 0)])
        x = interpolate_missing(torch.as_tensor((x - offset) / scale))
        amplitudes.append((x - x[:, -1:]).square().mean(1).sqrt())
        roughness.append((x[..., 0].diff(dim=1).square().sum(1) / max(1, shape.lookback - 1)).sqrt())
    scaling = SeriesScaling(offset, scale, float(_typical(torch.cat(roughness))), np.ones(shape.horizon))
    return scaling, _typical(torch.cat(amplitudes)).numpy()


def rms_change(windows: WindowData, rows: np.ndarray) -> np.ndarray:
    """Root mean square of `y` at each lead time, (horizon,), for windows whose `change_std` is 1.

    `nsac.training.typical_change` is the same for complete windows of constant roughness; this one skips missing
    values, and replaces a change of 0 by the mean of the others.
    """
    total = torch.zeros(windows.horizon, dtype=torch.float64)
    count = torch.zeros(windows.horizon, dtype=torch.float64)
    for chunk in torch.from_numpy(rows).split(CHANGE_CHUNK):
        y = windows.batch(chunk)["y"].double()
        total, count = total + y.square().nansum(0), count + (~y.isnan()).sum(0)
    change = (total / count.clamp(min=1)).sqrt()
    positive = change[change > 0]
    return torch.where(change > 0, change, positive.mean() if len(positive) else 1.0).numpy()


def _typical(sizes: Tensor) -> Tensor:
    """Median over rows; the root mean square if most are 0, and 1 if all are."""
    median, rms = sizes.median(0).values, sizes.square().mean(0).sqrt()
    typical = torch.where(median > 0, median, rms)
    return torch.where(typical > 0, typical, 1.0)
