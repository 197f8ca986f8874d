"""Scenes of spirals: other times, other shapes, fewer observations."""

import math

import numpy as np
import torch

from nsac.lab.datasets import make_spirals
from nsac.lab.shifts.scenes.base import SCENES, Scene, Shift, generator_of, tensor
from nsac.lab.shifts.scenes.tables import add_noise
from nsac.lab.tasks.spirals import PROBLEM
from nsac.training import TensorData

SPIRALS, QUERIES, OBSERVABLE = (200, 40, 40), 16, 75
"""Spirals to train, validate and test; query times of each; and points of the observed half."""


def make_spiral(name: str, seed: int) -> Scene:
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
            x = add_noise(inside.columns["x"].numpy(), known, random)
            data = TensorData(**{**inside.columns, "x": tensor(x)})
        outside[kind] = Shift(kind, data)
    return Scene(name, seed, PROBLEM, train, validation, inside, outside)


def _take(path: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.take_along_axis(path, points[..., None], 1)


def _some(rows: int, n: int, size: int, random: np.random.Generator) -> np.ndarray:
    return random.random((rows, n)).argsort(1)[:, :size]
