"""Scenes of tables: other bearings, conditions and rigs, regions left out of training, and altered inputs."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from sklearn.cluster import KMeans

from nsac.lab.datasets.bearings import load_bearing
from nsac.lab.datasets.uci import load_uci
from nsac.lab.shifts.scenes.base import SCENES, TEST_ROWS, Change, Scene, Shift, generator_of, split_blocks, tensor
from nsac.methods import TableProblem
from nsac.training import TensorData

TABLE_ROWS = 4000
"""Maximum number of training rows."""

Rows = tuple[np.ndarray, np.ndarray]
"""Inputs and targets."""

LEFT_OUT = 0.15
"""Fraction of rows beyond the limit of a feature or of the target."""

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
"""Rig and bearings of training, and the bearings of each kind of shift."""

BLOCK_WINDOWS, MARGIN_WINDOWS = 100, 5
"""Vibration windows of a block, which is in one split as a whole, and windows dropped at each of its ends."""

LABEL_NOISE = 0.05
"""Noise added to the label, in its standard deviations. The label is computed, not measured, and constant over most of
a life: without noise the likelihood is unbounded and training diverges."""


def add_noise(x: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Gaussian noise of 0.1 to 3 standard deviations, log-uniform over rows."""
    del train
    size = np.exp(random.uniform(math.log(0.1), math.log(3), (len(x), *[1] * (x.ndim - 1))))
    return x + size * random.standard_normal(x.shape)


