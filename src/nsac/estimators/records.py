"""From a frame with a time column to regular grids with holes, and to windows that are cut when a batch asks for them.

Times are whole nanoseconds (dates, in UTC) or floats (numbers); a step is one of these too.
"""
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# (the type checker takes a column of a frame for a frame)

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from pandas.api import types
from torch import Tensor

from nsac.models.encoders import STILL, fill_holes

DAY = 86_400 * 10**9
CYCLES = {"day": DAY, "week": 7 * DAY, "year": round(365.2425 * DAY)}
"""Nanoseconds of the cycles a calendar has."""
SEEN, RESOLVED = 2, 4
"""A cycle counts if the record goes round that often, and if it has that many steps."""
USUAL = 0.75
"""If more than this share of the gaps near the median are the median, it is the step; the others are late or early."""
APART, RARE = 0.05, 0.01
"""A record is irregular if more than the second share of its rows lie more than the first share of a step off."""
LATELY = 4
"""How rough a series was lately is seen in the last quarter of a window."""
LARGEST = 1e100
"""Largest number a record may hold; the square of a larger one may be infinite."""
ROOM = 4
"""Slots of a grid per row of the record, at most: longer holes are cut out."""


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


@dataclass(frozen=True)
class Grid:
    """Regular stretches, one after the other; every slot has the mean of the rows nearest to it, or NaN."""

    values: np.ndarray
    """(slots, inputs), float64"""
    offset: np.ndarray
    """(slots,), how far off its slot an observation was, in steps; NaN where there is none"""
    times: np.ndarray
    """(slots,)"""
    codes: np.ndarray
    """(slots,), number of the series"""
    start: np.ndarray
    """(slots,), first slot of the stretch"""
    stop: np.ndarray
    """(slots,), first slot after it"""
    irregular: bool
    """whether many rows are off their slots"""


def to_grid(record: Record, step: float | int, longest: int | None, to_last: bool = False) -> Grid:
    """Put every row into its nearest slot.

    Args:
        record: rows.
        step: between slots.
        longest: a hole of more steps begins a new stretch; None for one stretch per series.
        to_last: count slots from the last row of a stretch, not from the first.
    """
    times, codes, rows = record.times, record.codes, len(record.times)
    gaps = np.diff(times) / step
    same = np.diff(codes) == 0
    breaks = np.flatnonzero(~same | (gaps > (np.inf if longest is None else _affordable(gaps[same], longest, rows))))
    first, last = np.append(0, breaks + 1), np.append(breaks, rows - 1)
    stretch = np.repeat(np.arange(len(first)), last - first + 1)
    if to_last:
        place = -(times[last][stretch] - times) / step
        lowest = np.rint(place[first]).astype(np.int64)
        slot = np.rint(place).astype(np.int64) - lowest[stretch]
        origin = times[last] + lowest * step
    else:
        place = (times - times[first][stretch]) / step
        slot, origin = np.rint(place).astype(np.int64), times[first]
    off = place - np.rint(place)
    lengths = slot[last] + 1
    start = np.concatenate([[0], np.cumsum(lengths)])
    where, slots = start[stretch] + slot, int(start[-1])
    which = np.repeat(np.arange(len(first)), lengths)
    values = np.stack([_slot_means(column, where, slots) for column in record.values.T], 1)
    within = np.arange(slots) - start[which]
    return Grid(
        values, _slot_means(off, where, slots), origin[which] + within * step,
        codes[first][which], start[which], start[which + 1],
        bool((np.abs(off) > APART).mean() > RARE),
    )  # fmt: skip


def _affordable(gaps: np.ndarray, longest: float, rows: int) -> float:
    """The longest hole to bridge, if all shorter ones are bridged too and there is room for so many slots."""
    gaps = np.sort(gaps[gaps <= longest])
    few = int(np.searchsorted(np.cumsum(gaps), ROOM * rows))
    return np.nextafter(gaps[few], 0) if few < len(gaps) else longest


def cycles_in(times: np.ndarray, step: float | int) -> list[str]:
    """Cycles that a record of dates goes round twice or more, and in more than a few steps; none for numbers."""
    if times.dtype != np.int64:
        return []
    span = int(times.max()) - int(times.min())
    return [name for name, length in CYCLES.items() if span >= SEEN * length and step * RESOLVED <= length]


