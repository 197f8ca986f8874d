"""From a frame with a time column to a record: checked, and sorted by series and time.

Times are whole nanoseconds (dates, in UTC) or floats (numbers); a step is one of these too.
"""
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# (the type checker takes a column of a frame for a frame)

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

USUAL = 0.75
"""If more than this share of the gaps near the median are the median, it is the step; the others are late or early."""
LARGEST = 1e100
"""Largest number a record may hold; the square of a larger one may be infinite."""


@dataclass(frozen=True)
class Columns:
    """Which columns of a frame mean what."""

    time: str
    series: str | None
    target: str
    covariates: tuple[str, ...]

    @property
    def inputs(self) -> list[str]:
        """The target first."""
        return [self.target, *self.covariates]


@dataclass(frozen=True)
class Record:
    """Rows of a frame, sorted by series and time."""

    times: np.ndarray
    """(rows,), int64 or float64"""
    codes: np.ndarray
    """(rows,), number of the series"""
    names: list[Any]
    """of the series"""
    values: np.ndarray
    """(rows, inputs), float64; NaN where nothing was observed"""
    stamps: Any
    """dtype of the time column: dates, with or without a zone, or numbers"""

    def since(self, first: np.ndarray) -> "Record":
        """Rows no older than what is given for each series."""
        kept = self.times >= first[self.codes]
        return Record(self.times[kept], self.codes[kept], self.names, self.values[kept], self.stamps)

    @property
    def last(self) -> np.ndarray:
        """Last time of each series."""
        return self.times[np.append(np.flatnonzero(np.diff(self.codes)), len(self.codes) - 1)]


def find_columns(
    frame: pd.DataFrame, time: str, series: str | None, target: str, covariates: Sequence[str] | None
) -> Columns:
    """Check names; by default every other column that holds numbers is a covariate, and columns of text are none."""
    _check_frame(frame)
    frame = _with_time(frame, time)
    named = {"target": target, "time": time} | ({"series": series} if series is not None else {})
    for role, name in named.items():
        _check_column(frame, role, name)
    if len(set(named.values())) < len(named):
        raise ValueError(f"`target`, `time` and `series` must be different columns. Got {named} instead.")
    if covariates is None:
        others = [name for name in frame.columns if name not in named.values()]
        covariates = [name for name in others if _holds_numbers(frame[name])]
    for name in covariates:
        _check_column(frame, "covariates", name)
        if name in named.values():
            raise ValueError(f"`covariates` must be other columns than {named}. Got {name!r} instead. Leave it out.")
    return Columns(time, series, target, tuple(covariates))


def read_record(frame: pd.DataFrame, columns: Columns) -> Record:
    """Check all values and sort by series; whatever is wrong is said with its column and row."""
    _check_frame(frame)
    frame = _with_time(frame, columns.time)
    for role, name in (("time", columns.time), ("target", columns.target), ("series", columns.series)):
        if name is not None:
            _check_column(frame, role, name)
    for name in columns.covariates:
        _check_column(frame, "covariates", name)
    times, stamps = read_times(frame[columns.time], columns.time)
    if columns.series is None:
        codes, names = np.zeros(len(frame), dtype=np.int64), [None]
    else:
        codes, names = pd.factorize(frame[columns.series], sort=False)
        if (codes < 0).any():
            raise ValueError(f"Column {columns.series!r} must name a series. Row {_first(codes < 0)} is empty.")
        codes, names = codes.astype(np.int64), list(names)
    _check_order(times, codes, frame, columns)
    values = np.stack([_numbers(frame[name], name) for name in columns.inputs], 1)
    order = np.argsort(codes, kind="stable")
    return Record(times[order], codes[order], names, values[order], stamps)


def read_times(column: pd.Series, name: str) -> tuple[np.ndarray, Any]:
    """Times as whole nanoseconds or floats, and their dtype."""
    column = _parsed(column, name)
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(f"Time column {name!r} must have a time in every row. Row {_first(missing)} is empty.")
    if types.is_datetime64_any_dtype(column):
        plain = column if column.dt.tz is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
        return plain.astype("datetime64[ns]").to_numpy().astype(np.int64), column.dtype
    times = column.to_numpy(dtype=np.float64)
    if not np.isfinite(times).all():
        bad = _first(~np.isfinite(times))
        raise ValueError(f"Time column {name!r} must hold finite numbers. Row {bad} has {times[bad]}.")
    return times, np.dtype(np.float64)


def _parsed(column: pd.Series, name: str) -> pd.Series:
    if types.is_object_dtype(column) and column.map(lambda v: isinstance(v, (int, float))).all():
        column = column.astype(float)
    if types.is_bool_dtype(column):
        raise ValueError(f"Time column {name!r} must hold dates or numbers. Got booleans instead.")
    if types.is_numeric_dtype(column) or types.is_datetime64_any_dtype(column):
        return column
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that pandas had to guess the format
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            parsed = pd.to_datetime(column)
            if types.is_datetime64_any_dtype(parsed):
                return parsed
        bad = pd.to_datetime(column, errors="coerce", format="mixed", utc=True).isna() & column.notna()
    place = f" Row {_first(bad)} has {column.iloc[_first(bad)]!r}." if bad.any() else ""
    raise ValueError(
        f"Time column {name!r} must hold dates, of one zone, or numbers.{place} Convert it, for instance with "
        "`pandas.to_datetime`."
    )


