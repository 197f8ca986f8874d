"""Times of a series, its calendar and lead times.

Dates become whole nanoseconds since 1970 in UTC, numbers become floats, and so do steps.
"""
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false
# (the type checker takes a column of a frame for a frame)

import contextlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from pandas.api import types
from torch import Tensor

MIN_EQUAL_GAPS = 0.75
"""Share of the gaps near the median that must equal it for the median to be the step; otherwise their mean is."""
DAY = 86_400 * 10**9
CYCLES = {"day": DAY, "week": 7 * DAY, "year": round(365.2425 * DAY)}  # of the calendar, in nanoseconds
MIN_CYCLES, MIN_STEPS_PER_CYCLE = 2, 4  # a cycle is used if the series spans it this often, in this many steps each


def read_times(column: pd.Series, name: str) -> tuple[np.ndarray, Any]:
    """Times as whole nanoseconds or floats, and the dtype of their column."""
    column = _parse(column, name)
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(f"Time column {name!r} must have a time in every row. Row {np.argmax(missing)} is empty.")
    if types.is_datetime64_any_dtype(column):
        utc = column if column.dt.tz is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
        return utc.astype("datetime64[ns]").to_numpy().astype(np.int64), column.dtype
    times = column.to_numpy(dtype=np.float64)
    if not np.isfinite(times).all():
        bad = np.argmax(~np.isfinite(times))
        raise ValueError(f"Time column {name!r} must hold finite numbers. Row {bad} has {times[bad]}.")
    return times, np.dtype(np.float64)


def _parse(column: pd.Series, name: str) -> pd.Series:
    if types.is_object_dtype(column) and column.map(lambda v: isinstance(v, (int, float))).all():
        column = column.astype(float)
    if types.is_bool_dtype(column):
        raise ValueError(f"Time column {name!r} must hold dates or numbers. Got booleans instead.")
    if types.is_numeric_dtype(column) or types.is_datetime64_any_dtype(column):
        return column
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas warns when it has to guess the format
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            parsed = pd.to_datetime(column)
            if types.is_datetime64_any_dtype(parsed):
                return parsed
        bad = pd.to_datetime(column, errors="coerce", format="mixed", utc=True).isna() & column.notna()
    example = f" Row {np.argmax(bad)} has {column.iloc[np.argmax(bad)]!r}." if bad.any() else ""
    raise ValueError(
        f"Time column {name!r} must hold dates, of one zone, or numbers.{example} Convert it, for instance with "
        "`pandas.to_datetime`."
    )


def restore_times(times: np.ndarray, dtype: Any) -> pd.Series:
    """Times as their column had them; `dtype` is that of `read_times`."""
    if times.dtype != np.int64:
        return pd.Series(times)
    dates = pd.Series(times.astype("datetime64[ns]"))
    zone = getattr(dtype, "tz", None)
    return dates if zone is None else dates.dt.tz_localize("UTC").dt.tz_convert(zone)


def describe_times(dtype: Any) -> str:
    """What a time column of this dtype holds, for messages."""
    if dtype == np.dtype(np.float64):
        return "numbers"
    return "dates without a zone" if getattr(dtype, "tz", None) is None else "dates with a zone"


def typical_step(times: np.ndarray, codes: np.ndarray) -> float | int:
    """The median gap between rows of a series, or the mean of those near it if few equal it (a month has 30.4 days)."""
    gaps = np.diff(times)[np.diff(codes) == 0].astype(np.float64)
    if not len(gaps):
        raise ValueError("`step` must be given if no series has two rows. Got None instead.")
    median = np.median(gaps)
    near = gaps[(gaps >= 0.5 * median) & (gaps <= 1.5 * median)]
    step = median if (np.abs(near - median) < 1e-6 * median).mean() > MIN_EQUAL_GAPS else near.mean()
    return max(1, round(step)) if times.dtype == np.int64 else float(step)


def parse_step(step: Any, times: np.ndarray, codes: np.ndarray) -> float | int:
    """The argument `step` in the unit of the times: a text if they are dates, otherwise a number; None is typical."""
    if step is None:
        return typical_step(times, codes)
    if times.dtype == np.int64:
        try:
            length = pd.Timedelta(step).value if isinstance(step, str) else 0
        except ValueError:
            length = 0
        if length <= 0:
            raise ValueError(f"`step` must be a text such as '15min', as the times are dates. Got {step!r} instead.")
        return length
    if isinstance(step, bool) or not isinstance(step, (int, float)) or not 0 < step < np.inf:
        raise ValueError(f"`step` must be a finite number above 0, as the times are numbers. Got {step!r} instead.")
    return float(step)


def format_step(step: float | int) -> str:
    """A step for messages."""
    return str(pd.Timedelta(step)) if isinstance(step, int) else f"{step:g}"


def detect_cycles(times: np.ndarray, step: float | int) -> list[str]:
    """Cycles that a series of dates spans at least twice, in at least four steps; none if times are numbers."""
    if times.dtype != np.int64:
        return []
    longest, shortest = (int(times.max()) - int(times.min())) // MIN_CYCLES, step * MIN_STEPS_PER_CYCLE
    return [name for name, length in CYCLES.items() if shortest <= length <= longest]


def calendar_features(times: np.ndarray, dtype: Any, cycles: Sequence[str]) -> np.ndarray:
    """Sine and cosine of each of these `CYCLES` at the local time, (times, 2 * cycles); `dtype` has the zone."""
    local = times
    if getattr(dtype, "tz", None) is not None and cycles:
        local = restore_times(times, dtype).dt.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    lengths = np.array([CYCLES[name] for name in cycles], dtype=np.int64)
    angle = 2 * np.pi * (local[:, None] % lengths) / lengths
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(times), 2 * len(cycles))


def lead_times(
    at: Any, last: np.ndarray, step: float | int, horizon: int, time_dtype: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Times and lead times in steps, (series, times) both, of the times `at`; `last` are those of the last rows."""
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

    `steps` are the values at lead times 1, 2, ..., (..., series, horizon), and `start` those at 0, (series,).
    """
    path = torch.cat([start[:, None].expand(*steps.shape[:-1], 1), steps], -1)
    left = np.clip(np.floor(lead), 0, steps.shape[-1] - 1).astype(np.int64)
    index = torch.as_tensor(left).expand(*steps.shape[:-1], -1)
    share = torch.as_tensor(lead) - index
    a, b = path.gather(-1, index), path.gather(-1, index + 1)
    return a + share * (b - a)
