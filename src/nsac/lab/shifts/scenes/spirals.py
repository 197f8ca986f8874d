"""Scenes of spirals: later times, other shapes, fewer observations."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from nsac.lab.datasets import make_spirals
from nsac.lab.shifts.scenes.base import SCENES, Scene, Shift, generator_of, tensor
from nsac.lab.shifts.scenes.tables import add_noise
from nsac.lab.tasks.spirals import GROUPS, PROBLEM
from nsac.training import TensorData

SPIRALS = (200, 40, 40)
"""Numbers of spirals for training, validation and test."""

QUERIES = 16
"""Query times per spiral."""

OBSERVABLE = GROUPS["interpolation"].stop
"""Points of the observed half of a spiral."""

MIN_LATER_TIME = 0.6
"""Earliest query time of the shift `later_times`; observations end before 0.5."""

THINNED_OBSERVATIONS = 10
"""Observations per spiral that the shift `thinned` keeps."""


@dataclass(frozen=True)
class _Spirals:
    """Spirals on a common grid of times; `observed` and `queried` are indices into the grid."""

    time: np.ndarray  # (points,)
    truth: np.ndarray  # (n, points, 2), without noise
    noisy: np.ndarray  # (n, points, 2)
    observed: np.ndarray  # (n, observations)
    queried: np.ndarray  # (n, queries)
    noise: float  # standard deviation of the observation noise
    mean: np.ndarray  # of the training observations
    std: np.ndarray

    def rows(self, start: int, size: int) -> "_Spirals":
        names = ("truth", "noisy", "observed", "queried")
        return replace(self, **{name: getattr(self, name)[start : start + size] for name in names})

    def with_truth(self, truth: np.ndarray, random: np.random.Generator) -> "_Spirals":
        """Other noise-free positions, with noise drawn anew."""
        return replace(self, truth=truth, noisy=truth + self.noise * random.standard_normal(truth.shape))

    def data(self, missing: np.ndarray | None = None) -> TensorData:
        """Columns of the spirals; `missing` marks observations that are masked."""
        return TensorData(
            x=tensor((_take(self.noisy, self.observed) - self.mean) / self.std),
            y=tensor((_take(self.noisy, self.queried) - self.mean) / self.std),
            times=tensor(self.time[self.observed]),
            query_times=tensor(self.time[self.queried]),
            mask=torch.as_tensor(np.zeros(self.observed.shape, bool) if missing is None else missing),
        )


def make_spiral(name: str, seed: int) -> Scene:
    """Spirals of one direction of rotation, queried at times of the observed half."""
    noise = 0.05 if name.endswith("/noisy") else 0.02
    random, n = generator_of(name, seed), sum(SPIRALS)
    drawn = make_spirals(n, noise=noise, generator=torch.Generator().manual_seed(int(random.integers(2**31))))
    time = drawn.query_times.numpy()
    turn = random.choice([-1, 1]) * np.sign(drawn.truth[:, 1, 1].numpy())  # gives all spirals the same direction
    flip = np.stack([np.ones(n), turn], -1)[:, None]
    truth, noisy = flip * drawn.truth.numpy(), flip * drawn.y.numpy()
    observed = np.abs(drawn.times.numpy()[..., None] - time).argmin(-1)
    queried = _choose(n, OBSERVABLE, QUERIES, random)
    known = _take(noisy, observed)[: SPIRALS[0]]
    spirals = _Spirals(time, truth, noisy, observed, queried, noise, known.mean((0, 1)), known.std((0, 1)))
    test = spirals.rows(n - SPIRALS[2], SPIRALS[2])
    outside = {}
    for kind in SCENES[name]:
        outside[kind] = Shift(kind, SPIRAL_CHANGES[kind](test, generator_of(f"{name}/{kind}", seed)))
    train, validation = spirals.rows(0, SPIRALS[0]), spirals.rows(SPIRALS[0], SPIRALS[1])
    return Scene(name, seed, PROBLEM, train.data(), validation.data(), test.data(), outside)


def _later_times(test: _Spirals, random: np.random.Generator) -> TensorData:
    late = np.flatnonzero(test.time >= MIN_LATER_TIME)
    return replace(test, queried=late[_choose(len(test.truth), len(late), QUERIES, random)]).data()


def _missing_quarter(test: _Spirals, random: np.random.Generator) -> TensorData:
    """A quarter of the observed half is masked and queried."""
    quarter = math.ceil(OBSERVABLE / 4)
    start = random.integers(5, OBSERVABLE - quarter - 5, (len(test.truth), 1))
    missing = (test.observed >= start) & (test.observed < start + quarter)
    queried = start + _choose(len(test.truth), quarter, QUERIES, random)
    return replace(test, queried=queried).data(missing)


def _stretched_time(test: _Spirals, random: np.random.Generator) -> TensorData:
    """Spirals that turn 1.4 times as fast."""
    time = test.time
    faster = np.stack([[np.interp(1.4 * time, time, p) for p in spiral.T] for spiral in test.truth]).swapaxes(1, 2)
    return test.with_truth(faster, random).data()


def _noise(test: _Spirals, random: np.random.Generator) -> TensorData:
    columns = test.data().columns
    x = columns["x"].numpy()
    return TensorData(**{**columns, "x": tensor(add_noise(x, x, random))})


SPIRAL_CHANGES: dict[str, Callable[[_Spirals, np.random.Generator], TensorData]] = {
    "later_times": _later_times,
    "missing_quarter": _missing_quarter,
    "other_direction": lambda test, random: replace(test, noisy=test.noisy * [1, -1]).data(),
    "stretched_time": _stretched_time,
    "bigger": lambda test, random: test.with_truth(1.5 * test.truth, random).data(),
    "thinned": lambda test, random: test.data(random.random(test.observed.shape).argsort(1) >= THINNED_OBSERVATIONS),
    "noise": _noise,
}


def _take(positions: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.take_along_axis(positions, points[..., None], 1)


def _choose(rows: int, n: int, size: int, random: np.random.Generator) -> np.ndarray:
    """`size` of `n` indices for each row, without replacement."""
    return random.random((rows, n)).argsort(1)[:, :size]
