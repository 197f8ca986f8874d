"""Irregular series of one or two channels: glucose of a person never seen in training, and the Brusselator."""
# pyright: reportCallIssue=false, reportArgumentType=false
# (the type checker counts unpacked splits as any number of arguments)

import numpy as np
import torch

from nsac.estimators.event_scaling import SeriesScale
from nsac.lab.datasets.sporadic import EventTable, load_brusselator, load_glucose
from nsac.lab.tasks.base import Task, task
from nsac.lab.tasks.events import asked_rows, make_split
from nsac.methods import EventsProblem
from nsac.training import ChannelScale, cut_origins

MAX_GAP, MIN_SEGMENT = 45.0, 240  # minutes, and readings of a segment
GLUCOSE_LOOKBACK, GLUCOSE_HORIZON = 720.0, 62.5  # minutes; the twelfth reading may be late
GLUCOSE_LEADS = {"30min": (27.5, 32.5), "60min": (57.5, 62.5)}
MIN_HISTORY = 12  # readings before the first forecast of a segment
GLUCOSE_SHARES = (0.7, 0.85)  # of a segment of a training person: where training and validation end
BRUSSELATOR_ORIGIN, BRUSSELATOR_END = 40.0, 50.0
BRUSSELATOR_SHARES = (0.6, 0.7, 0.8)
_DAY = 1440.0

_GLUCOSE = (
    "Glucose of five people (Broll), every 5 minutes with gaps; as in GlucoBench a gap of more than 45 minutes ends a "
    "segment, and segments of fewer than 240 readings are dropped. The readings of the last 12 hours predict those of "
    "the next hour, at their own times, in mg/dL; the time of day of a query is known. One person tests (the seed "
    "modulo 5) and is in no other split. Offset and scale of a row are those of its own readings, drawn towards a "
    "typical person's. Of each segment of the others the first 70 % of the forecast origins train, "
    "the next 15 % select the weights, the rest calibrates; origins whose hour reaches into the next split are left "
    "out. GlucoBench reports the median absolute error within known people, which is an easier task."
)
_BRUSSELATOR = (
    "1,000 series of a stochastic Brusselator, whose two channels are observed at random times between 0 and 50, "
    "seldom together. The observations up to time 40 predict the later ones, in training standard deviations. 60 % of "
    "the series train (cut at times 20, 30 and 40), 10 % select the weights, 10 % calibrate, 20 % test; the seed "
    "shuffles them."
)


def segments_of(table: EventTable) -> np.ndarray:
    """Number of the segment of each reading; -1 in a segment that is too short."""
    breaks = (np.diff(table.series, prepend=-1) != 0) | (np.diff(table.times, prepend=-np.inf) > MAX_GAP)
    segment = np.cumsum(breaks) - 1
    size = np.bincount(segment)
    return np.where(size[segment] < MIN_SEGMENT, -1, segment)


def glucose(seed: int, table: EventTable) -> Task:
    """12 readings ahead for a person never seen."""
    segment = segments_of(table)
    kept = segment >= 0
    segment, person, times, value = segment[kept], table.series[kept], table.times[kept], table.value[kept]
    channel = np.zeros(len(value), np.int64)
    rank = np.arange(len(segment)) - np.searchsorted(segment, segment)
    origins_at = np.flatnonzero(rank >= MIN_HISTORY)
    origin_segment, origins = segment[origins_at], times[origins_at]
    ranges = cut_origins(segment, times, origin_segment, origins, GLUCOSE_LOOKBACK, GLUCOSE_HORIZON)
    test = person[origins_at] == seed % len(table.names)
    split = _time_split(origin_segment, origins)
    train_until = {s: origins[(origin_segment == s) & (split == 0)].max(initial=-np.inf) for s in np.unique(segment)}
    known = np.array([t <= train_until[s] for s, t in zip(segment, times, strict=True)])
    known &= person != seed % len(table.names)
    scale = SeriesScale.fit(value[known], channel[known], person[known], 1)
    rows = make_split({"value": value, "channel": channel, "times": times}, ranges, origins, scale, _PLAIN)
    day = torch.from_numpy(2 * np.pi * times / _DAY)
    rows.queries = rows.queries._replace(future=torch.stack([day.sin(), day.cos()], -1))
    chosen = [~test & (split == 0), ~test & (split == 1), ~test & (split == 2), test]
    splits = [rows.subset(asked_rows(rows, np.flatnonzero(each))) for each in chosen]
    problem = EventsProblem(channels=1, future_dim=2, time_scale=GLUCOSE_LOOKBACK)
    baselines = ("persistence", "extrapolation", "half-mean")
    return Task(
        "glucose", "sound", seed, _GLUCOSE, "mg/dL", problem, *splits, baselines, channels=("glucose",),
        leads=GLUCOSE_LEADS,
    )  # fmt: skip


def brusselator(seed: int, table: EventTable) -> Task:
    """The last fifth of each series."""
    n = len(table.names)
    order = np.random.default_rng(seed).permutation(n)
    splits = np.split(order, [round(share * n) for share in BRUSSELATOR_SHARES])
    known = np.isin(table.series, splits[0])
    scale = ChannelScale.fit(torch.from_numpy(table.value[known]), torch.from_numpy(table.channel[known]), 2)
    observations = {"value": table.value, "channel": table.channel, "times": table.times}
    unit = scale.mean.numpy(), scale.std.numpy()

    def cut(series: np.ndarray, at: tuple[float, ...]):
        origin_series, origins = np.repeat(series, len(at)), np.tile(at, len(series))
        horizon = BRUSSELATOR_END - BRUSSELATOR_ORIGIN
        ranges = cut_origins(table.series, table.times, origin_series, origins, BRUSSELATOR_ORIGIN, horizon)
        rows = make_split(observations, ranges, origins, scale, unit)
        return rows.subset(asked_rows(rows, np.arange(len(origins))))

    train = cut(splits[0], (20.0, 30.0, BRUSSELATOR_ORIGIN))
    others = [cut(each, (BRUSSELATOR_ORIGIN,)) for each in splits[1:]]
    problem = EventsProblem(channels=2, time_scale=BRUSSELATOR_ORIGIN)
    names, unit_name = ("first", "second"), "training standard deviations"
    baselines = ("mean", "persistence", "half-mean")
    return Task(
        "brusselator", "sound", seed, _BRUSSELATOR, unit_name, problem, train, *others, baselines, channels=names
    )


def _time_split(series: np.ndarray, origins: np.ndarray) -> np.ndarray:
    """0, 1, 2 for the first, second and last origins of each series; -1 where the targets reach into the next."""
    split = np.zeros(len(series), int)
    for each in np.unique(series):
        rows = np.flatnonzero(series == each)
        borders = [round(share * len(rows)) for share in GLUCOSE_SHARES]
        split[rows] = np.searchsorted(borders, np.arange(len(rows)), side="right")
        for border in (border for border in borders if border < len(rows)):
            late = (origins[rows] < origins[rows[border]]) & (origins[rows] + GLUCOSE_HORIZON > origins[rows[border]])
            split[rows[late]] = -1
    return split


_PLAIN = np.zeros(1), np.ones(1)  # scores in the unit of the source

task("glucose", "sound")(lambda seed: glucose(seed, load_glucose()))
task("brusselator", "sound")(lambda seed: brusselator(seed, load_brusselator()))
