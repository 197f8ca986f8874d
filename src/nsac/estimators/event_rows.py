"""Forecast origins of irregular series: which are drawn, with which outages, and how they are split."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.base import Split
from nsac.estimators.event_frames import EventColumns, EventFrame, Observed, latest_values
from nsac.estimators.steps import calendar_features
from nsac.estimators.windows import WindowShape, subsample
from nsac.training import EventsData, cut_origins
from nsac.training.events import Queries

MAX_ORIGINS = 20_000  # forecast origins to learn from, at most; as many from each series as possible
MAX_CALIBRATION_ORIGINS = 1500
MAX_HELD_OUT_QUERIES = 6000  # of the rows that validate a member, or calibrate
MAX_TRAINING_QUERIES = 16  # of a row in a batch, chosen at random
OUTAGE_SHARE = 0.2  # origins that come a second time, later, without the observations in between
MISSING_SHARE = 0.2  # origins that come a second time, without some of the channels
MIN_SERIES = 10  # with so many series, or more, they are split by series
CALIBRATION_SHARE, MAX_CALIBRATION_SHARE, ENOUGH_SERIES = 0.1, 0.25, 20
"""Share of the series for calibration: the first, or as many as there are enough of, but at most the second."""
MIN_FOLDS = 8  # with fewer members, some series are in no validation set
VALIDATION_HORIZONS = 3  # of a block that validates one of several members, at least: a short series has fewer


@dataclass(frozen=True)
class Origins:
    """Forecast origins, (n,) each; times are those of `EventFrame.clock`."""

    series: np.ndarray
    times: np.ndarray
    seen: np.ndarray  # time of the last observation that is seen: earlier than the origin in an outage
    until: np.ndarray | None = None  # (n, channels), time after which a channel is not seen; None: all are

    def where(self, rows: np.ndarray) -> "Origins":
        """Some of them."""
        until = None if self.until is None else self.until[rows]
        return Origins(self.series[rows], self.times[rows], self.seen[rows], until)

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class RowMaker:
    """Turns events and origins into rows, as a model needs them."""

    columns: EventColumns
    cycles: list[str]  # of the calendar, in use
    lookback: float  # on the clock: seconds, or in the unit of the time column
    horizon: float
    scale: Any  # SeriesScale
    known_mean: np.ndarray  # (known-future columns,), in the training split, as `known_std`
    known_std: np.ndarray
    static_mean: np.ndarray  # (static_dim,)
    static_std: np.ndarray
    with_levels: bool  # whether offset and scale among all series are attributes of a row

    @property
    def future_dim(self) -> int:
        """Numbers that are known of a query in advance."""
        return len(self.columns.known_future) + 2 * len(self.cycles)

    @property
    def static_dim(self) -> int:
        """Numbers that describe a row."""
        return self.columns.static_dim + (2 * len(self.columns.channels) if self.with_levels else 0)

    def rows(self, frame: EventFrame, origins: Origins, queries: Queries, dtype: torch.dtype) -> EventsData:
        """Rows of these origins, with these queries."""
        events, clock = frame.events, frame.clock(frame.events.times)
        start, *_ = cut_origins(events.series, clock, origins.series, origins.times, self.lookback, 0.0)
        _, stop, *_ = cut_origins(events.series, clock, origins.series, origins.seen, self.lookback, 0.0)
        flat = torch.from_numpy(events.values), torch.from_numpy(events.column), torch.from_numpy(clock)
        data = EventsData(
            *flat, torch.from_numpy(origins.times), torch.minimum(start, stop), stop, queries, self.scale,
            until=None if origins.until is None else torch.from_numpy(origins.until), dtype=dtype,
        )  # fmt: skip
        if self.static_dim:
            given = (frame.static[origins.series] - self.static_mean) / self.static_std
            columns = [torch.from_numpy(given)]
            if self.with_levels:
                columns.append(self.scale.levels(data))
            data.static = torch.cat(columns, 1)
        return data

    def observed_queries(self, frame: EventFrame, origins: Origins) -> Queries:
        """All targets observed within the horizon of each origin."""
        targets = target_events(frame, self.columns)
        clock = frame.clock(targets.times)
        _, _, start, stop = cut_origins(targets.series, clock, origins.series, origins.times, 0.0, self.horizon)
        future = self.future(frame, targets.series, targets.times)
        return Queries(
            torch.from_numpy(targets.column), torch.from_numpy(clock), torch.from_numpy(targets.values), start, stop,
            future,
        )  # fmt: skip

    def asked_queries(self, frame: EventFrame, series: np.ndarray, times: np.ndarray, count: np.ndarray) -> Queries:
        """Queries for all targets at these times, (n,) each and sorted by series; `count` is their number by series."""
        targets = len(self.columns.targets)
        channel = torch.arange(targets).repeat(len(times))
        future = self.future(frame, series, times)
        clock = torch.from_numpy(frame.clock(times)).repeat_interleave(targets)
        stop = torch.from_numpy(np.cumsum(count) * targets)
        start = torch.cat([stop.new_zeros(1), stop[:-1]])
        future = None if future is None else future.repeat_interleave(targets, 0)
        return Queries(channel, clock, torch.full((len(clock),), torch.nan, dtype=torch.float64), start, stop, future)

    def future(self, frame: EventFrame, series: np.ndarray, times: np.ndarray) -> Tensor | None:
        """What is known in advance at these times, (n, future_dim): the latest known-future values and the calendar."""
        if not self.future_dim:
            return None
        first = len(self.columns.targets) + len(self.columns.covariates)
        names = range(first, len(self.columns.channels))
        known = np.stack([latest_values(frame.events, i, series, times) for i in names], 1) if names else None
        calendar = calendar_features(times, frame.time_dtype, self.cycles)
        if known is None:
            return torch.from_numpy(calendar)
        return torch.from_numpy(np.concatenate([(known - self.known_mean) / self.known_std, calendar], 1))


def target_events(frame: EventFrame, columns: EventColumns) -> Observed:
    """Observed values of the targets."""
    return frame.events.where(frame.events.column < len(columns.targets))


def draw_origins(
    frame: EventFrame, columns: EventColumns, lookback: float, horizon: float, gap: float, random: np.random.Generator
) -> Origins:
    """Origins at observations that are followed by a target within the horizon; some in an outage, or without channels.

    `gap` is the typical time between observations, the shortest outage.
    """
    channels = len(columns.targets) + len(columns.covariates)
    events = frame.events.where(frame.events.column < channels)
    clock = frame.clock(events.times)
    new = np.append(True, (np.diff(events.series) != 0) | (np.diff(clock) != 0))
    series, times = events.series[new], clock[new]
    rows = _some_of_each(series, MAX_ORIGINS, random)
    series, times = series[rows], times[rows]
    late = np.flatnonzero(random.random(len(times)) < OUTAGE_SHARE)
    delay = gap * np.maximum(lookback / 2 / gap, 1.0) ** random.random(len(late))
    origins = Origins(
        np.append(series, series[late]), np.append(times, times[late] + delay), np.append(times, times[late])
    )
    if channels > 1:
        origins = _with_missing(origins, channels, len(columns.channels), lookback, gap, random)
    targets = target_events(frame, columns)
    clock = frame.clock(targets.times)
    _, _, start, stop = cut_origins(targets.series, clock, origins.series, origins.times, 0.0, horizon)
    return origins.where(np.flatnonzero((stop > start).numpy()))


def _with_missing(
    origins: Origins, channels: int, total: int, lookback: float, gap: float, random: np.random.Generator
) -> Origins:
    """These origins, and some a second time without one or more of the channels, for a while or the whole lookback.

    What is known in advance, the last of all channels, is never missing.
    """
    copies = np.flatnonzero(random.random(len(origins)) < MISSING_SHARE)
    rank = random.random((len(copies), channels)).argsort(1)
    missing = rank < random.integers(1, channels, (len(copies), 1))  # not all
    age = np.minimum(gap * (lookback / gap) ** (2 * random.random(len(copies))), lookback)  # half: the whole lookback
    until = np.full((len(origins) + len(copies), total), np.inf)
    until[len(origins) :, :channels][missing] = np.repeat(origins.times[copies] - age, missing.sum(1))
    again = origins.where(np.append(np.arange(len(origins)), copies))
    return Origins(again.series, again.times, again.seen, until)


def _some_of_each(series: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    """Rows, at most so many: as many of each series as possible, drawn at random."""
    if len(series) <= most:
        return np.arange(len(series))
    order = random.permutation(len(series))
    shuffled = series[order]
    by_series = np.argsort(shuffled, kind="stable")
    _, first = np.unique(shuffled[by_series], return_index=True)
    rank = np.empty(len(series), dtype=np.int64)
    rank[order[by_series]] = np.arange(len(series)) - np.repeat(first, np.diff(np.append(first, len(series))))
    return np.sort(np.lexsort([random.random(len(series)), rank])[:most])


@dataclass(frozen=True)
class EventSplits:
    """Numbers of the origins that are for calibration, and the splits of the members."""

    calibration: np.ndarray
    rest: np.ndarray
    members: list[Split]
    by_series: bool


def split_origins(
    frame: EventFrame, origins: Origins, members: int, shape: WindowShape, step: float, random: np.random.Generator
) -> EventSplits:
    """By series if there are many; otherwise by time: calibration is the latest, validation are blocks of time.

    A member learns when to stop, and whether trees help, on its block. One or two horizons have one or two errors,
    and what helped there by chance is kept.
    """
    names = np.unique(origins.series)
    if len(names) >= MIN_SERIES:
        order = random.permutation(names)
        share = max(round(CALIBRATION_SHARE * len(names)), min(ENOUGH_SERIES, int(MAX_CALIBRATION_SHARE * len(names))))
        held_out, others = order[:share], order[share:]
        calibration = np.flatnonzero(np.isin(origins.series, held_out))
        rest = np.flatnonzero(np.isin(origins.series, others))
        folds = np.array_split(others, min(max(members, MIN_FOLDS), len(others)))[:members]
        splits = []
        for fold in folds:
            inside = np.isin(origins.series[rest], fold)
            splits.append((rest[~inside], rest[inside]))
        calibration = np.sort(random.permutation(calibration)[:MAX_CALIBRATION_ORIGINS])
        return EventSplits(calibration, rest, splits, True)
    position = _position(frame, origins, step)
    order = np.argsort(position, kind="stable")
    rest, calibration = shape.calibration_split(position[order])
    horizons = len(np.unique(np.floor(position[order][rest] / shape.horizon)))
    members = max(1, min(members, horizons // (2 * VALIDATION_HORIZONS)))
    splits = [(order[a], order[b]) for a, b in shape.member_splits(rest, position[order], members)]
    return EventSplits(order[subsample(calibration, MAX_CALIBRATION_ORIGINS)], order[rest], splits, False)


def fewer_origins(chosen: np.ndarray, rows: EventsData, random: np.random.Generator) -> np.ndarray:
    """Some of the chosen origins, drawn at random, if all of them have more than `MAX_HELD_OUT_QUERIES` queries."""
    order = random.permutation(len(chosen))
    count = (rows.queries.stop - rows.queries.start).clamp(max=rows.max_queries or len(rows.queries.times)).numpy()
    total = np.cumsum(count[chosen[order]])
    return chosen[np.sort(order[: max(1, np.searchsorted(total, MAX_HELD_OUT_QUERIES, side="right"))])]


def _position(frame: EventFrame, origins: Origins, step: float) -> np.ndarray:
    """Positions of origins within their series, in steps, as if all series had the same length."""
    clock = frame.clock(frame.row_times)
    first = np.searchsorted(frame.row_series, np.arange(len(frame.names)))
    last = np.append(first[1:], len(clock)) - 1
    begin, length = clock[first], np.maximum(clock[last] - clock[first], step)
    share = (origins.times - begin[origins.series]) / length[origins.series]
    return share * np.median(length) / step
