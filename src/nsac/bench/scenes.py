"""Scenes: a training set, rows like it, and rows from elsewhere.

Which kinds of shift are reported and which may be used to choose between models is settled by two lists that share no
name. Some scenes only confirm: they were written down before the model was changed for the last time, and first looked
at after it.
"""

import math
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pandas as pd
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from nsac._checks import check_choice
from nsac.bench.spirals import PROBLEM
from nsac.datasets import make_spirals
from nsac.datasets.bearings import load_bearing
from nsac.datasets.uci import load_uci
from nsac.datasets.weather import JENA_COLUMNS, load_ettm1, load_jena, segments
from nsac.methods import Problem
from nsac.training import TensorData

REPORTED = (
    "other_bearing", "other_condition", "other_rig", "season", "frozen_sensor", "level_shift", "later_times",
    "missing_quarter", "other_direction", "left_out_cluster", "left_out_side", "shuffled_features",
)  # fmt: skip
"""Kinds of shift whose numbers are published; nothing is ever chosen by them."""

CHOOSING = (
    "noise", "box", "crossover", "recalibrated", "gain", "drift", "spikes", "stretched_time", "bigger", "thinned",
    "left_out_target",
)  # fmt: skip
"""Kinds of shift for comparing variants of a method."""

_TABLE = ("noise", "box", "crossover", "recalibrated")
_WINDOW = ("noise", "crossover", "gain", "drift", "spikes")
_BEARINGS = ("other_bearing", "other_condition", "other_rig")
_SENSORS = ("season", "frozen_sensor", "level_shift")
_SPIRAL = ("later_times", "missing_quarter", "other_direction")
_LEFT_OUT = ("left_out_cluster", "left_out_side")

_CONFIRMING: dict[str, tuple[str, ...]] = {
    "pronostia": _BEARINGS,
    "ettm1/winter": _SENSORS,
    "jena/winter": _SENSORS,
    "spiral/noisy": _SPIRAL,
    **{f"{data}/{kind}": (kind,) for data in ("boston", "wine-red") for kind in (*_LEFT_OUT, "shuffled_features")},
}

CONFIRMING = tuple(_CONFIRMING)
"""Scenes of the reported kinds whose data was first looked at when the model was settled."""

SCENES: dict[str, tuple[str, ...]] = {
    "bearings": (*_BEARINGS, *_TABLE),
    "ettm1": (*_SENSORS, *_WINDOW),
    "jena": (*_SENSORS, *_WINDOW),
    "spiral": (*_SPIRAL, "noise", "stretched_time", "bigger", "thinned"),
    **{data: ("shuffled_features", *_TABLE) for data in ("power-plant", "protein", "concrete")},
    **{data: _TABLE for data in ("boston", "wine-red")},
    **{f"{data}/{kind}": (kind,) for kind in _LEFT_OUT for data in ("kin8nm", "power-plant", "protein", "concrete")},
    **{f"{data}/left_out_target": ("left_out_target",) for data in ("boston", "wine-red", "concrete")},
    **_CONFIRMING,
}
"""Name of a scene to the kinds of its shifts.

The inputs of Kin8nm are independent and uniform: shuffled rows, rows of the bounding box and crossed rows are of the
same distribution as the data, no shift at all. So there is no such scene.
"""

TABLE_ROWS, WINDOW_ROWS, TEST_ROWS = 4000, 6000, 700
"""Most training rows of a table, training windows, and rows of validation and of each test set."""

RUNS = {
    "bearings": ("xjtu", ("1_1", "1_2", "1_3"), {
        "other_bearing": (("xjtu", "1_4"), ("xjtu", "1_5")),
        "other_condition": (("xjtu", "2_2"), ("xjtu", "2_4")),
        "other_rig": (("pronostia", "1_2"), ("pronostia", "1_4"), ("hust", "1")),
    }),
    "pronostia": ("pronostia", ("2_1", "2_2", "2_3"), {
        "other_bearing": (("pronostia", "2_4"), ("pronostia", "2_6")),
        "other_condition": (("pronostia", "1_2"), ("pronostia", "1_4"), ("pronostia", "3_1"), ("pronostia", "3_2")),
        "other_rig": (("xjtu", "1_1"), ("xjtu", "2_2"), ("hust", "1")),
    }),
}  # fmt: skip
"""Rig and bearings of training, and those of each shift."""

