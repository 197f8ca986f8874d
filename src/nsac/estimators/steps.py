"""Steps of a series: fixed lengths, or calendar steps such as months and business days; cycles and lead times.

With calendar steps, times are mapped to positions that count them, so that a grid of positions is regular.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac._checks import check_int
from nsac.estimators.times import TimeReading, local_times, read_at, restore_times, utc_times

LEAST_GAP, GAP_TOLERANCE = 0.05, 0.02  # quantile of the gaps that may be one step; how far from whole steps, in steps
MIN_WHOLE_GAPS, MIN_FILLED = 0.95, 0.1  # share of the gaps that must be whole steps, and of the steps with a row
MIN_EQUAL_GAPS = 0.75
"""Share of the gaps near the median that must equal it for the median to be the step; otherwise their mean is."""
DAY = 86_400 * 10**9
CYCLES = {"day": DAY, "week": 7 * DAY, "year": round(365.2425 * DAY)}  # of the calendar, in nanoseconds
MIN_CYCLES, MIN_STEPS_PER_CYCLE = 2, 4  # a cycle is used if the series spans it this often, in this many steps each
UNITS = {"month": CYCLES["year"] / 12, "business month": CYCLES["year"] / 12, "business day": 1.4 * DAY, "day": DAY}
"""Units of calendar steps, and their mean length in nanoseconds."""
REFERENCE_TIME, REFERENCE_STEPS = 18_262 * DAY, 1500  # 2020; steps of a calendar from then on that are compared
MIN_CALENDAR_GAP = 0.8 * DAY  # shorter steps have a fixed length
MIN_ANCHORED_ROWS = 0.9  # share of the rows that lie on calendar steps, if these are in use
WITH_UNIT = re.compile("[A-Za-z:]")  # durations of dates: 24h, P1D, 24:00:00
MIN_BUSINESS_ROWS = 10  # two weeks without a row on a weekend: fewer may be chance


@dataclass(frozen=True)
class Calendar:
    """Calendar units, counted since 1970: position 1.5 is half-way between the first unit and the second."""

    unit: str  # one of `UNITS`
    day: int  # of the month: its last one if it is shorter
    time: int  # of day, in nanoseconds

    def anchors(self, count: np.ndarray) -> np.ndarray:
        """Local times of these positions, which are whole numbers, in nanoseconds."""
        if self.unit == "business day":
            dates = np.busday_offset("1970-01-01", count, roll="forward")
        elif self.unit == "day":
            dates = count.astype("datetime64[D]")
        else:
            months = count.astype("datetime64[M]")
            first, following = months.astype("datetime64[D]"), (months + 1).astype("datetime64[D]")
            dates = np.minimum(first + self.day - 1, following - 1)
            if self.unit == "business month":
                dates = np.busday_offset(dates, 0, roll="forward" if self.day == 1 else "backward")
        return dates.astype("datetime64[ns]").astype(np.int64) + self.time

    def positions(self, local: np.ndarray) -> np.ndarray:
        """Positions of local times, float64."""
        dates = local.astype("datetime64[ns]")
        if self.unit == "business day":
            count = np.busday_count("1970-01-01", dates.astype("datetime64[D]"))
        else:
            count = dates.astype("datetime64[D]" if self.unit == "day" else "datetime64[M]").astype(np.int64)
        count = count - (self.anchors(count) > local)
        count = count + (self.anchors(count + 1) <= local)
        before, after = self.anchors(count), self.anchors(count + 1)
        return count + (local - before) / (after - before)

    def local_times(self, positions: np.ndarray) -> np.ndarray:
        """Inverse of `positions`."""
        count = np.floor(positions + 1e-9).astype(np.int64)
        before, after = self.anchors(count), self.anchors(count + 1)
        return before + np.rint((positions - count) * (after - before)).astype(np.int64)


@dataclass(frozen=True)
class TimeAxis:
    """Times of a series as positions on an axis with regular steps. Without a calendar positions are the times."""

    dtype: Any  # of the time column, see `nsac.estimators.times.read_times`
    step: float | int  # nanoseconds, in the unit of the time column, or in units of the calendar
    calendar: Calendar | None = None

    @classmethod
    def find(cls, step: Any, times: np.ndarray, codes: np.ndarray, dtype: Any) -> "TimeAxis":
        """The axis with this argument `step`; None for typical steps, which may be those of a calendar."""
        found = detect_calendar(times, codes, dtype) if step is None and times.dtype == np.int64 else None
        return cls(dtype, parse_step(step, times, codes)) if found is None else cls(dtype, *found)

    def positions(self, times: np.ndarray) -> np.ndarray:
        """Positions of times as `read_times` returns them."""
        return times if self.calendar is None else self.calendar.positions(local_times(times, self.dtype))

    def nearest(self, positions: np.ndarray) -> np.ndarray:
        """Positions of rows: with a calendar the whole ones, so that a late row does not delay the forecasts."""
        return positions if self.calendar is None else np.rint(positions)

    def times(self, positions: np.ndarray) -> np.ndarray:
        """Inverse of `positions`."""
        if self.calendar is None:
            return positions
        local = self.calendar.local_times(positions.ravel())
        return utc_times(local, self.dtype).reshape(positions.shape)

    @property
    def mean_step(self) -> float | int:
        """Length of a step on average: nanoseconds if times are dates."""
        return self.step if self.calendar is None else self.step * UNITS[self.calendar.unit]

    def longest(self, steps: int) -> float | int:
        """The longest time that so many steps take: nanoseconds if times are dates."""
        if self.calendar is None:
            return steps * self.step
        first = np.floor(self.positions(np.array([REFERENCE_TIME]))) + np.arange(REFERENCE_STEPS)
        return int((self.times(first + steps * self.step) - self.times(first)).max())

    def season(self, cycle: str) -> int:
        """Steps in a cycle."""
        return round(CYCLES[cycle] / self.mean_step)

    def describe(self, gap: float | int | None = None) -> str:
        """A step, or another length in its unit, for messages."""
        length = self.step if gap is None else gap
        if self.calendar is None:
            return format_step(round(length) if isinstance(self.step, int) else length)
        if length < 1:
            return f"{length * UNITS[self.calendar.unit] / DAY:.1g} days"
        return f"{length:.3g} {self.calendar.unit}" + ("" if length == 1 else "s")


def typical_step(times: np.ndarray, codes: np.ndarray) -> float | int:
    """The gap that nearly all gaps between rows of a series are multiples of, so that rows may be missing.

    If there is none, the median gap, or the mean of those near it if few equal it.
    """
    gaps = np.diff(times)[np.diff(codes) == 0].astype(np.float64)
    if not len(gaps):
        raise ValueError("`step` must be given if no series has two rows. Got None instead.")
    median, divisor = np.median(gaps), common_gap(gaps)
    if divisor is not None and divisor < median:
        return round(divisor) if times.dtype == np.int64 else float(divisor)
    near = gaps[(gaps >= 0.5 * median) & (gaps <= 1.5 * median)]
    equal = np.abs(near - median) < 1e-6 * median
    step = near.mean() if len(near) and equal.mean() <= MIN_EQUAL_GAPS else median  # between two gaps, none may be near
    return max(1, round(step)) if times.dtype == np.int64 else float(step)


def common_gap(gaps: np.ndarray) -> float | None:
    """A gap whose multiples nearly all gaps are; None if there is none, or fewer than rows missing at random leave."""
    least = np.quantile(gaps, LEAST_GAP, method="lower")
    if least <= 0:
        return None
    steps = gaps / least
    whole = np.abs(steps - np.rint(steps)) < GAP_TOLERANCE
    filled = len(steps) / np.rint(steps).sum()
    alike = whole.mean() >= MIN_WHOLE_GAPS and (np.rint(steps) == 1).mean() >= filled / 2
    return float(least) if alike and filled >= MIN_FILLED else None


def detect_calendar(times: np.ndarray, codes: np.ndarray, dtype: Any) -> tuple[float, Calendar] | None:
    """Number of calendar units in a step, and the calendar on which nearly all of these dates lie; None if none."""
    same = np.diff(codes) == 0
    if not same.any() or np.median(np.diff(times)[same]) < MIN_CALENDAR_GAP:
        return None
    local = local_times(times, dtype)
    for unit, day in _possible_calendars(times, local, dtype):
        calendar = Calendar(unit, day, _typical_time(local))
        position = calendar.positions(local)
        slot = np.rint(position)
        if (np.abs(position - slot) < 1e-9).mean() < MIN_ANCHORED_ROWS or (np.diff(slot)[same] <= 0).any():
            continue
        step = typical_step(slot, codes)
        if unit == "business day" and step != 1:
            continue
        return (step if step == round(step) else 1.0), calendar
    return None


def _possible_calendars(times: np.ndarray, local: np.ndarray, dtype: Any) -> list[tuple[str, int]]:
    """Units and days of the month, in the order in which they are tried."""
    dates = local.astype("datetime64[ns]").astype("datetime64[D]")
    days = (dates - dates.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64) + 1
    possible = [("month", int(day)) for day in dict.fromkeys((days.max(), np.bincount(days).argmax()))]
    if np.is_busday(dates).all():
        possible += [("business month", 1), ("business month", 31)]
        if len(times) >= MIN_BUSINESS_ROWS:
            possible.append(("business day", 1))
    year = times[-1] + 30 * DAY * np.arange(13)
    if len(np.unique(local_times(year, dtype) - year)) > 1:  # daylight saving time: a local day may have 23 hours
        possible.append(("day", 1))
    return possible


def _typical_time(local: np.ndarray) -> int:
    times, counts = np.unique(local % DAY, return_counts=True)
    return int(times[counts.argmax()])


def parse_step(step: Any, times: np.ndarray, codes: np.ndarray) -> float | int:
    """The argument `step` in the unit of the times: a text if they are dates, otherwise a number; None is typical."""
    if step is None:
        return typical_step(times, codes)
    if times.dtype == np.int64:
        length = _nanoseconds(step) if isinstance(step, str) else 0
        if length <= 0:
            raise ValueError(f"`step` must be a text such as '15min', as the times are dates. Got {step!r} instead.")
        return length
    if isinstance(step, bool) or not isinstance(step, (int, float)) or not 0 < step < np.inf:
        raise ValueError(f"`step` must be a finite number above 0, as the times are numbers. Got {step!r} instead.")
    return float(step)


def count_steps(name: str, value: Any, axis: TimeAxis) -> int:
    """A number of steps as it is; a duration, which is a text, as the least number of steps that span it."""
    if not isinstance(value, str):
        check_int(name, value)
        return value
    return max(1, math.ceil(parse_duration(name, value, axis.dtype) / axis.mean_step - 1e-9))


def parse_duration(name: str, text: str, dtype: Any) -> float | int:
    """A duration in the unit of the times: nanoseconds, "24h", if they are dates, otherwise a number, "24"."""
    dated = dtype != np.dtype(np.float64)
    try:
        length = _nanoseconds(text) if dated else float(text)
    except ValueError:
        length = 0
    if not 0 < length < np.inf:
        example = "'24h' or '7D', with its unit, as the times are dates" if dated else "'24', as the times are numbers"
        raise ValueError(f"`{name}` must be a number of steps, or a duration such as {example}. Got {text!r} instead.")
    return length


def _nanoseconds(text: str) -> int:
    """A duration with its unit; 0 if the text is none. pandas takes "24" for nanoseconds, "3MS" for milliseconds."""
    if not WITH_UNIT.search(text) or "MS" in text:
        return 0
    try:
        return pd.Timedelta(text).value
    except ValueError:
        return 0


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
    local = local_times(times, dtype) if cycles else times
    lengths = np.array([CYCLES[name] for name in cycles], dtype=np.int64)
    angle = 2 * np.pi * (local[:, None] % lengths) / lengths
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(times), 2 * len(cycles))


def lead_times(
    at: Any, last: np.ndarray, axis: TimeAxis, horizon: int, reading: TimeReading | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Positions and lead times in steps, (series, times) both, of the times `at`; `last` are those of the last rows."""
    times = read_at(at, axis.dtype, reading)
    positions = np.broadcast_to(axis.positions(times), (len(last), len(times)))
    lead = (positions - last[:, None]) / axis.step
    bad = (lead <= 0) | (lead > horizon + 1e-9)
    if bad.any():
        series, which = np.argwhere(bad)[0]
        first, final = restore_times(axis.times(last[series] + np.array([0, horizon]) * axis.step), axis.dtype)
        given = restore_times(times[[which]], axis.dtype)[0]
        raise ValueError(
            f"`at` must be after {first}, the last row, and no later than {final}, {horizon} steps of "
            f"{axis.describe()} after it. Got {given} instead. Fit with a longer `horizon`, or "
            "pass a frame that ends at another time."
        )
    return positions, lead


def interpolate_steps(steps: Tensor, start: Tensor, lead: np.ndarray, age: Tensor) -> Tensor:
    """Values at fractional lead times, (..., series, times), by linear interpolation.

    `steps` are the values at lead times 1, 2, ..., (..., series, horizon), and `start` those at the last known value,
    (series,) or (..., series), `age` steps before lead time 0, (series,).
    """
    path = torch.cat([start[..., None].expand(*steps.shape[:-1], 1), steps], -1)
    left = np.clip(np.floor(lead), 0, steps.shape[-1] - 1).astype(np.int64)
    index = torch.as_tensor(left).expand(*steps.shape[:-1], -1)
    share = torch.as_tensor(lead) - index
    share = torch.where(index == 0, (share + age[:, None]) / (1 + age[:, None]), share)
    a, b = path.gather(-1, index), path.gather(-1, index + 1)
    return a + share * (b - a)
