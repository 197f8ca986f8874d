"""Regular grids of irregularly sampled series."""

from dataclasses import dataclass

import numpy as np

from nsac.estimators.observations import Observations

MAX_SLOT_OFFSET, MAX_OFFSET_ROWS = 0.05, 0.01
"""A series is irregular if more than the second share of its rows lie more than the first share of a step off."""
MAX_SLOTS_PER_ROW = 4
"""Slots of a grid per row of the series, at most: longer gaps begin a new stretch."""


@dataclass(frozen=True)
class Grid:
    """Regular stretches, one after the other; a slot holds the mean of the rows nearest to it, or NaN."""

    values: np.ndarray
    """(slots, inputs), float64"""
    offset: np.ndarray
    """(slots,), time of the observations minus that of the slot, in steps; NaN where there is none"""
    times: np.ndarray
    """(slots,)"""
    codes: np.ndarray
    """(slots,), number of the series"""
    start: np.ndarray
    """(slots,), first slot of the stretch"""
    stop: np.ndarray
    """(slots,), first slot after the stretch"""
    irregular: bool
    """whether many rows are off their slots"""


def to_grid(observations: Observations, step: float | int, max_gap: int | None, to_last: bool = False) -> Grid:
    """Put every row into its nearest slot.

    Args:
        observations: at least one row.
        step: time between slots.
        max_gap: steps; a longer gap begins a new stretch. None for one stretch per series.
        to_last: count slots from the last row of a stretch, not from the first.
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
