"""Irregularly sampled spirals: observed in the first half, predicted at all times."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac.lab.datasets import Spirals, make_spirals
from nsac.lab.tasks.base import Protocols, TableSplit, Task, task
from nsac.lab.tasks.events import make_split
from nsac.methods import EventsProblem, SeriesProblem
from nsac.models import NetworkConfig
from nsac.training import ChannelScale, Queries

SPLIT_ROWS = {
    "train": slice(0, 200), "validation": slice(200, 225), "calibration": slice(225, 250), "test": slice(250, 300),
}  # fmt: skip
"""Spirals by number; each is generated independently."""
GROUPS = {"interpolation": slice(0, 75), "extrapolation": slice(75, 150)}
"""Query points of the observed first half and of the unobserved second half."""
QUERIES = 15  # query points per training row; each spiral makes ten rows, so that a training step covers many spirals
PROBLEM = SeriesProblem(2, 2, network=NetworkConfig(num_heads=2, topk=50))
"""Positions in, positions out; a query attends to all 50 observations, since they are noisy."""
_TRAINING_ROWS = f"For training, each spiral's 150 queries are shuffled and divided into rows of {QUERIES}. "
_PAPER = (
    "300 Archimedean spirals with 150 equally spaced points, all turning the same way, whose two parameters vary by "
    "2 %, with observation noise of 0.001; 50 random points of the first half are observed, all 150 are predicted. 200 "
    "spirals train, 25 select the weights, 25 calibrate, 50 test. The paper states 300, 150 and 50; the observed first "
    "half, the single direction of rotation, the 2 %, the noise and the split are our reading. "
    + _TRAINING_ROWS
    + "Noisy positions are scored as they are. The mean of the training spirals, a baseline, is already accurate here."
)
_SOUND = (
    "300 Archimedean spirals with 150 equally spaced points, turning either way at random, whose two parameters vary "
    "by 20 %, with observation noise of 0.02, so that the mean of the training spirals is not accurate; 50 random "
    "points of the first half are observed, all 150 are predicted. 200 spirals train, 25 select the weights, 25 "
    "calibrate, 50 test. " + _TRAINING_ROWS + "Noisy positions are scored as they are."
)

EVENT_QUERIES = 40  # queries of a spiral in a training batch, chosen at random
ORIGIN = 0.5  # the observed half ends here
_EVENTS = (
    "The spirals of the task `spiral`, sound protocol, as events: each coordinate is a channel, and every observation "
    "and every target is one number. Observations and targets are the same, so scores can be compared. For training, "
    f"{EVENT_QUERIES} of a spiral's 300 targets are asked for at a time."
)


def build(protocol: Protocols, seed: int, spirals: Spirals | None = None, **options: Any) -> Task:
    """The task of given spirals, or of those that `make_spirals` makes with options; positions need no scaling."""
    spirals = spirals or make_spirals(**options, generator=torch.Generator().manual_seed(seed))
    shift, scale = torch.tensor(0.0), torch.tensor(1.0)
    splits = {}
    for split, rows in SPLIT_ROWS.items():
        data = columns(spirals, rows)
        splits[split] = TableSplit(shift, scale, **(training_rows(data, seed) if split == "train" else data))
    text = _PAPER if protocol == "paper" else _SOUND
    return Task("spiral", protocol, seed, text, "radius 1", PROBLEM, **splits, baselines=("mean",), groups=GROUPS)


def build_events(seed: int, spirals: Spirals | None = None) -> Task:
    """The task `spiral` with a channel per coordinate."""
    spirals = spirals or make_spirals(generator=torch.Generator().manual_seed(seed))
    n, observed = spirals.times.shape
    points = len(spirals.query_times)
    observations = {
        "value": spirals.x.double().flatten().numpy(), "channel": np.tile([0, 1], n * observed),
        "times": spirals.times.double().flatten().repeat_interleave(2).numpy(),
    }  # fmt: skip
    asked_times = spirals.query_times.double().repeat_interleave(2).repeat(n)
    first, asked = torch.arange(n) * 2 * observed, torch.arange(n) * 2 * points
    ranges = first, first + 2 * observed, asked, asked + 2 * points
    plain = ChannelScale(torch.zeros(2).double(), torch.ones(2).double())  # positions need no scaling
    rows = make_split(observations, ranges, np.full(n, ORIGIN), plain, (np.zeros(2), np.ones(2)))
    channel = torch.arange(2).repeat(n * points)
    rows.queries = Queries(channel, asked_times, spirals.y.double().flatten(), asked, asked + 2 * points)
    splits: dict[str, Any] = {name: rows.subset(torch.arange(n)[chosen]) for name, chosen in SPLIT_ROWS.items()}
    splits["train"] = splits["train"].subset(torch.arange(len(splits["train"])), max_queries=EVENT_QUERIES)
    problem = EventsProblem(channels=2, heavy_tails=False)
    leads = {"interpolation": (-np.inf, 0.0), "extrapolation": (0.0, np.inf)}
    return Task(
        "spiral-events", "sound", seed, _EVENTS, "radius 1", problem, **splits,
        baselines=("mean", "persistence", "extrapolation"), channels=("x", "y"), leads=leads,
    )  # fmt: skip


def columns(spirals: Spirals, rows: slice) -> dict[str, Tensor]:
    """Some spirals as columns of a `SeriesProblem`, each queried at all times."""
    x, y = spirals.x[rows], spirals.y[rows]
    return {"x": x, "y": y, "times": spirals.times[rows], "query_times": spirals.query_times.expand(len(x), -1)}


def training_rows(data: dict[str, Tensor], seed: int) -> dict[str, Tensor]:
    """Each spiral's queries, shuffled and divided into rows of `QUERIES`."""
    n, points = data["y"].shape[:2]
    generator = np.random.default_rng((seed, 1))  # independent of the spirals, which were generated with the seed
    order = torch.from_numpy(generator.permuted(np.tile(np.arange(points), (n, 1)), axis=1))
    shape = points // QUERIES, QUERIES
    y = data["y"].gather(1, order[..., None].expand(-1, -1, 2)).unflatten(1, shape).flatten(0, 1)
    query_times = data["query_times"].gather(1, order).unflatten(1, shape).flatten(0, 1)
    x = data["x"].repeat_interleave(shape[0], 0)
    times = data["times"].repeat_interleave(shape[0], 0)
    return {"x": x, "times": times, "y": y, "query_times": query_times}


task("spiral", "paper")(lambda seed: build("paper", seed, variation=0.02, noise=0.001, both=False))
task("spiral", "sound")(lambda seed: build("sound", seed))
task("spiral-events", "sound")(build_events)
