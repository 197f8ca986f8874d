"""Stays in intensive care: the rest of a stay (point forecasts), and the next three hours (probabilistic forecasts)."""
# pyright: reportCallIssue=false, reportArgumentType=false
# (the type checker counts unpacked splits as any number of arguments)

import numpy as np
import torch

from nsac.lab.datasets.physionet import CHANNELS, Stays, load_stays
from nsac.lab.tasks.base import Task, task
from nsac.lab.tasks.events import asked_rows, make_split
from nsac.methods import EventsProblem
from nsac.training import ChannelScale, cut_origins

SHARES = (0.6, 0.7, 0.8)  # of the stays: where training, validation and calibration end
POINT_ORIGIN, POINT_TIME_SCALE = 24.0, 24.0  # hours
NEXT_ORIGIN, NEXT_TIME_SCALE, NEXT_TIMES, MAX_Z = 36, 36.0, 3, 5.0
NEXT_TRAINING_ORIGINS = (18, 24, 30, 36, 42)  # hours; training stays are cut at each of them
TRAINING_QUERIES = 64  # queries of a training row, chosen at random
BASELINES = ("mean", "persistence", "half-mean")
_HALF_MINUTE = 1 / 120
_MAX_STATIC = 5.0  # largest standardised attribute: a height of 460 cm is an error

_SPLIT = (
    "12,000 stays of the PhysioNet Challenge 2012, shuffled with the seed: 60 % train, 10 % select the weights, 10 % "
    "calibrate, 20 % test. Age, gender, height, weight and type of unit are attributes. All statistics of the inputs "
    "are those of the training split. For training, "
)
_POINT = (
    "The point protocol of t-PatchGNN: the observations of the first 24 hours predict every observation of the next 24 "
    "of 37 channels; impossible values are kept. Scores are in min-max units of the stays that do not test; "
    "`mse_channels` and `mae_channels`, the published numbers, are errors per channel, then averaged over channels, so "
    "that a few extreme values of a seldom observed channel weigh as much as all heart rates: splits differ by 10 %, "
    "and `mse_channels_ratio` divides by the error of the last value on the same stays. Published code counts the "
    "attributes as four more channels, which have no targets. "
    + _SPLIT
    + f"a stay has at most {TRAINING_QUERIES} queries at a time, chosen at random with weights 1 / sqrt(number of "
    "observations of the channel)."
)
_NEXT = (
    "The probabilistic protocol of ProFITi: 36 channels (without the weight), hourly means (times are rounded), "
    "z-scores; values of 5 standard deviations or more are dropped. The observations before hour 36 predict all "
    "observations at the next three hours that have one. Published code standardises with all stays, those of the test "
    "split included, and reports five seeds on one split; here moments are those of the training split, and every seed "
    "has its own split. Scores are over all observations, and the likelihood is that of each one separately. "
    + _SPLIT
    + "stays are cut at hours 18, 24, 30, 36 and 42."
)


def split_stays(stays: int, seed: int) -> list[np.ndarray]:
    """Stays of training, validation, calibration and test."""
    order = np.random.default_rng(seed).permutation(stays)
    return np.split(order, [round(share * stays) for share in SHARES])


