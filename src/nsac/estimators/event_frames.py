"""From a frame to events: observed values with series, channel and time. The order of rows does not matter."""
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# (the type checker takes a column of a frame for a frame)

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from nsac.estimators.observations import check_frame, check_output_names, holds_numbers, number_series, read_numbers
from nsac.estimators.steps import format_step
from nsac.estimators.times import TimeReading, read_times, resolve_reading

MAX_CATEGORIES = 50  # of a static column of text
NANOSECONDS = 1e9  # in a second: dates are counted in seconds


@dataclass(frozen=True)
class EventColumns:
    """Which columns of a frame mean what; channels are the targets, the covariates and the known-future columns."""

    time: str
    series: str | None
    targets: tuple[str, ...]
    covariates: tuple[str, ...] = ()
    known_future: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    categories: tuple[tuple[str, ...], ...] = ()  # of each static column; empty if it has numbers
    reading: TimeReading = TimeReading()

    @property
    def target(self) -> str:
        """The first target."""
        return self.targets[0]

    @property
    def channels(self) -> list[str]:
        """Columns whose observations a model sees, the targets first."""
        return [*self.targets, *self.covariates, *self.known_future]

    @property
    def inputs(self) -> list[str]:
        """Columns that a frame must have, besides time and series."""
        return [*self.channels, *self.static]

    @property
    def static_dim(self) -> int:
        """Numbers that describe a series: one per static column of numbers, one per category of the others."""
        return sum(len(categories) or 1 for categories in self.categories)

    def named(self) -> list[tuple[str, str]]:
        """Roles and names of all columns."""
        roles = [("time", [self.time]), ("series", [] if self.series is None else [self.series])]
        roles += [("target", self.targets), ("covariates", self.covariates)]
        roles += [("known_future", self.known_future), ("static", self.static)]
        return [(role, name) for role, names in roles for name in names]


def find_event_columns(
    frame: pd.DataFrame,
    time: str,
    series: str | None,
    targets: Sequence[str],
    covariates: Sequence[str] | None,
    known_future: Sequence[str],
    static: Sequence[str],
    reading: TimeReading,
) -> EventColumns:
    """Check names. By default every other column of numbers is a covariate; covariates without a value are left out."""
    columns = EventColumns(
        time, series, tuple(targets), tuple(covariates or ()), tuple(known_future), tuple(static), reading=reading
    )
    if not targets:
        raise ValueError("`target` must name at least one column. Got none.")
    named = columns.named()
    frame = check_frame(frame, time, named)
    names = [name for _, name in named]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        roles = list(dict.fromkeys(f"`{role}`" for role, name in named if name == twice))
        raise ValueError(f"{' and '.join(roles)} must be different columns. Got {twice!r} more than once.")
    check_output_names({"time": time, "series": series or ""})
    if len(targets) > 1 and "target" in (time, series):
        raise ValueError("`time` and `series` must not be 'target', a column of the forecasts. Rename the column.")
    if covariates is None:
        others = [name for name in frame.columns if name not in names]
        columns = replace(columns, covariates=tuple(name for name in others if holds_numbers(frame[name])))
    columns = replace(
        columns,
        covariates=tuple(name for name in columns.covariates if bool(frame[name].notna().any())),
        reading=resolve_reading(frame[time], time, reading),
        categories=tuple(_categories(frame[name], name) for name in columns.static),
    )
    for role, name in columns.named():
        if role in ("target", "known_future") and bool(frame[name].isna().all()):
            raise ValueError(f"Column {name!r} must have a value in at least one row. All are missing.")
    return columns


@dataclass(frozen=True)
class Observed:
    """Values of several columns, sorted by series, time and column; equal ones are there once."""

    series: np.ndarray  # (n,), number of the series
    times: np.ndarray  # (n,), int64 or float64, see `nsac.estimators.times`
    column: np.ndarray  # (n,), number of the column
    values: np.ndarray  # (n,), float64

    def of_column(self, column: int) -> np.ndarray:
        """Values of one column."""
        return self.values[self.column == column]

    def where(self, kept: np.ndarray) -> "Observed":
        """Some of them."""
        return Observed(self.series[kept], self.times[kept], self.column[kept], self.values[kept])


@dataclass(frozen=True)
class EventFrame:
    """A frame as events."""

    names: list[Any]  # of the series, sorted; `[None]` if they have none
    events: Observed  # of all channels
    row_series: np.ndarray  # (rows,), series and times of the rows of the frame, each pair once, sorted
    row_times: np.ndarray  # (rows,)
    static: np.ndarray  # (series, static_dim), float64; NaN where unknown
    time_dtype: Any

    def clock(self, times: np.ndarray) -> np.ndarray:
        """Times since the first row, float64: seconds, or in the unit of the time column."""
        since = times - self.row_times.min()
        return since / NANOSECONDS if times.dtype == np.int64 else since

    def times(self, clock: np.ndarray) -> np.ndarray:
        """Inverse of `clock`."""
        first = self.row_times.min()
        return first + np.rint(clock * NANOSECONDS).astype(np.int64) if first.dtype == np.int64 else first + clock

    def describe(self, length: float) -> str:
        """A length on the clock, for messages."""
        return format_step(round(length * NANOSECONDS) if self.row_times.dtype == np.int64 else float(length))

    def origins(self, channels: int | None) -> np.ndarray:
        """Time of the last row of each series, or of its last event in one of the first `channels`."""
        if channels is None:
            last = np.append(np.flatnonzero(np.diff(self.row_series)), len(self.row_series) - 1)
            return self.row_times[last]
        events = self.events.where(self.events.column < channels)
        last = self.row_times[np.searchsorted(self.row_series, np.arange(len(self.names)))].copy()
        last[events.series] = events.times  # ascending within a series: the last one stays
        return last


