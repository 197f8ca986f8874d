"""Forecasts at any time within the horizon."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac.estimators.times import describe_times, format_step, read_times, restore_times


def lead_times(
    at: Any, last: np.ndarray, step: float | int, horizon: int, time_dtype: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Times and lead times, (series, times) both.

    Args:
        at: one time, or several, as the time column has them.
        last: (series,), last time of each series.
        step: of the forecaster; lead times are in steps.
        horizon: the largest lead time.
        time_dtype: of the time column.
    """
    column = pd.Series(at if isinstance(at, (pd.Series, pd.Index, np.ndarray, list, tuple)) else [at])
    times, given = read_times(column.reset_index(drop=True), "at")
    if describe_times(given) != describe_times(time_dtype):
        raise ValueError(
            f"`at` must be {describe_times(time_dtype)}, as the time column. Got {describe_times(given)} instead."
        )
    times = np.broadcast_to(times, (len(last), len(times)))
    lead = (times - last[:, None]) / step
    bad = (lead <= 0) | (lead > horizon + 1e-9)
    if bad.any():
        series, which = np.argwhere(bad)[0]
        first, final = restore_times(last[series] + np.array([0, horizon]) * step, time_dtype)
        raise ValueError(
            f"`at` must be after {first}, the last row, and no later than {final}, {horizon} steps of "
            f"{format_step(step)} after it. Got {column.iloc[which]} instead. Fit with a longer `horizon`, or "
            "pass a frame that ends at another time."
        )
    return times, lead


def interpolate_steps(steps: Tensor, start: Tensor, lead: np.ndarray) -> Tensor:
    """Values at fractional lead times, (..., series, times), by linear interpolation.

    Args:
        steps: (..., series, horizon), values at the lead times 1, 2, ...
        start: (series,), values at lead time 0.
        lead: (series, times), lead times in steps.
    """
    first = start[:, None].expand(*steps.shape[:-1], 1)
    path = torch.cat([first, steps], -1)
    left = np.clip(np.floor(lead), 0, steps.shape[-1] - 1).astype(np.int64)
    index = torch.as_tensor(left).expand(*steps.shape[:-1], -1)
    share = torch.as_tensor(lead) - index
    a, b = path.gather(-1, index), path.gather(-1, index + 1)
    return a + share * (b - a)
