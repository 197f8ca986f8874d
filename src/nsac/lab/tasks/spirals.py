"""Irregular spirals: observed in their first half, asked everywhere."""

import numpy as np
import torch
from torch import Tensor

from nsac.lab.datasets import Spirals, make_spirals
from nsac.lab.tasks.base import Protocols, TableSplit, Task, task
from nsac.methods import SeriesProblem
from nsac.models import NetworkConfig

SPLIT_ROWS = {
    "train": slice(0, 200), "validation": slice(200, 225), "calibration": slice(225, 250), "test": slice(250, 300),
}  # fmt: skip
"""Spirals by number; each is generated independently."""

GROUPS = {"interpolation": slice(0, 75), "extrapolation": slice(75, 150)}
"""Query points of the observed half and of the other."""

QUERIES = 15
"""Query points per training row; each spiral makes ten rows, so that a step sees many spirals."""

PROBLEM = SeriesProblem(2, 2, network=NetworkConfig(num_heads=2, topk=50))
"""Positions in, positions out; a query looks at all 50 observations, for they are noisy."""

_DEALT = f"For training, each spiral's 150 queries are shuffled and dealt into rows of {QUERIES}. "
_PAPER = (
    "300 Archimedean spirals with 150 equally spaced points, all turning the same way, whose two parameters vary by "
    "2 %, with observation noise of 0.001; 50 random points of the first half are observed, all 150 are asked. 200 "
    "spirals train, 25 choose weights, 25 calibrate, 50 test. The paper states 300, 150 and 50; that only the first "
    "half is observed, one way of turning, the 2 %, the noise and the split are our reading. "
    + _DEALT
    + "Noisy positions are scored as they are. The mean of the training spirals, printed beside, is a good answer here."
)
_SOUND = (
    "300 Archimedean spirals with 150 equally spaced points, turning either way at random, whose two parameters vary "
    "by 20 %, with observation noise of 0.02, so that the mean of the training spirals is no answer; 50 random "
    "points of the first half are observed, all 150 are asked. 200 spirals train, 25 choose weights, 25 calibrate, "
    "50 test. " + _DEALT + "Noisy positions are scored as they are."
)


def build(protocol: Protocols, seed: int, spirals: Spirals) -> Task:
    """The task for spirals that were generated already; positions need no scaling."""
    identity = torch.tensor(0.0), torch.tensor(1.0)
    splits = {}
    for split, rows in SPLIT_ROWS.items():
        data = columns(spirals, rows)
        splits[split] = TableSplit(*identity, **(_dealt(data, seed) if split == "train" else data))
    text = _PAPER if protocol == "paper" else _SOUND
    return Task("spiral", protocol, seed, text, "radius 1", PROBLEM, **splits, naive=("mean",), groups=GROUPS)


def columns(spirals: Spirals, rows: slice) -> dict[str, Tensor]:
    """Some spirals as columns of a `SeriesProblem`, each queried at all times."""
    x, y = spirals.x[rows], spirals.y[rows]
    return {"x": x, "y": y, "times": spirals.times[rows], "query_times": spirals.query_times.expand(len(x), -1)}


def _dealt(columns: dict[str, Tensor], seed: int) -> dict[str, Tensor]:
    """Each spiral's queries, shuffled and dealt into rows of a few."""
    n, points = columns["y"].shape[:2]
    random = np.random.default_rng((seed, 1))  # a stream of its own: the spirals came from the seed itself
    order = torch.from_numpy(random.permuted(np.tile(np.arange(points), (n, 1)), axis=1))
    hands = points // QUERIES
    y = columns["y"].gather(1, order[..., None].expand(-1, -1, 2)).unflatten(1, (hands, QUERIES)).flatten(0, 1)
    asked = columns["query_times"].gather(1, order).unflatten(1, (hands, QUERIES)).flatten(0, 1)
    seen = {name: columns[name].repeat_interleave(hands, 0) for name in ("x", "times")}
    return {**seen, "y": y, "query_times": asked}


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@task("spiral", "paper")
def paper(seed: int) -> Task:
    """2 % variation, one direction."""
    return build("paper", seed, make_spirals(variation=0.02, noise=0.001, both=False, generator=_generator(seed)))


@task("spiral", "sound")
def sound(seed: int) -> Task:
    """20 % variation, both directions."""
    return build("sound", seed, make_spirals(generator=_generator(seed)))