def show_times(times: np.ndarray, stamps: Any) -> pd.Series:
    """Times as the frame had them."""
    if times.dtype != np.int64:
        return pd.Series(times)
    dates = pd.Series(times.astype("datetime64[ns]"))
    zone = getattr(stamps, "tz", None)
    return dates if zone is None else dates.dt.tz_localize("UTC").dt.tz_convert(zone)


def typical_step(record: Record) -> float | int:
    """The usual gap: the median, or the mean of those near it if few are just that; so a month has 30.4 days."""
    gaps = np.diff(record.times)[np.diff(record.codes) == 0].astype(np.float64)
    if not len(gaps):
        raise ValueError("`step` must be given if no series has two rows. Got None instead.")
    median = np.median(gaps)
    near = gaps[(gaps >= 0.5 * median) & (gaps <= 1.5 * median)]
    step = median if (np.abs(near - median) < 1e-6 * median).mean() > USUAL else near.mean()
    return max(1, round(step)) if record.times.dtype == np.int64 else float(step)


def given_step(step: Any, record: Record) -> float | int:
    """A step as the user gave it, in the unit of the record's times."""
    if record.times.dtype == np.int64:
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


def kind_of(stamps: Any) -> str:
    """What a time column of this dtype holds."""
    if stamps == np.dtype(np.float64):
        return "numbers"
    return "dates without a zone" if getattr(stamps, "tz", None) is None else "dates with a zone"


def _check_frame(frame: Any) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"`frame` must be a pandas DataFrame. Got {type(frame).__name__} instead.")
    if not len(frame):
        raise ValueError(f"`frame` must have rows. Got 0 rows of the columns {list(frame.columns)} instead.")


def _with_time(frame: pd.DataFrame, time: str) -> pd.DataFrame:
    return frame.reset_index() if time not in frame.columns and frame.index.name == time else frame


def _check_column(frame: pd.DataFrame, role: str, name: Any) -> None:
    if name not in frame.columns:
        raise ValueError(
            f"`{role}` must name a column of the frame. Got {name!r}, and the columns are {list(frame.columns)}."
        )
    if isinstance(frame[name], pd.DataFrame):
        raise ValueError(f"Column {name!r} must be there once. Got it {frame[name].shape[1]} times. Rename the others.")


def _holds_numbers(column: pd.Series | pd.DataFrame) -> bool:
    if isinstance(column, pd.DataFrame) or types.is_numeric_dtype(column):
        return True  # of a name that is there twice the reader will say so
    if types.is_datetime64_any_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return False
    return bool(column.isna().all() or pd.to_numeric(column, errors="coerce").notna().any())


def _numbers(column: pd.Series, name: str) -> np.ndarray:
    if not types.is_numeric_dtype(column):
        numbers = pd.Series(pd.to_numeric(column, errors="coerce"))
        text = (numbers.isna() & column.notna()).to_numpy()
        if text.any():
            raise ValueError(
                f"Column {name!r} must hold numbers. Row {_first(text)} has {column.iloc[_first(text)]!r}. "
                "Make it a number or NaN, or leave the column out with `covariates`."
            )
        column = numbers
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    large = np.abs(values) > LARGEST
    if large.any():
        raise ValueError(
            f"Column {name!r} must hold numbers of at most {LARGEST:g}, or NaN. Row {_first(large)} has "
            f"{values[_first(large)]}. Choose another unit, or make it NaN."
        )
    return values


def _check_order(times: np.ndarray, codes: np.ndarray, frame: pd.DataFrame, columns: Columns) -> None:
    order = np.argsort(codes, kind="stable")
    gaps, same = np.diff(times[order]), np.diff(codes[order]) == 0
    keys = [columns.time] if columns.series is None else [columns.series, columns.time]
    for bad, rule, way in (
        (same & (gaps < 0), "be sorted", f"Sort them with `frame.sort_values({keys})`."),
        (same & (gaps == 0), "differ", f"Keep one row each with `frame.drop_duplicates({keys})`, or average them."),
    ):
        if bad.any():
            before, row = order[_first(bad)], order[_first(bad) + 1]
            stamps = frame[columns.time].iloc[[before, row]].tolist()
            whose = "" if columns.series is None else f" of series {frame[columns.series].iloc[row]!r}"
            raise ValueError(
                f"Times in column {columns.time!r}{whose} must {rule}. Row {row} has {stamps[1]} and row {before}, "
                f"before it, {stamps[0]}. {way}"
            )


def _first(flags: Any) -> int:
    return int(np.argmax(np.asarray(flags)))