def calendar_of(times: np.ndarray, stamps: Any, cycles: Sequence[str]) -> np.ndarray:
    """Sine and cosine of each cycle at the local time, (times, 2 * cycles)."""
    local = times
    zone = getattr(stamps, "tz", None)
    if zone is not None and cycles:
        local = show_times(times, stamps).dt.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    angles = [2 * np.pi * (local % CYCLES[name]) / CYCLES[name] for name in cycles]
    parts = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
    return np.stack(parts, 1) if parts else np.zeros((len(times), 0))


@dataclass
class Windows:
    """Forecasting windows of a grid that is kept once.

    The target, the first input, is to be predicted as the change from its last known value, in units of `change` times
    the square root of how rough it was lately. A batch holds `x`, (B, lookback, inputs); `y`, (B, horizon), NaN where
    nothing was observed; `persistence` and `seasonal`, naive forecasts in the unit of `y`; and `calendar`. Before its
    stretch a window has NaN.
    """

    values: Tensor
    """(slots, inputs), standardised"""
    start: Tensor
    stop: Tensor
    """(slots,), see `Grid`"""
    calendar: Tensor
    """(slots, numbers)"""
    ends: Tensor
    """slots at which forecasts are made"""
    lookback: int
    change: Tensor
    """(horizon,), typical change at each step ahead"""
    rough: float = 1.0
    """typical step of the target"""
    season: int = 0
    """steps of a day; 0 for none"""
    fill: bool = False
    """whether holes of `x` are filled, for a model that knows none"""
    last: Tensor = field(init=False)
    """(slots,), last known value of the target"""

    def __post_init__(self):
        target = self.values[:, 0]
        known = torch.where(target.isnan(), 0, torch.arange(len(target)))
        self.last = target[known.cummax(0).values]

    def __len__(self) -> int:
        return len(self.ends)

    def at(self, ends: Tensor) -> "Windows":
        """Other windows of the same grid."""
        chosen = object.__new__(Windows)
        chosen.__dict__.update(self.__dict__, ends=ends)
        return chosen

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The windows with these numbers."""
        end = self.ends[rows]
        x, (last, scale) = self._past(end, slice(None)), self.level(rows)
        out = {"x": fill_holes(x) if self.fill else x, "y": (self.goals(end) - last) / scale}
        out["persistence"] = torch.zeros_like(out["y"])
        if self.season:
            ahead = torch.arange(1, len(self.change) + 1)
            before = end[:, None] + ahead - self.season * torch.div(ahead - 1 + self.season, self.season).floor().long()
            old = self.values[before.clamp(min=0), 0]
            old = torch.where((before < self.start[end, None]) | old.isnan(), last, old)
            out["seasonal"] = (old - last) / scale
        if self.calendar.shape[1]:
            out["calendar"] = self.calendar[end]
        return out

    def level(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Shift and scale, (B, 1) and (B, horizon), that take `y` back to the unit of `values`."""
        end = self.ends[rows]
        lately = fill_holes(self._past(end, slice(0, 1)))[:, -max(2, self.lookback // LATELY) :, 0]
        step = lately.diff(dim=1).square().sum(1, keepdim=True) / max(1, lately.shape[1] - 1)
        return self.last[end, None], (step / self.rough**2 + STILL**2) ** 0.25 * self.change

    def _past(self, end: Tensor, inputs: slice) -> Tensor:
        back = end[:, None] + torch.arange(1 - self.lookback, 1)
        x = self.values[:, inputs][back.clamp(min=0)]
        return x.masked_fill((back < self.start[end, None])[..., None], torch.nan)

    def goals(self, end: Tensor) -> Tensor:
        """What came after these slots, (B, horizon); NaN where it is not known."""
        ahead = end[:, None] + torch.arange(1, len(self.change) + 1)
        goal = self.values[ahead.clamp(max=len(self.values) - 1), 0]
        return goal.masked_fill(ahead >= self.stop[end, None], torch.nan)


def counts_within(flags: np.ndarray, first: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """How many flags are set from `first` to before `stop`, for each pair."""
    total = np.concatenate([[0], np.cumsum(flags)])
    return total[stop] - total[first]


def _slot_means(values: np.ndarray, where: np.ndarray, slots: int) -> np.ndarray:
    known = ~np.isnan(values)
    count = np.bincount(where[known], minlength=slots)
    total = np.bincount(where[known], weights=values[known], minlength=slots)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


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
