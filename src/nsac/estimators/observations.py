"""Observations of one or several series: the rows of a frame, checked, and sorted by series and time."""
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# (the type checker takes a column of a frame for a frame)

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from nsac._checks import is_file, row_name
from nsac.estimators.times import TimeReading, read_times, resolve_reading

MAX_ABSOLUTE_VALUE = 1e100  # largest number a column may hold; the square of a larger one may be infinite
MIN_RANGE = 1e-100  # smallest difference between numbers of a column that varies; the square of a smaller one may be 0
MAX_SERIES_PER_COPY = 2  # a column of whole numbers identifies series if it has so many values per copy of a time
OUTPUT_NAMES = re.compile(r"mean|std|aleatoric|epistemic|(lower|upper|quantile)_.*")  # columns of a forecast


@dataclass(frozen=True)
class SeriesColumns:
    """Which columns of a frame mean what."""

    time: str
    series: str | None
    target: str
    covariates: tuple[str, ...]
    reading: TimeReading = TimeReading()  # of the time column

    @property
    def inputs(self) -> list[str]:
        """Columns that a model sees, the target first."""
        return [self.target, *self.covariates]


@dataclass(frozen=True)
class Observations:
    """Rows of a frame, sorted by series and time."""

    times: np.ndarray  # (rows,), int64 or float64, see `nsac.estimators.times`
    codes: np.ndarray  # (rows,), number of the series
    names: list[Any]  # names of the series; `[None]` if they have none
    values: np.ndarray  # (rows, inputs), float64; NaN where a value is missing
    time_dtype: Any  # dtype of the time column: dates, with or without a zone, or numbers

    def since(self, first: np.ndarray) -> "Observations":
        """Rows from a first time on, one per series."""
        kept = self.times >= first[self.codes]
        return replace(self, times=self.times[kept], codes=self.codes[kept], values=self.values[kept])

    @property
    def last(self) -> np.ndarray:
        """Last time of each series."""
        return self.times[np.append(np.flatnonzero(np.diff(self.codes)), len(self.codes) - 1)]


def find_columns(
    frame: pd.DataFrame,
    time: str,
    series: str | None,
    target: str,
    covariates: Sequence[str] | None,
    reading: TimeReading | None = None,
) -> SeriesColumns:
    """Check names. By default every other column of numbers is a covariate, and columns of text are left out.

    The reading is completed with what the time column decides.
    """
    columns = SeriesColumns(time, series, target, tuple(covariates or ()))
    frame = _checked(frame, columns)
    named = {"target": target, "time": time}
    if series is not None:
        named["series"] = series
    check_output_names(named)
    if len(set(named.values())) < len(named):
        raise ValueError(f"`target`, `time` and `series` must be different columns. Got {named} instead.")
    columns = replace(columns, reading=resolve_reading(frame[time], time, reading or TimeReading()))
    if covariates is None:
        others = [name for name in frame.columns if name not in named.values()]
        return replace(columns, covariates=tuple(name for name in others if holds_numbers(frame[name])))
    for name in covariates:
        if name in named.values():
            raise ValueError(f"`covariates` must be other columns than {named}. Got {name!r} instead. Leave it out.")
    return columns


def check_output_names(named: dict[str, str]) -> None:
    """Time and series are columns of a forecast, beside those of `OUTPUT_NAMES`."""
    for role in ("time", "series"):
        if OUTPUT_NAMES.fullmatch(str(named.get(role))):
            raise ValueError(
                f"`{role}` must not be a column of the forecasts (mean, std, aleatoric, epistemic, lower_*, upper_*, "
                f"quantile_*). Got {named[role]!r} instead. Rename the column."
            )


def read_observations(frame: pd.DataFrame, columns: SeriesColumns) -> Observations:
    """Check all values and sort by series and time; an error names column and row.

    Copies of a row are left out. Rows of one time with values in different columns are one row.
    """
    frame = _without_copies(_checked(frame, columns), columns)
    times, time_dtype = read_times(frame[columns.time], columns.time, columns.reading)
    codes, names = number_series(frame, columns.series)
    order = np.lexsort([times, codes])  # by series, then by time; equal times keep the order of their rows
    values = np.stack([read_numbers(frame[name], name) for name in columns.inputs], 1)
    first = np.append(True, (np.diff(times[order]) != 0) | (np.diff(codes[order]) != 0))  # of its time
    if not first.all():
        place = np.cumsum(first) - 1
        count, total = np.zeros((2, place[-1] + 1, values.shape[1]))
        np.add.at(count, place, ~np.isnan(values[order]))
        np.add.at(total, place, np.nan_to_num(values[order]))
        _check_repeated(order, place, count, frame, columns)
        values[order[first]] = np.where(count > 0, total, np.nan)
    _warn_order(codes, order, frame, columns)
    order = order[first]
    return Observations(times[order], codes[order], names, values[order], time_dtype)