BEARING_BLOCK, BEARING_MARGIN = 100, 5
"""Vibration windows of a block, which is held out as a whole, and how many are dropped at each of its ends."""

LABEL_NOISE = 0.05
"""Noise added to the degradation, in its standard deviations. The label is computed, not measured, and constant over
most of a life: without noise the likelihood has no bound, and training by it diverges."""

LOOKBACK, HORIZON, BLOCK_DAYS = 48, 24, 2
"""Steps of a window, steps to forecast, and days of a block, which is held out as a whole."""

SUMMER, WINTER = (5, 6, 7, 8), (11, 12, 1, 2)
"""Months of training and of the shift `season`, or the other way round."""

SPIRALS, QUERIES, OBSERVABLE = (200, 40, 40), 16, 75
"""Spirals to train, validate and test; query times of each; and points of the observed half."""

LEFT_OUT = 0.15
"""Share of rows beyond the limit of a feature or of the target."""


@dataclass(frozen=True)
class Shift:
    """Rows from elsewhere."""

    kind: str
    """in `REPORTED` or in `CHOOSING`"""
    data: TensorData


@dataclass(frozen=True)
class Scene:
    """A training set and what is asked of a model of it; inputs and targets are standardised by `train` alone.

    Where only the inputs of a test row are altered, its target stays what it was.
    """

    name: str
    seed: int
    problem: Problem
    train: TensorData
    validation: TensorData
    inside: TensorData
    """rows like those of `train`"""
    outside: dict[str, Shift] = field(default_factory=dict)
    """by name, for instance `"other_bearing/xjtu-1_4"`"""


def scenes(kinds: Iterable[str]) -> list[str]:
    """Names of the scenes that have a shift of these kinds."""
    wanted = set(kinds)
    return [name for name, has in SCENES.items() if wanted & set(has)]


def make_scene(name: str, seed: int = 0) -> Scene:
    """A scene of `SCENES`. The seed chooses rows, blocks, the cluster or side left out, and draws what is random."""
    check_choice("name", name, tuple(SCENES))
    if name in RUNS:
        return _bearings(name, seed)
    data = name.partition("/")[0]
    if data in ("ettm1", "jena"):
        return _windows(name, data, seed)
    if data == "spiral":
        return _spiral(name, seed)
    return _table(name, seed)


def generator_of(name: str, seed: int) -> np.random.Generator:
    """Random numbers of their own for each name and seed."""
    return np.random.default_rng([zlib.crc32(name.encode()), seed])


def tensor(values: np.ndarray) -> Tensor:
    """In the default precision."""
    return torch.as_tensor(np.ascontiguousarray(values), dtype=torch.get_default_dtype())


# Tables. A change of inputs takes standardised rows and training rows, and returns the rows as they are elsewhere.

