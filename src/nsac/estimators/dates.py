"""Dates in a table: as text, in any common layout, the order of day and month, and the features of a column."""

import datetime as dt
import functools
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nsac._checks import row_name

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
LAYOUTS = (
    r"(?P<year>\d{4})(?P<separator>[-/.])(?P<month>\d{1,2})(?P=separator)(?P<day>\d{1,2})",  # 2024-12-31
    r"(?P<year>\d{4})[-/](?P<month>\d{2})",  # 2024-12
    r"(?P<first>\d{1,2})(?P<separator>[-/.])(?P<second>\d{1,2})(?P=separator)(?P<year>\d{4})",  # 31.12.2024, 12/31/2024
    r"(?P<first>\d{2})(?P<separator>[-/.])(?P<second>\d{2})(?P=separator)(?P<year>\d{2})",  # 31.12.24, 12/31/24
    r"(?P<day>\d{1,2})[\s.-]+(?P<name>[A-Za-z]{3,9})\.?[\s,-]+(?P<year>\d{4})",  # 31 Dec 2024
    r"(?P<name>[A-Za-z]{3,9})\.?\s+(?P<day>\d{1,2}),?\s+(?P<year>\d{4})",  # December 31, 2024
)
TIME = (
    r"(?:(?:T|,?\s+)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<seconds>\d{2})(?P<fraction>\.\d+)?)?"
    r"\s*(?P<half>[AaPp][Mm])?\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?)?"
)
DATES = [re.compile(rf"\s*{layout}{TIME}\s*") for layout in LAYOUTS]
"""Where day and month are `first` and `second`, the whole column decides which is which."""
DAY_MONTH_YEAR = re.compile(r"\s*(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})(?!\d)")
"""The first field is the day or the month; anything may follow."""
MIN_DATE_FRACTION = 0.5  # a column of text with at least this fraction of dates is a column of dates
FEATURES = ("year", "month", "day", "weekday", "days")  # of a date; `days` are those since the first training date