def check_inputs(observations: Observations, columns: SeriesColumns) -> None:
    """Every input has a value, and the target varies."""
    for i, name in enumerate(columns.inputs):
        column = observations.values[:, i]
        if np.isnan(column).all():
            raise ValueError(f"Column {name!r} must have a value in at least one row. All are missing.")
        size = np.nanmax(column) - np.nanmin(column)
        if i == 0 and size == 0:
            raise ValueError(f"Target column {name!r} must vary. It is {np.nanmax(column):g} in every row.")
        if 0 < size < MIN_RANGE:
            raise ValueError(
                f"Column {name!r} must vary by at least {MIN_RANGE:g}. Its largest number minus its smallest is "
                f"{size:g}. Choose another unit."
            )


def _checked(frame: Any, columns: SeriesColumns) -> pd.DataFrame:
    """The frame, with the times as a column if its index holds them; every column is there, once."""
    named = [("target", columns.target), ("time", columns.time), *(("covariates", name) for name in columns.covariates)]
    if columns.series is not None:
        named.append(("series", columns.series))
    return check_frame(frame, columns.time, named)


def check_frame(frame: Any, time: str, named: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """The frame, with the times as a column if its index holds them; `named` are roles and names of its columns."""
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"`frame` must be a pandas DataFrame. Got {type(frame).__name__} instead.")
    if not len(frame):
        raise ValueError(f"`frame` must have rows. Got 0 rows of the columns {list(frame.columns)} instead.")
    if time not in frame.columns and frame.index.name == time:
        frame = frame.reset_index()
    for role, name in named:
        if name not in frame.columns:
            raise ValueError(
                f"`{role}` must name a column of the frame. Got {name!r}, and the columns are {list(frame.columns)}."
            )
        if isinstance(frame[name], pd.DataFrame):
            count = frame[name].shape[1]
            raise ValueError(f"Column {name!r} must be there once. Got it {count} times. Rename the others.")
    return frame


def _without_copies(frame: pd.DataFrame, columns: SeriesColumns) -> pd.DataFrame:
    if not frame.duplicated(columns.time).any():
        return frame
    copies = frame.duplicated().to_numpy()
    if copies.any():
        row = np.argmax(copies)
        warnings.warn(
            f"Rows that are copies of others, in all columns, are left out: {copies.sum()} of {len(frame)}. The first "
            f"is {row_name(frame, row)}, with {frame[columns.time].iloc[row]} in column {columns.time!r}.",
            stacklevel=2,
        )
    return frame.loc[~copies]


def holds_numbers(column: pd.Series | pd.DataFrame) -> bool:
    """Whether a column can be an input: it has numbers, or is empty."""
    if isinstance(column, pd.DataFrame) or types.is_numeric_dtype(column):
        return True  # a name that is there twice is refused when the values are read
    if types.is_datetime64_any_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return False
    return bool(column.isna().all() or pd.to_numeric(column, errors="coerce").notna().any())


def read_numbers(column: pd.Series, name: str) -> np.ndarray:
    """Values of a column, NaN where one is missing; text is an error that names the row."""
    numbers = pd.Series(pd.to_numeric(column, errors="coerce"))
    text = (numbers.isna() & column.notna()).to_numpy()
    if text.any():
        row = np.argmax(text)
        raise ValueError(
            f"Column {name!r} must hold numbers. {row_name(column, row).capitalize()} has {column.iloc[row]!r}. "
            "Make it a number or NaN, or leave the column out with `covariates`."
        )
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    large = np.abs(values) > MAX_ABSOLUTE_VALUE
    if large.any():
        row = np.argmax(large)
        raise ValueError(
            f"Column {name!r} must hold numbers of at most {MAX_ABSOLUTE_VALUE:g}, or NaN. "
            f"{row_name(column, row).capitalize()} has {values[row]}. Choose another unit, or make it NaN."
        )
    return values