def read_events(frame: pd.DataFrame, columns: EventColumns) -> EventFrame:
    """Check all values; an error names the column and the row."""
    frame = check_frame(frame, columns.time, columns.named())
    times, time_dtype = read_times(frame[columns.time], columns.time, columns.reading)
    codes, names = number_series(frame, columns.series)
    series, event_times, column, values = [], [], [], []
    for i, name in enumerate(columns.channels):
        numbers = read_numbers(frame[name], name)
        known = ~np.isnan(numbers)
        series.append(codes[known])
        event_times.append(times[known])
        column.append(np.full(known.sum(), i, dtype=np.int64))
        values.append(numbers[known])
    observed = Observed(*(np.concatenate(each) for each in (series, event_times, column, values)))
    order = np.lexsort([times, codes])
    first = np.append(True, (np.diff(codes[order]) != 0) | (np.diff(times[order]) != 0))
    rows = order[first]
    static = _static(frame, columns, codes, names)
    return EventFrame(names, _merged(observed), codes[rows], times[rows], static, time_dtype)


def latest_values(observed: Observed, column: int, series: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The last value of a column at or before each pair of series and time, (n,); NaN where there is none."""
    own = observed.where(observed.column == column)
    found = np.full(len(times), np.nan)
    if not len(own.times):
        return found
    for each in np.unique(series):
        inside = series == each
        start, stop = np.searchsorted(own.series, [each, each + 1])
        place = start + np.searchsorted(own.times[start:stop], times[inside], side="right") - 1
        found[inside] = np.where(place >= start, own.values[np.maximum(place, 0)], np.nan)
    return found


def _merged(observed: Observed) -> Observed:
    """Sorted; several values of one series, time and column are replaced by their mean, copies by one."""
    sorted_by = np.lexsort([observed.values, observed.column, observed.times, observed.series])
    observed = observed.where(sorted_by)
    same = (np.diff(observed.series) == 0) & (np.diff(observed.times) == 0) & (np.diff(observed.column) == 0)
    if not same.any():
        return observed
    observed = observed.where(np.append(True, ~(same & (np.diff(observed.values) == 0))))
    same = (np.diff(observed.series) == 0) & (np.diff(observed.times) == 0) & (np.diff(observed.column) == 0)
    first = np.flatnonzero(np.append(True, ~same))
    count = np.diff(np.append(first, len(observed.values)))
    means = np.add.reduceat(observed.values, first) / count
    return replace(observed.where(first), values=means)


def _categories(column: pd.Series, name: str) -> tuple[str, ...]:
    """Categories of a static column; none if all of its values are numbers."""
    if holds_numbers(column) and bool((pd.to_numeric(column, errors="coerce").notna() | column.isna()).all()):
        return ()
    found = sorted(set(_texts(column).dropna()))
    if len(found) > MAX_CATEGORIES:
        raise ValueError(
            f"Static column {name!r} must hold numbers, or text of at most {MAX_CATEGORIES} categories. Got "
            f"{len(found)} instead. Leave it out, or join rare categories."
        )
    return tuple(found)


def _texts(column: pd.Series) -> pd.Series:
    """Categories as texts; missing ones stay missing. A whole number has no decimal point."""
    return column.map(lambda v: f"{v:.0f}" if isinstance(v, float) and v.is_integer() else str(v), na_action="ignore")


def _static(frame: pd.DataFrame, columns: EventColumns, codes: np.ndarray, names: list[Any]) -> np.ndarray:
    """Attributes of each series, (series, static_dim): numbers, and 0 or 1 for each category."""
    attributes = []
    for name, categories in zip(columns.static, columns.categories, strict=True):
        if categories:
            texts = _texts(frame[name]).astype(object)
            new = sorted(set(texts.dropna()) - set(categories))
            if new:
                warnings.warn(
                    f"Static column {name!r} has a category that was not in `fit`: {new[0]!r}. It counts as none "
                    "of the known ones.",
                    stacklevel=5,
                )
            numbers = np.stack([np.where(texts.isna(), np.nan, texts == each) for each in categories], 1)
        else:
            numbers = read_numbers(frame[name], name)[:, None]
        attributes.append(_one_per_series(numbers.astype(np.float64), codes, names, name))
    return np.concatenate([np.empty((len(names), 0)), *attributes], 1)


def _one_per_series(numbers: np.ndarray, codes: np.ndarray, names: list[Any], name: str) -> np.ndarray:
    known = ~np.isnan(numbers).any(1)
    result = np.full((len(names), numbers.shape[1]), np.nan)
    result[codes[known]] = numbers[known]
    differs = known & (np.nan_to_num(result[codes]) != np.nan_to_num(numbers)).any(1)
    if differs.any():
        which = names[codes[np.argmax(differs)]]
        raise ValueError(
            f"Static column {name!r} must have one value in all rows of a series. Series {which!r} has several. Name "
            "it in `covariates` or `known_future` instead."
        )
    return result