@dataclass(frozen=True)
class DateColumn:
    """How a column of dates becomes numbers."""

    first: str  # first training date, from which days are counted
    hour: bool  # whether there are times, whose hour is a feature
    zoned: bool  # whether they have a time zone; they are then read in UTC
    dayfirst: bool | None  # order of day and month in texts such as 01/02/2024; None if there were none

    @classmethod
    def fit(cls, column: Any, name: str, dayfirst: bool | None) -> "DateColumn":
        """From training rows."""
        dates, zoned, dayfirst = read_dates(column, name, dayfirst)
        known = dates[~np.isnat(dates)]
        if not len(known):
            raise ValueError(f"Column {name!r} must have a date in at least one row. All are missing. Leave it out.")
        first = known.min().astype("datetime64[D]")
        return cls(str(first), bool((known != known.astype("datetime64[D]")).any()), zoned, dayfirst)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features."""
        return (*FEATURES, "hour") if self.hour else FEATURES

    def features(self, column: Any, name: str) -> np.ndarray:
        """Numbers, (rows, features); NaN where a date is missing."""
        dates, zoned, _ = read_dates(column, name, self.dayfirst)
        known = ~np.isnat(dates)
        if known.any() and zoned != self.zoned:
            rule = "a time zone" if self.zoned else "no time zone"
            raise ValueError(f"Column {name!r} must hold dates with {rule}, as in training. Convert them.")
        dates = np.where(known, dates, np.datetime64(self.first))
        day, month, year = (dates.astype(f"datetime64[{unit}]") for unit in "DMY")
        days = (dates - np.datetime64(self.first)) / np.timedelta64(1, "D")
        features = {"year": year.astype(int) + 1970.0, "month": (month - year).astype(int) + 1.0}
        features |= {"day": (day - month).astype(int) + 1.0, "weekday": (day.astype(int) + 3.0) % 7, "days": days}
        features["hour"] = (dates - day) / np.timedelta64(1, "h")
        return np.stack([np.where(known, features[each], np.nan) for each in self.names], 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def holds_dates(column: Any) -> bool:
    """Whether a column holds dates: by its dtype, or because half of its known values or more are dates."""
    import pandas as pd

    if isinstance(column.dtype, pd.PeriodDtype) or column.dtype.kind == "M":
        return True
    if column.dtype.kind in "biufcm" or isinstance(column.dtype, pd.CategoricalDtype):
        return False
    values = [value for value in np.asarray(column, dtype=object) if not _is_missing(value)]
    return bool(values) and sum(_is_date(value) for value in values) >= MIN_DATE_FRACTION * len(values)


def read_dates(column: Any, name: str, dayfirst: bool | None = None) -> tuple[np.ndarray, bool, bool | None]:
    """Dates (NaT = missing), whether they have a zone (they are then in UTC), and the order of day and month in texts.

    `dayfirst` is that order, if it is known; otherwise the texts have to decide it.
    """
    import pandas as pd

    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if column.dtype.kind == "M":
        zoned = getattr(column.dtype, "tz", None) is not None
        dates = column.dt.tz_convert("UTC").dt.tz_localize(None) if zoned else column
        return np.asarray(dates).astype("datetime64[us]"), zoned, dayfirst
    values = [None if _is_missing(value) else value for value in np.asarray(column, dtype=object)]
    for row, value in enumerate(values):
        if value is not None and not _is_date(value):
            raise ValueError(
                f"Column {name!r} must hold dates, as most of its values are. Got {value!r} in "
                f"{row_name(column, row)} instead. Correct it, leave it empty if the date is missing, or name the "
                "column in `categorical` (`--category`)."
            )
    order = find_dayfirst(column, f"Column {name!r}", dayfirst, "leave the column out")
    dates = [None if value is None else _parse(value, bool(order)) for value in values]
    zones = {date.tzinfo is not None for date in dates if date is not None}
    if len(zones) > 1:
        raise ValueError(f"Column {name!r} must have a time zone in every row, or in none. Write its dates alike.")
    utc = [
        date if date is None or date.tzinfo is None else date.astimezone(dt.UTC).replace(tzinfo=None) for date in dates
    ]
    return np.array(utc, dtype="datetime64[us]"), True in zones, order


def _is_missing(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _is_date(value: Any) -> bool:
    if isinstance(value, str):
        return any(_parse_text(value, dayfirst) is not None for dayfirst in (True, False))
    return isinstance(value, (dt.date, np.datetime64))


def _parse(value: Any, dayfirst: bool) -> dt.datetime | None:
    if isinstance(value, str):
        return _parse_text(value, dayfirst)
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    return dt.datetime.combine(value.date(), value.time(), value.tzinfo)  # without the nanoseconds of pandas


@functools.lru_cache(maxsize=100_000)
def _parse_text(text: str, dayfirst: bool) -> dt.datetime | None:
    """The date; None if it is none in this order of day and month."""
    match = next(filter(None, (layout.fullmatch(text) for layout in DATES)), None)
    if match is None:
        return None
    found = {key: value for key, value in match.groupdict().items() if value is not None}
    day, month = found.get("day", "1"), found.get("month", "0")
    if "first" in found:
        day, month = (found["first"], found["second"]) if dayfirst else (found["second"], found["first"])
    if "name" in found:
        word = found["name"][:3].lower()
        month = MONTHS.index(word) + 1 if word in MONTHS else 0
    hour, half = int(found.get("hour", 0)), found.get("half", "").lower()
    if half and not 1 <= hour <= 12:
        return None
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    microseconds = int(f"{found.get('fraction', '.'):0<7}"[1:7])
    clock = (hour, int(found.get("minute", 0)), int(found.get("seconds", 0)), microseconds)
    try:
        return dt.datetime(_year(found["year"]), int(month), int(day), *clock, tzinfo=_parse_zone(found.get("zone")))
    except ValueError:
        return None


def _parse_zone(text: str | None) -> dt.timezone | None:
    if text is None or text[0] not in "+-":
        return None if text is None else dt.UTC
    offset = dt.timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return dt.timezone(-offset if text[0] == "-" else offset)


def _year(text: str) -> int:
    year = int(text)
    if len(text) == 2:
        year += 2000 if year < 69 else 1900  # as strptime does
    return year


def find_dayfirst(column: Any, subject: str, dayfirst: bool | None, remedy: str) -> bool | None:
    """Whether the day is first in texts such as 31/12/2024; other values of the column are skipped.

    `dayfirst` is the order, if it is known. None if nothing depends on it; an error, about `subject`, if the texts
    contradict it or each other, or do not decide it: `remedy` is then one besides passing `dayfirst`.
    """
    texts, fields = np.asarray(column, dtype=object), list(_day_month_fields(column))
    day = next((row for row, first, _, _ in fields if first > 12), None)  # a row that is a date with the day first only
    month = next((row for row, _, second, _ in fields if second > 12), None)
    wrong = month if dayfirst else day
    if dayfirst is not None and wrong is not None:
        order, other, flag = ("day", False, "--no-dayfirst") if dayfirst else ("month", True, "--dayfirst")
        raise ValueError(
            f"{subject} is read with the {order} first, as `dayfirst` or `fit` has it. "
            f"{row_name(column, wrong).capitalize()} has {texts[wrong]!r}, which is no such date. Write all dates "
            f"alike, best as 2024-12-31, or fit with `dayfirst={other}` (`{flag}`)."
        )
    if dayfirst is not None:
        return dayfirst
    if day is not None and month is not None:
        raise ValueError(
            f"{subject} must have day and month in one order. {row_name(column, day).capitalize()} has "
            f"{texts[day]!r}, with the day first, and {row_name(column, month)} {texts[month]!r}, with the month "
            "first. Write them alike."
        )
    if day is not None or month is not None:
        return day is not None
    for row, first, second, year in fields:
        if first != second:
            readings = dt.date(year, second, first), dt.date(year, first, second)
            raise ValueError(
                f"{subject} is ambiguous: {texts[row]!r} in {row_name(column, row)} is {readings[0]:%-d %B %Y} or "
                f"{readings[1]:%-d %B %Y}, and no row decides it. Pass `dayfirst=True` or `dayfirst=False` "
                f"(`--dayfirst` or `--no-dayfirst`), or {remedy}."
            )
    return None


def full_year(date: str) -> str:
    """A text such as 31/12/24 with a year of four digits."""
    match = DAY_MONTH_YEAR.match(date)
    return date if match is None else f"{date[: match.start(4)]}{_year(match[4]):04d}{date[match.end(4) :]}"


def warn_of_dayfirst(dayfirst: bool | None, columns: Sequence[Any]) -> None:
    """Warn if `dayfirst` is given, but the columns of dates have none that depends on it."""
    fields = (field for column in columns for field in _day_month_fields(column))
    if dayfirst is not None and all(first == second for _, first, second, _ in fields):
        warnings.warn(
            f"`dayfirst={dayfirst}` (`{'--dayfirst' if dayfirst else '--no-dayfirst'}`) has no effect: no column of "
            "the table has dates such as 01/02/2024. Leave it out.",
            stacklevel=4,
        )


def _day_month_fields(column: Any) -> Iterator[tuple[int, int, int, int]]:
    """Row, first field, second field and year of each text such as 31/12/2024."""
    for row, value in enumerate(np.asarray(column, dtype=object)):
        match = DAY_MONTH_YEAR.match(value) if isinstance(value, str) else None
        if match is not None:
            fields = int(match[1]), int(match[3]), _year(match[4])
            if 0 not in fields:
                yield row, *fields