Change = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def _shuffled_features(x: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
    del train
    return random.permuted(x, axis=0)


def _noise(x: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Gaussian, of a size between 0.1 and 3 deviations, log-uniform from row to row."""
    del train
    size = np.exp(random.uniform(math.log(0.1), math.log(3), (len(x), *[1] * (x.ndim - 1))))
    return x + size * random.standard_normal(x.shape)


def _box(x: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return random.uniform(train.min(0), train.max(0), x.shape)


def _crossover(x: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Half of the features, or of a window's variables, from the most distant of 8 training rows."""
    others = train[random.integers(len(train), size=(len(x), 8))]
    distance = np.square(others - x[:, None]).reshape(len(x), 8, -1).sum(-1)
    other = others[np.arange(len(x)), distance.argmax(1)]
    order = random.random((len(x), x.shape[-1])).argsort(1)
    taken = order < x.shape[-1] // 2
    return np.where(taken if x.ndim == 2 else taken[:, None], other, x)


def _recalibrated(x: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Each feature off by a gain of 0.7 to 1.4 and an offset of about half a deviation, the same for all rows."""
    del train
    gain = np.exp(random.uniform(math.log(0.7), math.log(1.4), x.shape[1]))
    return gain * x + 0.5 * random.standard_normal(x.shape[1])


TABLE_CHANGES: dict[str, Change] = {
    "shuffled_features": _shuffled_features,
    "noise": _noise,
    "box": _box,
    "crossover": _crossover,
    "recalibrated": _recalibrated,
}


def _table_scene(
    name: str,
    seed: int,
    parts: list[tuple[np.ndarray, np.ndarray]],
    away: dict[str, tuple[str, np.ndarray, np.ndarray]],
) -> Scene:
    """Parts are train, validation and inside, (x, y) each; `away` has the kind, x and y of each real shift."""
    (mean, std), (y_mean, y_std) = ((part.mean(0), part.std(0)) for part in parts[0])

    def scaled(x: np.ndarray, y: np.ndarray) -> TensorData:
        return TensorData(x=tensor((x - mean) / std), y=tensor((y - y_mean) / y_std)[:, None])

    train, validation, inside = (scaled(*part) for part in parts)
    outside = {label: Shift(kind, scaled(x, y)) for label, (kind, x, y) in away.items()}
    x, reach = inside.columns["x"].numpy(), train.columns["x"].numpy()
    for kind in SCENES[name]:
        if kind in TABLE_CHANGES:
            changed = TABLE_CHANGES[kind](x, reach, generator_of(f"{name}/{kind}", seed))
            outside[kind] = Shift(kind, TensorData(x=tensor(changed), y=inside.columns["y"]))
    return Scene(name, seed, Problem("table", reach.shape[1], 1), train, validation, inside, outside)


@lru_cache(maxsize=8)
def _rows(data: str) -> np.ndarray:
    """Each row once, the target last."""
    table = load_uci(data)
    return np.unique(np.column_stack([table.x, table.y]), axis=0)


def _table(name: str, seed: int) -> Scene:
    data, _, kind = name.partition("/")
    random, rows = generator_of(name, seed), _rows(data)
    gone = LEAVE_OUT[kind](rows, random) if kind in LEAVE_OUT else np.zeros(len(rows), bool)
    near, far = (random.permutation(np.flatnonzero(part)) for part in (~gone, gone))
    size = min(TEST_ROWS, len(near) // 6)
    chosen = near[2 * size : 2 * size + TABLE_ROWS], near[:size], near[size : 2 * size]
    parts = [(rows[part, :-1], rows[part, -1]) for part in chosen]
    far = rows[far[:TEST_ROWS]]
    return _table_scene(name, seed, parts, {kind: (kind, far[:, :-1], far[:, -1])} if len(far) else {})


def _cluster(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """One of 6 clusters of the inputs, of 10 to 25 % of the rows if there is one."""
    x = (rows[:, :-1] - rows[:, :-1].mean(0)) / rows[:, :-1].std(0)
    label = KMeans(6, random_state=int(random.integers(2**31))).fit_predict(x)
    share = np.bincount(label, minlength=6) / len(label)
    fitting = np.flatnonzero((share >= 0.1) & (share <= 0.25))
    return label == (random.choice(fitting) if len(fitting) else np.abs(share - LEFT_OUT).argmin())


def _side(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Rows beyond a quantile of a feature. Ties can hold many rows, so the limit must leave out 10 to 20 %."""
    for column in random.permutation(rows.shape[1] - 1):
        for sign in random.permutation([-1, 1]):
            gone = sign * rows[:, column] > np.quantile(sign * rows[:, column], 1 - LEFT_OUT)
            if 0.1 <= gone.mean() <= 0.2:
                return gone
    raise ValueError("`rows` must have a feature with 10 to 20 % of the rows on one side. Got none.")


def _top(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Rows of the largest targets."""
    del random
    return rows[:, -1] > np.quantile(rows[:, -1], 1 - LEFT_OUT)


LEAVE_OUT = {"left_out_cluster": _cluster, "left_out_side": _side, "left_out_target": _top}
"""Kind to the function that marks the rows left out of training."""


def _vibration(rig: str, bearing: str) -> tuple[np.ndarray, np.ndarray]:
    """14 features and the label of a run.

    Energy, frequency, kurtosis and deviation are positive and have long tails: their logarithms are taken. The rig HUST
    has a linear label only.
    """
    run = load_bearing(rig, bearing)
    x = run.features.copy()
    x[..., 3] += 3  # from excess kurtosis
    x[..., [0, 1, 3, 6]] = np.log(x[..., [0, 1, 3, 6]])
    return x.reshape(len(x), -1), run.linear if np.isnan(run.degradation).any() else run.degradation


def _bearings(name: str, seed: int) -> Scene:
    random = generator_of(name, seed)
    rig, trained, shifts = RUNS[name]
    runs = [_vibration(rig, bearing) for bearing in trained]
    x, y = (np.concatenate(part) for part in zip(*runs, strict=True))
    place = np.concatenate([np.arange(len(run[0])) for run in runs])
    block = np.cumsum(place % BEARING_BLOCK == 0) - 1  # no block has two bearings
    within = place % BEARING_BLOCK
    usable = (within >= BEARING_MARGIN) & (within < BEARING_BLOCK - BEARING_MARGIN)
    parts = []
    for size, blocks in zip((TABLE_ROWS, TEST_ROWS, TEST_ROWS), _deal(block, random), strict=True):
        rows = random.permutation(np.flatnonzero(usable & np.isin(block, blocks)))[:size]
        parts.append((x[rows], y[rows]))
    away = {}
    for kind, others in shifts.items():
        for rig, bearing in others:
            far_x, far_y = _vibration(rig, bearing)
            rows = random.permutation(len(far_x))[:TEST_ROWS]
            away[f"{kind}/{rig}-{bearing}"] = kind, far_x[rows], far_y[rows]
    noise = LABEL_NOISE * parts[0][1].std()
    parts = [(x, y + noise * random.standard_normal(len(y))) for x, y in parts]
    away = {label: (kind, x, y + noise * random.standard_normal(len(y))) for label, (kind, x, y) in away.items()}
    return _table_scene(name, seed, parts, away)


def _deal(block: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
    """Blocks for training (70 %), validation and test."""
    blocks = random.permutation(np.unique(block))
    return np.split(blocks, [round(0.7 * len(blocks)), round(0.85 * len(blocks))])


# Windows. A change takes standardised windows, (rows, steps, variables); most alter one variable, (rows, steps).


def _one_variable(change: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Change:
    def apply(x: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
        del train
        rows, column, x = np.arange(len(x)), random.integers(x.shape[2], size=len(x)), x.copy()
        x[rows, :, column] = change(x[rows, :, column], random)
        return x

    return apply


def _sizes(n: int, low: float, high: float, random: np.random.Generator) -> np.ndarray:
    """Positive or negative, (n, 1)."""
    return random.choice([-1, 1], (n, 1)) * random.uniform(low, high, (n, 1))


def _frozen_sensor(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The value of a step of the first half is held from then on."""
    since = random.integers(series.shape[1] // 2, size=(len(series), 1))
    return np.where(np.arange(series.shape[1]) > since, np.take_along_axis(series, since, 1), series)


def _level_shift(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return series + _sizes(len(series), 2, 4, random)


def _gain(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """About the window's mean, 1.5 to 3 times or 0.3 to 0.6 times."""
    n, mean = len(series), series.mean(1, keepdims=True)
    up, down = random.uniform(1.5, 3, (n, 1)), random.uniform(0.3, 0.6, (n, 1))
    return mean + np.where(random.random((n, 1)) < 0.5, up, down) * (series - mean)


def _drift(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return series + _sizes(len(series), 1, 3, random) * np.linspace(0, 1, series.shape[1])


def _spikes(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """About one step in twelve is off by 2 to 5 deviations."""
    size = random.choice([-1, 1], series.shape) * random.uniform(2, 5, series.shape)
    return series + np.where(random.random(series.shape) < 1 / 12, size, 0)


WINDOW_CHANGES: dict[str, Change] = {
    "frozen_sensor": _one_variable(_frozen_sensor),
    "level_shift": _one_variable(_level_shift),
    "gain": _one_variable(_gain),
    "drift": _one_variable(_drift),
    "spikes": _one_variable(_spikes),
    "noise": _noise,
    "crossover": _crossover,
}


@lru_cache(maxsize=2)
def _record(name: str) -> tuple[pd.DatetimeIndex, np.ndarray, np.ndarray, int]:
    """Stamps, values, number of the regular stretch without missing values, and column of the target."""
    frame = load_ettm1() if name == "ettm1" else load_jena()
    columns = [c for c in frame.columns if c != "date"] if name == "ettm1" else JENA_COLUMNS
    target = columns.index("OT" if name == "ettm1" else "T (degC)")
    values = frame[columns].to_numpy(float)
    dates, step = pd.Series(frame["date"]), pd.Timedelta(minutes=15 if name == "ettm1" else 10)
    stretch = segments(dates, step)  # pyright: ignore[reportArgumentType]
    missing = np.isnan(values).any(1)
    stretch = 2 * (stretch + missing.cumsum()) + missing  # a missing value ends a stretch and is one of its own
    return pd.DatetimeIndex(dates), values, stretch, target


def _windows(name: str, data: str, seed: int) -> Scene:
    """Forecasts in summer, or in winter. The hour is told; the day of the year would give the season away."""
    random = generator_of(name, seed)
    dates, values, stretch, target = _record(data)
    here, elsewhere = (WINTER, SUMMER) if name.endswith("/winter") else (SUMMER, WINTER)
    first, last = np.arange(len(values) - LOOKBACK - HORIZON + 1), LOOKBACK + HORIZON - 1
    block = (dates.to_numpy() - dates.to_numpy()[0]) // np.timedelta64(BLOCK_DAYS, "D")
    whole = (stretch[first] == stretch[first + last]) & (block[first] == block[first + last])

    def starts(size: int, months: tuple[int, ...], blocks: np.ndarray) -> np.ndarray:
        season = np.isin(dates.month, months)
        fits = whole & season[first] & season[first + last] & np.isin(block[first], blocks)
        return random.permutation(np.flatnonzero(fits))[:size]

    deal = _deal(block[np.isin(dates.month, here)], random)
    sizes = (WINDOW_ROWS, TEST_ROWS, TEST_ROWS)
    chosen = [starts(size, here, blocks) for size, blocks in zip(sizes, deal, strict=True)]
    chosen.append(starts(TEST_ROWS, elsewhere, block))
    raw = [values[rows[:, None] + np.arange(LOOKBACK)] for rows in chosen]
    mean, std = raw[0].mean((0, 1)), raw[0].std((0, 1))
    x = [(part - mean) / std for part in raw]
    future = [(values[r[:, None] + np.arange(LOOKBACK, LOOKBACK + HORIZON), target] - mean[target]) / std[target]
              for r in chosen]  # fmt: skip
    spread = (future[0] - x[0][:, -1:, target]).std(0)
    hour = 2 * math.pi * (dates.hour + dates.minute / 60).to_numpy() / 24

    def scaled(x: np.ndarray, part: int) -> TensorData:
        """What comes does not depend on the sensor: the change is from what was read to what will be true."""
        now = hour[chosen[part] + LOOKBACK - 1]
        calendar = np.column_stack([np.sin(now), np.cos(now), np.sin(2 * now), np.cos(2 * now)])
        y = (future[part] - x[:, -1:, target]) / spread
        return TensorData(x=tensor(x), calendar=tensor(calendar), y=tensor(y))

    train, validation, inside, other = (scaled(part, i) for i, part in enumerate(x))
    outside = {"season": Shift("season", other)}
    for kind in SCENES[name]:
        if kind in WINDOW_CHANGES:
            changed = WINDOW_CHANGES[kind](x[2], x[0], generator_of(f"{name}/{kind}", seed))
            outside[kind] = Shift(kind, scaled(changed, 2))
    variables = values.shape[1]
    problem = Problem("windows", variables, HORIZON, length=LOOKBACK, calendar=4, skip=data == "jena")
    return Scene(name, seed, problem, train, validation, inside, outside)


def _spiral(name: str, seed: int) -> Scene:
    """Spirals of one direction of rotation, asked at times of the observed half."""
    random = generator_of(name, seed)
    n, noise = sum(SPIRALS), 0.05 if name.endswith("/noisy") else 0.02
    made = make_spirals(n, noise=noise, generator=torch.Generator().manual_seed(int(random.integers(2**31))))
    time = made.query_times.numpy()
    turn = random.choice([-1, 1]) * np.sign(made.truth[:, 1, 1].numpy())  # makes all directions one
    flip = np.stack([np.ones(n), turn], -1)[:, None]
    truth, path = flip * made.truth.numpy(), flip * made.y.numpy()
    seen = np.abs(made.times.numpy()[..., None] - time).argmin(-1)
    parts = np.split(np.arange(n), np.cumsum(SPIRALS)[:-1])
    asked = _some(n, OBSERVABLE, QUERIES, random)
    known = _take(path[parts[0]], seen[parts[0]])
    mean, std = known.mean((0, 1)), known.std((0, 1))

    def scaled(path: np.ndarray, seen: np.ndarray, asked: np.ndarray, gone: np.ndarray | None = None) -> TensorData:
        x, y = ((_take(path, points) - mean) / std for points in (seen, asked))
        mask = torch.as_tensor(np.zeros(seen.shape, bool) if gone is None else gone)
        return TensorData(
            x=tensor(x), y=tensor(y), times=tensor(time[seen]), query_times=tensor(time[asked]), mask=mask
        )

    def fresh(path: np.ndarray, random: np.random.Generator) -> np.ndarray:
        return path + noise * random.standard_normal(path.shape)

    rows = parts[2]
    path_in, seen_in, asked_in, truth_in = path[rows], seen[rows], asked[rows], truth[rows]
    train = scaled(path[parts[0]], seen[parts[0]], asked[parts[0]])
    validation = scaled(path[parts[1]], seen[parts[1]], asked[parts[1]])
    inside = scaled(path_in, seen_in, asked_in)
    outside = {}
    for kind in SCENES[name]:
        random = generator_of(f"{name}/{kind}", seed)
        if kind == "later_times":
            late = np.flatnonzero(time >= 0.6)
            data = scaled(path_in, seen_in, late[_some(len(rows), len(late), QUERIES, random)])
        elif kind == "missing_quarter":
            quarter = math.ceil(OBSERVABLE / 4)
            start = random.integers(5, OBSERVABLE - quarter - 5, (len(rows), 1))
            gone = (seen_in >= start) & (seen_in < start + quarter)
            data = scaled(path_in, seen_in, start + _some(len(rows), quarter, QUERIES, random), gone)
        elif kind == "other_direction":
            data = scaled(path_in * [1, -1], seen_in, asked_in)
        elif kind == "stretched_time":
            faster = np.stack([[np.interp(1.4 * time, time, p) for p in spiral.T] for spiral in truth_in]).swapaxes(
                1, 2
            )
            data = scaled(fresh(faster, random), seen_in, asked_in)
        elif kind == "bigger":
            data = scaled(fresh(1.5 * truth_in, random), seen_in, asked_in)
        elif kind == "thinned":
            gone = random.random(seen_in.shape).argsort(1) >= 10
            data = scaled(path_in, seen_in, asked_in, gone)
        else:  # noise, on what is observed
            x = _noise(inside.columns["x"].numpy(), known, random)
            data = TensorData(**{**inside.columns, "x": tensor(x)})
        outside[kind] = Shift(kind, data)
    return Scene(name, seed, PROBLEM, train, validation, inside, outside)


def _take(path: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.take_along_axis(path, points[..., None], 1)


def _some(rows: int, n: int, size: int, random: np.random.Generator) -> np.ndarray:
    return random.random((rows, n)).argsort(1)[:, :size]
