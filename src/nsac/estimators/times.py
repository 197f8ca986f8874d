"""Time columns: dates become whole nanoseconds since 1970 in UTC, numbers become floats."""
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportArgumentType=false
# (the type checker takes a column of a frame for a frame)

import re
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from nsac._checks import row_name
from nsac.estimators.dates import DAY_MONTH_YEAR, find_dayfirst, full_year

WITH_OFFSET = re.compile(r".*\d:\d\d.*(?:Z|UTC|[+-]\d\d(?::?\d\d)?)\s*$")
DIGIT_FORMATS = {6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
DIGIT_YEARS = (1900, 2100)  # whole numbers are dates if all of them are valid dates in these years


@dataclass(frozen=True)
class TimeReading:
    """How texts and whole numbers of a time column are read as dates."""

    format: str | None = None  # of `strptime`, for instance "%d.%m.%Y"
    dayfirst: bool | None = None  # whether 01/02/1990 is in February; None if the texts have to tell
    numbers: bool = False  # whole numbers are never dates


def read_times(column: pd.Series, name: str, reading: TimeReading | None = None) -> tuple[np.ndarray, Any]:
    """Times as whole nanoseconds or floats, and the dtype of their column."""
    given, column = column, parse_times(column, name, reading)
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(f"Time column {name!r} must have a time in every row. {_row(column, missing)} is empty.")
    if types.is_datetime64_any_dtype(column):
        utc = column if column.dt.tz is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
        far = ~utc.between(pd.Timestamp.min, pd.Timestamp.max).to_numpy()
        if far.any():
            row = np.argmax(far)
            raise ValueError(
                f"Time column {name!r} must hold dates from 1678 to 2261. {_row(column, far)} has {given.iloc[row]!r}, "
                f"read as {column.iloc[row]}. Correct it, or make all times numbers, such as years."
            )
        return utc.astype("datetime64[ns]").to_numpy().astype(np.int64), column.dtype
    times = column.to_numpy(dtype=np.float64)
    if not np.isfinite(times).all():
        bad = ~np.isfinite(times)
        value = times[np.argmax(bad)]
        raise ValueError(f"Time column {name!r} must hold finite numbers. {_row(column, bad)} has {value}.")
    return times, np.dtype(np.float64)


def check_zone(dtype: Any, name: str) -> None:
    """A model folder holds the zone by its name."""
    try:
        types.pandas_dtype(str(dtype))
    except TypeError:
        raise ValueError(
            f"Time column {name!r} must have a time zone with a name, such as 'Europe/Berlin'. Got {dtype.tz!r} "
            f"instead. Convert it, for instance by frame[{name!r}].dt.tz_convert('Europe/Berlin')."
        ) from None


def read_at(at: Any, dtype: Any, reading: TimeReading | None = None) -> np.ndarray:
    """The argument `at`, one or several times to forecast, as `read_times` does; `dtype` is that of the time column."""
    column = pd.Series(at if isinstance(at, (pd.Series, pd.Index, np.ndarray, list, tuple)) else [at])
    if not len(column):
        raise ValueError("`at` must have at least one time. Got none. Leave it out to forecast all steps.")
    expected = describe_times(dtype)
    try:
        times, given = read_times(column.reset_index(drop=True), "at", reading)
    except ValueError as error:
        raise ValueError(f"`at` must be times, {expected} as in the time column, not durations. {error}") from None
    if describe_times(given) != expected:
        raise ValueError(f"`at` must be {expected}, as the time column. Got {describe_times(given)} instead.")
    return times


def resolve_reading(column: pd.Series, name: str, reading: TimeReading) -> TimeReading:
    """The reading with what the column decides: whole numbers that are dates, and whether the day is first.

    An error if the column allows both orders of day and month.
    """
    if reading.format is not None or types.is_datetime64_any_dtype(column):
        return reading
    if types.is_numeric_dtype(column):
        layout = None if reading.numbers else _digit_format(column)
        if layout is not None:
            warnings.warn(
                f"Time column {name!r} holds whole numbers such as {column.iloc[0]}, which are read as dates of the "
                f"format {layout}. For numbers that are no dates subtract a constant.",
                stacklevel=2,
            )
        return replace(reading, format=layout, numbers=layout is None)
    if not _is_day_month_year(column):
        return reading
    return replace(reading, dayfirst=_day_is_first(column.astype(str).where(column.notna()), name, reading.dayfirst))


def parse_times(column: pd.Series, name: str, reading: TimeReading | None = None) -> pd.Series:
    """A column of dates, or of numbers; missing times stay missing."""
    if types.is_object_dtype(column) and column.map(lambda v: isinstance(v, (int, float))).all():
        column = column.astype(float)
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if types.is_bool_dtype(column):
        raise ValueError(f"Time column {name!r} must hold dates or numbers. Got booleans instead.")
    reading = resolve_reading(column, name, reading or TimeReading())
    if types.is_datetime64_any_dtype(column):
        return column
    if reading.format is not None:
        return _parse_format(column, name, reading.format)
    return column if types.is_numeric_dtype(column) else _parse_text(column, name, reading)


def restore_times(times: np.ndarray, dtype: Any) -> pd.Series:
    """Times as their column had them; `dtype` is that of `read_times`."""
    if times.dtype != np.int64:
        return pd.Series(times)
    dates = pd.Series(times.astype("datetime64[ns]"))
    zone = getattr(dtype, "tz", None)
    return dates if zone is None else dates.dt.tz_localize("UTC").dt.tz_convert(zone)


def local_times(times: np.ndarray, dtype: Any) -> np.ndarray:
    """Nanoseconds since 1970 in the zone of the column, from those in UTC."""
    if getattr(dtype, "tz", None) is None:
        return times
    return restore_times(times, dtype).dt.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)