def cross_over(x: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Replace half of the features, or of a window's variables, by those of the most distant of 8 training rows."""
    others = train[random.integers(len(train), size=(len(x), 8))]
    distance = np.square(others - x[:, None]).reshape(len(x), 8, -1).sum(-1)
    other = others[np.arange(len(x)), distance.argmax(1)]
    order = random.random((len(x), x.shape[-1])).argsort(1)
    taken = order < x.shape[-1] // 2
    return np.where(taken if x.ndim == 2 else taken[:, None], other, x)


def _recalibrated(x: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Give each feature a gain of 0.7 to 1.4 and an offset with standard deviation 0.5, the same for all rows."""
    del train
    gain = np.exp(random.uniform(math.log(0.7), math.log(1.4), x.shape[1]))
    return gain * x + 0.5 * random.standard_normal(x.shape[1])


TABLE_CHANGES: dict[str, Change] = {
    "shuffled_features": lambda x, train, random: random.permuted(x, axis=0),
    "noise": add_noise,
    "box": lambda x, train, random: random.uniform(train.min(0), train.max(0), x.shape),
    "crossover": cross_over,
    "recalibrated": _recalibrated,
}


def table_scene(name: str, seed: int, splits: list[Rows], shifted: dict[str, tuple[str, Rows]]) -> Scene:
    """A scene from raw rows.

    Args:
        name, seed: of the scene.
        splits: rows of training, validation and test.
        shifted: kind and rows of each real shift, by its name. Shifts that alter inputs are added.
    """
    train_x, train_y = splits[0]
    mean, std = train_x.mean(0), train_x.std(0)
    y_mean, y_std = train_y.mean(0), train_y.std(0)

    def scaled(x: np.ndarray, y: np.ndarray) -> TensorData:
        return TensorData(x=tensor((x - mean) / std), y=tensor((y - y_mean) / y_std)[:, None])

    train, validation, inside = scaled(*splits[0]), scaled(*splits[1]), scaled(*splits[2])
    outside = {label: Shift(kind, scaled(*rows)) for label, (kind, rows) in shifted.items()}
    x, known = inside.columns["x"].numpy(), train.columns["x"].numpy()
    for kind in SCENES[name]:
        if kind in TABLE_CHANGES:
            changed = TABLE_CHANGES[kind](x, known, generator_of(f"{name}/{kind}", seed))
            outside[kind] = Shift(kind, TensorData(x=tensor(changed), y=inside.columns["y"]))
    return Scene(name, seed, TableProblem(known.shape[1], 1), train, validation, inside, outside)


@lru_cache(maxsize=8)
def _rows(data: str) -> np.ndarray:
    """Distinct rows, with the target as the last column."""
    table = load_uci(data)
    return np.unique(np.column_stack([table.x, table.y]), axis=0)


def make_table(name: str, seed: int) -> Scene:
    """A scene of a UCI table; the name after a slash is the kind of region left out of training."""
    data, _, kind = name.partition("/")
    random, rows = generator_of(name, seed), _rows(data)
    left_out = LEAVE_OUT[kind](rows, random) if kind in LEAVE_OUT else np.zeros(len(rows), bool)
    near = random.permutation(np.flatnonzero(~left_out))
    far = random.permutation(np.flatnonzero(left_out))
    size = min(TEST_ROWS, len(near) // 6)
    chosen = near[2 * size : 2 * size + TABLE_ROWS], near[:size], near[size : 2 * size]
    splits = [(rows[index, :-1], rows[index, -1]) for index in chosen]
    far = rows[far[:TEST_ROWS]]
    return table_scene(name, seed, splits, {kind: (kind, (far[:, :-1], far[:, -1]))} if len(far) else {})


def _cluster(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Rows of one of 6 clusters of the inputs, if possible one with 10 to 25 % of the rows."""
    x = (rows[:, :-1] - rows[:, :-1].mean(0)) / rows[:, :-1].std(0)
    label = KMeans(6, random_state=int(random.integers(2**31))).fit_predict(x)
    share = np.bincount(label, minlength=6) / len(label)
    fitting = np.flatnonzero((share >= 0.1) & (share <= 0.25))
    return label == (random.choice(fitting) if len(fitting) else np.abs(share - LEFT_OUT).argmin())


def _side(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Rows beyond a quantile of a feature that leaves out 10 to 20 % of the rows; with ties, not every feature does."""
    for column in random.permutation(rows.shape[1] - 1):
        for sign in random.permutation([-1, 1]):
            beyond = sign * rows[:, column] > np.quantile(sign * rows[:, column], 1 - LEFT_OUT)
            if 0.1 <= beyond.mean() <= 0.2:
                return beyond
    raise ValueError("`rows` must have a feature with a limit that leaves out 10 to 20 % of the rows. Got none.")


LEAVE_OUT: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "left_out_cluster": _cluster,
    "left_out_side": _side,
    "left_out_target": lambda rows, random: rows[:, -1] > np.quantile(rows[:, -1], 1 - LEFT_OUT),
}


def _load(rig: str, bearing: str) -> tuple[np.ndarray, np.ndarray]:
    """14 features and the label of a run; the rig HUST has only a linear label."""
    run = load_bearing(rig, bearing)
    x = run.features.copy()
    x[..., 3] += 3  # from excess kurtosis
    # Energy, frequency, kurtosis and standard deviation are positive and have long tails.
    x[..., [0, 1, 3, 6]] = np.log(x[..., [0, 1, 3, 6]])
    return x.reshape(len(x), -1), run.linear if np.isnan(run.degradation).any() else run.degradation


def make_bearings(name: str, seed: int) -> Scene:
    """A scene of `RUNS`."""
    random = generator_of(name, seed)
    rig, bearings, shifts = RUNS[name]
    runs = [_load(rig, bearing) for bearing in bearings]
    x = np.concatenate([features for features, _ in runs])
    y = np.concatenate([labels for _, labels in runs])
    within = np.concatenate([np.arange(len(labels)) % BLOCK_WINDOWS for _, labels in runs])
    block = np.cumsum(within == 0) - 1  # no block contains two bearings
    usable = (within >= MARGIN_WINDOWS) & (within < BLOCK_WINDOWS - MARGIN_WINDOWS)
    splits = []
    for size, blocks in zip((TABLE_ROWS, TEST_ROWS, TEST_ROWS), split_blocks(block, random), strict=True):
        rows = random.permutation(np.flatnonzero(usable & np.isin(block, blocks)))[:size]
        splits.append((x[rows], y[rows]))
    shifted = {}
    for kind, others in shifts.items():
        for rig, bearing in others:
            features, labels = _load(rig, bearing)
            rows = random.permutation(len(features))[:TEST_ROWS]
            shifted[f"{kind}/{rig}-{bearing}"] = kind, (features[rows], labels[rows])
    noise = LABEL_NOISE * splits[0][1].std()
    for _, y in (*splits, *(rows for _, rows in shifted.values())):
        y += noise * random.standard_normal(len(y))
    return table_scene(name, seed, splits, shifted)
