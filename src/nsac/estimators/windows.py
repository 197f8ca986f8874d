"""Regular grids of irregularly sampled series, the windows of a grid that can be used, and their splits."""

from dataclasses import dataclass

import numpy as np

from nsac.estimators.base import Split, calibration_size
from nsac.estimators.observations import Observations

MAX_SLOT_OFFSET, MAX_OFFSET_ROWS = 0.05, 0.01
"""A series is irregular if more than the second share of its rows lie more than the first share of a step off."""
MAX_SLOTS_PER_ROW = 4  # slots of a grid per row of the series, at most: longer gaps begin a new stretch
SINGLE_MEMBER_BLOCKS = 6  # a single member is validated on the latest of so many blocks of time
MAX_VALIDATION_WINDOWS = 2000  # validation windows of a member, at most; a block of time is subsampled evenly
MIN_COMPLETE_WINDOWS = 0.95
"""If this share of the windows of one series is complete, the others are left out, and the model learns nothing of
missing values. With several series they are kept: a new series has few values at first."""
MIN_WINDOWS = 20  # windows needed to fit


@dataclass(frozen=True)
class Grid:
    """Regular stretches, one after the other; a slot holds the mean of the rows nearest to it, or NaN."""

    values: np.ndarray  # (slots, inputs), float64
    offset: np.ndarray  # (slots,), time of the observations minus that of the slot, in steps; NaN where there is none
    times: np.ndarray  # (slots,)
    codes: np.ndarray  # (slots,), number of the series
    start: np.ndarray  # (slots,), first slot of the stretch
    stop: np.ndarray  # (slots,), first slot after the stretch
    irregular: bool  # whether many rows are off their slots


def to_grid(observations: Observations, step: float | int, max_gap: int | None, to_last: bool = False) -> Grid:
    """Put every row into its nearest slot, counted from the first row of a stretch, or `to_last`.

    A gap of more than `max_gap` steps begins a new stretch; None for one stretch per series.
    """
    times, codes, rows = observations.times, observations.codes, len(observations.times)
    gaps = np.diff(times) / step
    same = np.diff(codes) == 0
    longest = np.inf if max_gap is None else _longest_bridged_gap(gaps[same], max_gap, rows)
    breaks = np.flatnonzero(~same | (gaps > longest))
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
    offset = place - np.rint(place)
    lengths = slot[last] + 1
    start = np.concatenate([[0], np.cumsum(lengths)])
    where, slots = start[stretch] + slot, int(start[-1])
    stretch_of_slot = np.repeat(np.arange(len(first)), lengths)
    within = np.arange(slots) - start[stretch_of_slot]
    return Grid(
        values=np.stack([_slot_means(column, where, slots) for column in observations.values.T], 1),
        offset=_slot_means(offset, where, slots),
        times=origin[stretch_of_slot] + within * step,
        codes=codes[first][stretch_of_slot],
        start=start[stretch_of_slot],
        stop=start[stretch_of_slot + 1],
        irregular=bool((np.abs(offset) > MAX_SLOT_OFFSET).mean() > MAX_OFFSET_ROWS),
    )