def utc_times(local: np.ndarray, dtype: Any) -> np.ndarray:
    """Inverse of `local_times`; of an hour that is there twice the first, of one that is not there the next."""
    zone = getattr(dtype, "tz", None)
    if zone is None:
        return local
    dates = pd.DatetimeIndex(local.astype("datetime64[ns]"))
    zoned = dates.tz_localize(zone, ambiguous=np.ones(len(dates), dtype=bool), nonexistent="shift_forward")
    return zoned.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)


def describe_times(dtype: Any) -> str:
    """What a time column of this dtype holds, for messages."""
    if dtype == np.dtype(np.float64):
        return "numbers"
    return "dates without a zone" if getattr(dtype, "tz", None) is None else "dates with a zone"


def _digit_format(column: pd.Series) -> str | None:
    """The format of whole numbers such as 20200630, if all are dates; otherwise None."""
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if not len(values) or not np.isfinite(values).all() or (values != np.rint(values)).any() or values.min() < 1e5:
        return None
    layout = DIGIT_FORMATS.get(len(f"{values[0]:.0f}"))
    if layout is None or values.max() >= 1e15:
        return None
    dates = pd.to_datetime(_as_text(column), format=layout, errors="coerce")
    return layout if dates.dt.year.between(*DIGIT_YEARS).all() else None


def _as_text(column: pd.Series) -> pd.Series:
    """Texts of strptime; a whole number has no decimal point."""
    if types.is_numeric_dtype(column):
        column = column.map(lambda v: f"{v:.0f}" if v == np.rint(v) else str(v), na_action="ignore")
    return column.astype(str).where(column.notna())


def _is_day_month_year(column: pd.Series) -> bool:
    known = column.dropna()
    return bool(len(known)) and DAY_MONTH_YEAR.match(str(known.iloc[0])) is not None


def _day_is_first(text: pd.Series, name: str, dayfirst: bool | None) -> bool | None:
    """Whether the day is first in texts such as 31/12/1990; None if all are like 05/05/1990."""
    other = ~text.str.match(DAY_MONTH_YEAR, na=True).to_numpy(dtype=bool)
    if other.any():
        row = np.argmax(other)
        raise ValueError(
            f"Time column {name!r} must hold dates of one format. {_row(text, other)} has {text.iloc[row]!r}, unlike "
            f"{text.dropna().iloc[0]!r}. Write them alike."
        )
    return find_dayfirst(text, f"Time column {name!r}", dayfirst, "the format with `time_format` (`--time-format`)")


def _parse_format(column: pd.Series, name: str, layout: str) -> pd.Series:
    text = _as_text(column)
    parsed = _dates(text, name, "%z" in layout, {"format": layout, "errors": "coerce"})
    if parsed is None:
        raise ValueError(f"`time_format` must be a format such as '%d.%m.%Y'. Got {layout!r} instead.")
    bad = (parsed.isna() & text.notna()).to_numpy()
    if bad.any():
        row = np.argmax(bad)
        raise ValueError(
            f"Time column {name!r} must have the format {layout!r}. {_row(text, bad)} has {text.iloc[row]!r}. Correct "
            "it, or pass another `time_format` (`--time-format`)."
        )
    return parsed


def _parse_text(column: pd.Series, name: str, reading: TimeReading) -> pd.Series:
    options: list[dict[str, Any]] = [{}, {"format": "ISO8601"}]
    text = column
    if _is_day_month_year(column):  # `resolve_reading` has checked all rows
        text = column.map(full_year, na_action="ignore")
        options = [{"dayfirst": bool(reading.dayfirst)}, {"dayfirst": bool(reading.dayfirst), "format": "mixed"}]
    parsed = _dates(text, name, False, *options)
    if parsed is not None:
        return parsed
    with_offset = column.astype(str).str.match(WITH_OFFSET).to_numpy() | column.isna().to_numpy()
    parsed = _dates(text, name, True, *options) if with_offset.all() else None
    if parsed is not None:
        return parsed
    bad = pd.to_datetime(column, errors="coerce", format="mixed", utc=True).isna() & column.notna()
    if with_offset.any() and not bad.any():
        row = int(np.argmin(with_offset))
        raise ValueError(
            f"Time column {name!r} must have a UTC offset in every row, or in none. {_row(column, ~with_offset)} has "
            f"{column.iloc[row]!r}, without one."
        )
    example = f" {_row(column, bad)} has {column.iloc[np.argmax(bad)]!r}." if bad.any() else ""
    raise ValueError(
        f"Time column {name!r} must hold dates, of one format, or numbers.{example} Correct it, or pass their format, "
        "for instance '%d.%m.%Y %H:%M', with `time_format` (`--time-format`)."
    )


def _dates(column: pd.Series, name: str, offsets: bool, *options: dict[str, Any]) -> pd.Series | None:
    """Dates by the first of these options of `pandas.to_datetime` that suits; None if none does.

    `offsets`: all texts have a UTC offset. If it is not the same, times become UTC, with a note.
    """
    for utc in (False, True) if offsets else (False,):
        for option in options:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # pandas warns when it has to guess the format
                    parsed = pd.to_datetime(column, utc=utc, **option)
            except (ValueError, TypeError, OverflowError):
                continue
            if types.is_datetime64_any_dtype(parsed):
                if utc:
                    message = f"Time column {name!r} has several UTC offsets. Its times are converted to UTC."
                    warnings.warn(message, stacklevel=2)
                return parsed
    return None


def _row(column: pd.Series, bad: Any) -> str:
    """The first row that is bad, at the beginning of a sentence."""
    return row_name(column, int(np.argmax(bad))).capitalize()