def number_series(frame: pd.DataFrame, series: str | None) -> tuple[np.ndarray, list[Any]]:
    """Number of the series of each row, and the sorted names; `[None]` if there is one series without a name."""
    if series is None:
        return np.zeros(len(frame), dtype=np.int64), [None]
    codes, names = pd.factorize(frame[series], sort=False)
    if (codes < 0).any():
        empty = row_name(frame, int(np.argmax(codes < 0))).capitalize()
        raise ValueError(f"Column {series!r} must name a series. {empty} is empty.")
    names = names.tolist()  # numbers of Python: an error shows 1, not np.int64(1)
    several = next((name for name in names if types.is_list_like(name)), None)
    if several is not None:
        raise ValueError(
            f"Column {series!r} must name a series by a text or a number. Got {several!r} instead. Make it a text, for "
            f"instance with `frame[{series!r}].map(str)`."
        )
    order = sorted(range(len(names)), key=lambda i: _sort_key(names[i]))
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return rank[codes], [names[i] for i in order]


def _sort_key(name: Any) -> list[tuple[int, float, str]]:
    """Numbers by size, also within a text: s2 comes before s10."""
    if isinstance(name, (int, float, np.number)) and not isinstance(name, bool):
        return [(0, float(name), "")]
    parts = re.split(r"(\d+)", str(name))
    key = [(1, float(part), "") if part.isdecimal() else (2, 0.0, part) for part in parts]
    return [*key, (3, 0.0, str(name))]  # a1 and a01


def _check_repeated(
    order: np.ndarray, place: np.ndarray, count: np.ndarray, frame: pd.DataFrame, columns: SeriesColumns
) -> None:
    """A column must have at most one value at a time of a series; `count` is their number at each place."""
    repeated = np.append(False, np.diff(place) == 0) & (count.max(1)[place] > 1)
    if not repeated.any():
        return
    before, row = order[np.argmax(repeated) - 1], order[np.argmax(repeated)]
    earlier, later = frame[columns.time].iloc[[before, row]].tolist()
    whose = "" if columns.series is None else f" of series {frame[columns.series].tolist()[row]!r}"
    raise ValueError(
        f"Times in column {columns.time!r}{whose} must differ. {row_name(frame, row).capitalize()} has "
        f"{later} and {row_name(frame, before)}, before it, {earlier}. {_repeated_fix(frame, columns)}"
    )


def _warn_order(codes: np.ndarray, order: np.ndarray, frame: pd.DataFrame, columns: SeriesColumns) -> None:
    """Rows that are not in order may be of several series: a warning says so."""
    given = np.argsort(codes, kind="stable")
    if (order != given).any():
        row = given[np.argmax(order != given)]
        unnamed = " If they are of several series, name their column with `series` (`--series`)."
        warnings.warn(
            f"Times in column {columns.time!r} are not in order: the rows were sorted. The first that moved is "
            f"{row_name(frame, row)}, with {frame[columns.time].iloc[row]}.{unnamed if columns.series is None else ''}",
            stacklevel=3,
        )


def _repeated_fix(frame: pd.DataFrame, columns: SeriesColumns) -> str:
    """What to do about different rows of one time."""
    if columns.series is None:
        name = _series_column(frame, columns)
        if name is not None:
            return f"The rows are of several series: pass `series={name!r}` (`--series {name}`)."
    keys = [columns.time] if columns.series is None else [columns.series, columns.time]
    fix = f"Average them with `frame.groupby({keys}, as_index=False).mean(numeric_only=True)`"
    if is_file(frame):
        fix = "Replace them by one row, for instance with their means"
    if columns.series is None:
        return f"{fix}, or name the column that tells series apart with `series` (`--series`)."
    return f"{fix}, or fit with `encoding='events'` (`--time-encoding events`), which averages them."


def _series_column(frame: pd.DataFrame, columns: SeriesColumns) -> str | None:
    """A column of text or whole numbers that makes times differ: the one with the fewest values, text first."""
    copies = int(frame[columns.time].value_counts().max())
    found = []
    for name in frame.columns:
        column = frame[name]
        if name in (columns.time, columns.target) or isinstance(column, pd.DataFrame):
            continue
        whole = types.is_integer_dtype(column)
        if not whole and (types.is_numeric_dtype(column) or types.is_datetime64_any_dtype(column)):
            continue
        values = column.nunique()
        most = MAX_SERIES_PER_COPY * copies if whole else len(frame) // 2
        if copies <= values <= most and not frame.duplicated([name, columns.time]).any() and column.notna().all():
            found.append((whole, values, str(name)))
    return min(found)[2] if found else None