@dataclass(frozen=True)
class WindowShape:
    """Steps of a window before and after its forecast origin."""

    lookback: int
    horizon: int

    @property
    def leads(self) -> int:
        """Steps from the oldest last known value to the end of the horizon."""
        return self.horizon + self.lookback - 1

    @property
    def max_gap(self) -> int:
        """Steps; a window that spans a longer gap has no known target before or after its origin."""
        return max(self.lookback, self.horizon)

    def check_length(self, grid: Grid, step: str) -> None:
        """Refuse a grid that is too short."""
        longest, need = int((grid.stop - grid.start).max()), self.lookback + self.horizon
        if longest < need:
            raise ValueError(
                f"`lookback` + `horizon` must be no longer than the data. Got {self.lookback} + {self.horizon} = "
                f"{need} steps, and the longest stretch without a long gap has {longest} steps of {step}. Lower them, "
                "or pass more rows."
            )

    def usable(self, grid: Grid) -> np.ndarray:
        """Whether a slot has a known target both in the lookback and in the horizon, (slots,)."""
        slots = np.arange(len(grid.times))
        known = np.isfinite(grid.values[:, 0])
        before = count_between(known, np.maximum(grid.start, slots + 1 - self.lookback), slots + 1)
        after = count_between(known, slots + 1, np.minimum(grid.stop, slots + 1 + self.horizon))
        return (before > 0) & (after > 0)

    def select(self, grid: Grid) -> tuple[np.ndarray, bool]:
        """Slots to forecast from, and whether their windows have missing values."""
        slots = np.arange(len(grid.times))
        first, stop = slots + 1 - self.lookback, slots + 1 + self.horizon
        inside = (first >= grid.start) & (stop <= grid.stop)
        missing = np.isnan(grid.values)
        complete = inside.copy()
        complete[inside] = count_between(missing.sum(1) > 0, first[inside], slots[inside] + 1) == 0
        complete[complete] = count_between(missing[:, 0], slots[complete] + 1, stop[complete]) == 0
        usable, several = self.usable(grid), grid.codes.max() > grid.codes.min()
        enough = complete.sum() >= MIN_COMPLETE_WINDOWS * inside.sum() and inside.sum() >= usable.sum() / 2
        if enough and not several:
            return np.flatnonzero(complete), False
        return np.flatnonzero(usable), True

    def calibration_split(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Windows to learn from, and the latest for calibration, by their ascending forecast origins, in steps."""
        n = len(times)
        if n < MIN_WINDOWS:
            raise ValueError(
                f"`frame` must give at least {MIN_WINDOWS} windows of {self.lookback} + {self.horizon} steps. Got {n} "
                "instead. Pass more rows, or lower `lookback` and `horizon`."
            )
        held_out = calibration_size(n)
        calibration = np.arange(n - held_out, n)
        rest = np.flatnonzero(times[: n - held_out] <= times[n - held_out] - self._gap(n))
        return rest if len(rest) >= n // 2 else np.arange(n - held_out), calibration

    def member_splits(self, rest: np.ndarray, times: np.ndarray, members: int) -> list[Split]:
        """Training and validation windows of each member, among `rest`, those that are not for calibration.

        Time is cut into two blocks per member. A member is validated on the second of its two, and is not trained on
        windows that overlap it.
        """
        members = max(1, min(members, len(rest) // 8))
        if members > 1:
            blocks = np.array_split(rest, 2 * members)[1::2]
        else:
            blocks = [rest[-(len(rest) // SINGLE_MEMBER_BLOCKS) :]]
        gap, splits = self._gap(len(times)), []
        for block in blocks:
            apart = (times[rest] <= times[block[0]] - gap) | (times[rest] >= times[block[-1]] + gap)
            splits.append((rest[apart], subsample(block, MAX_VALIDATION_WINDOWS)))
        return splits

    def _gap(self, n: int) -> int:
        return min(self.horizon, n // 20)  # steps between two splits of n windows


def subsample(rows: np.ndarray, max_rows: int) -> np.ndarray:
    """At most so many rows, evenly spaced, the first and the last among them."""
    if len(rows) <= max_rows:
        return rows
    return rows[np.linspace(0, len(rows) - 1, max_rows).round().astype(np.int64)]


def count_between(flags: np.ndarray, first: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Number of flags that are set from `first` to before `stop`, for each pair."""
    total = np.concatenate([[0], np.cumsum(flags)])
    return total[stop] - total[first]


def _longest_bridged_gap(gaps: np.ndarray, max_gap: float, rows: int) -> float:
    """The longest gap, in steps, that can be bridged together with all shorter ones within `MAX_SLOTS_PER_ROW`."""
    gaps = np.sort(gaps[gaps <= max_gap])
    bridged = int(np.searchsorted(np.cumsum(gaps), MAX_SLOTS_PER_ROW * rows))
    return np.nextafter(gaps[bridged], 0) if bridged < len(gaps) else max_gap


def _slot_means(values: np.ndarray, where: np.ndarray, slots: int) -> np.ndarray:
    known = ~np.isnan(values)
    count = np.bincount(where[known], minlength=slots)
    total = np.bincount(where[known], weights=values[known], minlength=slots)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
