"""Times of a series: dates become whole nanoseconds since 1970 in UTC, numbers become floats, and so do steps."""
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false
# (the type checker takes a column of a frame for a frame)

import contextlib
import warnings
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

MIN_EQUAL_GAPS = 0.75
"""Share of the gaps near the median that must equal it for the median to be the step; otherwise their mean is."""


def read_times(column: pd.Series, name: str) -> tuple[np.ndarray, Any]:
    """Times as whole nanoseconds or floats, and the dtype of their column."""
    column = _parse(column, name)
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(f"Time column {name!r} must have a time in every row. Row {first_true(missing)} is empty.")
    if types.is_datetime64_any_dtype(column):
        utc = column if column.dt.tz is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
        return utc.astype("datetime64[ns]").to_numpy().astype(np.int64), column.dtype
    times = column.to_numpy(dtype=np.float64)
    if not np.isfinite(times).all():
        bad = first_true(~np.isfinite(times))
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
    example = f" Row {first_true(bad)} has {column.iloc[first_true(bad)]!r}." if bad.any() else ""
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
    """The median gap between rows of a series, or the mean of those near it if few equal it (a month has 30.4 days).

    Args:
        times: (rows,), sorted within each series.
        codes: (rows,), number of the series.
    """
    gaps = np.diff(times)[np.diff(codes) == 0].astype(np.float64)
    if not len(gaps):
        raise ValueError("`step` must be given if no series has two rows. Got None instead.")
    median = np.median(gaps)
    near = gaps[(gaps >= 0.5 * median) & (gaps <= 1.5 * median)]
    step = median if (np.abs(near - median) < 1e-6 * median).mean() > MIN_EQUAL_GAPS else near.mean()
    return max(1, round(step)) if times.dtype == np.int64 else float(step)


def parse_step(step: Any, dated: bool) -> float | int:
    """The argument `step` in the unit of the times: a text if they are dates, otherwise a number."""
    if dated:
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


def first_true(flags: Any) -> int:
    """Number of the first row that is flagged."""
    return int(np.argmax(np.asarray(flags)))