def standard_static(static: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Age, gender, height and weight, standardised with the training stays, and the type of unit as four flags."""
    numbers = static[:, [0, 1, 2, 4]]
    known = numbers[train]
    count = np.maximum((~np.isnan(known)).sum(0), 1)
    mean = np.nansum(known, 0) / count
    std = np.sqrt(np.nansum((known - mean) ** 2, 0) / count)
    numbers = np.clip((numbers - mean) / np.where(std > 0, std, 1.0), -_MAX_STATIC, _MAX_STATIC)
    return np.concatenate([numbers, static[:, 3:4] == np.arange(1, 5)], 1)


def point(seed: int, stays: Stays) -> Task:
    """24 hours predict 24 hours, in min-max units."""
    n, channels = len(stays.record), len(CHANNELS)
    splits = split_stays(n, seed)
    hours, in_train, in_test = stays.minutes / 60, np.isin(stays.stay, splits[0]), np.isin(stays.stay, splits[3])
    low, high = np.full(channels, np.inf), np.full(channels, -np.inf)
    np.minimum.at(low, stays.channel[~in_test], stays.value[~in_test])
    np.maximum.at(high, stays.channel[~in_test], stays.value[~in_test])
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    unit = low, np.where(high > low, high - low, 1.0)
    observations = {"value": stays.value, "channel": stays.channel, "times": hours}
    scale, count = _scale(stays.value[in_train], stays.channel[in_train], channels)
    origins = np.full(n, POINT_ORIGIN - _HALF_MINUTE)  # an observation at 24:00 is a target
    ranges = cut_origins(stays.stay, hours, np.arange(n), origins, 2 * POINT_ORIGIN, 2 * POINT_ORIGIN)
    static = standard_static(stays.static, splits[0])
    rows = make_split(observations, ranges, origins, scale, unit, static)
    weight = torch.from_numpy(np.maximum(count, 1) ** -0.5)
    train = rows.subset(asked_rows(rows, splits[0]), max_queries=TRAINING_QUERIES, weight=weight)
    validation = rows.subset(asked_rows(rows, splits[1]), max_queries=TRAINING_QUERIES, weight=weight).shorter_first()
    others = [rows.subset(asked_rows(rows, each)).shorter_first() for each in splits[2:]]
    problem = EventsProblem(channels=channels, static_dim=static.shape[1], time_scale=POINT_TIME_SCALE)
    return Task(
        "physionet-point", "sound", seed, _POINT, "min-max", problem, train, validation, *others, BASELINES,
        channels=CHANNELS,
    )  # fmt: skip


def following(seed: int, stays: Stays) -> Task:
    """36 hours predict the next three hours with observations, in training standard deviations."""
    names = tuple(name for name in CHANNELS if name != "Weight")
    kept = np.array([CHANNELS.index(name) for name in names])
    stay, hour, channel, value = hourly(stays, kept)
    n, channels = len(stays.record), len(names)
    splits = split_stays(n, seed)
    in_train = np.isin(stay, splits[0])
    scale, _ = _scale(value[in_train], channel[in_train], channels)
    mean, std = scale.mean.numpy(), scale.std.numpy()
    usual = np.abs(value - mean[channel]) < MAX_Z * std[channel]
    stay, hour, channel, value = stay[usual], hour[usual], channel[usual], value[usual]
    observations = {"value": value, "channel": channel, "times": hour.astype(float)}
    static = standard_static(stays.static, splits[0])

    def cut(chosen: np.ndarray, hours: tuple[int, ...]):
        origin_stay = np.repeat(chosen, len(hours))
        origins = np.tile(np.array(hours, float), len(chosen)) - 1  # the last hour that is observed
        start, stop, first, _ = cut_origins(stay, observations["times"], origin_stay, origins, NEXT_TIME_SCALE, 48.0)
        last = next_times(stay, hour, origin_stay, first.numpy())
        ranges = start, stop, first, torch.from_numpy(last)
        rows = make_split(observations, ranges, origins, scale, (mean, std), static[origin_stay])
        return rows.subset(asked_rows(rows, np.arange(len(origins))))

    train = cut(splits[0], NEXT_TRAINING_ORIGINS)
    others = [cut(each, (NEXT_ORIGIN,)).shorter_first() for each in splits[1:]]
    problem = EventsProblem(channels=channels, static_dim=static.shape[1], time_scale=NEXT_TIME_SCALE)
    return Task(
        "physionet-next", "sound", seed, _NEXT, "training standard deviations", problem, train, *others, BASELINES,
        channels=names,
    )  # fmt: skip


def hourly(stays: Stays, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Stay, hour, channel (position in `kept`) and mean value of each hour, sorted; times are rounded to hours."""
    position = np.full(len(CHANNELS), -1)
    position[kept] = np.arange(len(kept))
    channel = position[stays.channel]
    inside = channel >= 0
    hour = np.round(stays.minutes[inside] / 60).astype(np.int64)
    hours = int(hour.max(initial=0)) + 1
    key = (stays.stay[inside] * hours + hour) * len(kept) + channel[inside]
    names, place = np.unique(key, return_inverse=True)
    value = np.bincount(place, stays.value[inside]) / np.bincount(place)
    return names // len(kept) // hours, names // len(kept) % hours, names % len(kept), value


def next_times(stay: np.ndarray, hour: np.ndarray, origin_stay: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The observation after the last one at the next `NEXT_TIMES` times of the stay, from observation `first` on."""
    begins = np.flatnonzero(np.diff(stay, prepend=-1) | np.diff(hour, prepend=-1))  # observations that open a time
    begins = np.append(begins, [len(stay)] * (NEXT_TIMES + 1))
    after = begins[np.searchsorted(begins, first) + NEXT_TIMES]
    return np.minimum(after, np.searchsorted(stay, origin_stay, side="right"))


def _scale(value: np.ndarray, channel: np.ndarray, channels: int) -> tuple[ChannelScale, np.ndarray]:
    """Scale of the training observations, and their number per channel."""
    scale = ChannelScale.fit(torch.from_numpy(value), torch.from_numpy(channel), channels)
    return scale, np.bincount(channel, minlength=channels)


task("physionet-point", "sound")(lambda seed: point(seed, load_stays()))
task("physionet-next", "sound")(lambda seed: following(seed, load_stays()))
