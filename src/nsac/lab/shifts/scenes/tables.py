"""Scenes of tables: regions left out of training, and altered inputs."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from sklearn.cluster import KMeans

from nsac.lab.datasets.uci import load_uci
from nsac.lab.shifts.scenes.base import SCENES, TEST_ROWS, Change, Scene, Shift, generator_of, tensor
from nsac.methods import TableProblem
from nsac.training import TensorData

TABLE_ROWS = 4000
"""Maximum number of training rows."""

Rows = tuple[np.ndarray, np.ndarray]
"""Inputs and targets."""

LEFT_OUT = 0.15
"""Fraction of rows beyond the limit of a feature or of the target."""


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
"""Kind of shift to the function that alters the inputs."""


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
"""Kind to the function that marks the rows left out of training."""
