"""Irregular spirals: data, model and training, shared by the demonstration and the ablation."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nsac.lab.datasets import Spirals, make_spirals
from nsac.lab.tasks.spirals import PROBLEM
from nsac.methods import AbstractTrainable, NSACMethod
from nsac.training import Progress, TensorData, TrainConfig, train
from nsac.uncertainty import Prediction

PARTS = {"interpolation": slice(0, 75), "extrapolation": slice(75, 150)}
"""Query points of the first, observed half of a spiral and of the second, unobserved one."""

TRAIN, VALIDATION, TEST = slice(0, 200), slice(200, 250), slice(250, 300)
"""Spirals by their number; every one is generated independently."""

BATCH, QUERIES = 32, 16
"""Spirals and query times in one step."""


@dataclass(frozen=True)
class SpiralRun:
    """Spirals and what a model trained on some of them says of the test ones, at all times."""

    spirals: Spirals
    prediction: Prediction

    def part(self, points: slice) -> tuple[Prediction, Tensor]:
        """Prediction and noisy truth at some of the query points."""
        return self.prediction[:, points], self.spirals.y[TEST][:, points]


def run_spirals(steps: int, seed: int = 0, report: Callable[[Progress], None] | None = None, **objective) -> SpiralRun:
    """Train on 200 spirals, keep the best weights on 50 others, predict 50 more; everything follows from the seed.

    What else is given goes to `NSACMethod`.
    """
    spirals = make_spirals(generator=torch.Generator().manual_seed(seed))
    method = NSACMethod(PROBLEM, seed=seed, **objective)
    config = TrainConfig(
        max_steps=steps,
        batch_size=BATCH,
        learning_rate=6e-3,
        schedule="one-cycle",
        ema=0.995,
        validate_every=max(1, steps // 10),
        accelerator="cpu",
    )
    data = [_rows(spirals, part) for part in (TRAIN, VALIDATION, TEST)]
    method.prepare(data[0])
    train(_AskSome(method, QUERIES), data[0], data[1], config, seed=seed, report=report)
    method.finish(data[0], data[1])
    return SpiralRun(spirals, method.predict(data[2].columns))


def mean_trajectory(data: Spirals) -> Prediction:
    """The naive forecast: mean and spread of the training spirals at each time."""
    std, mean = torch.std_mean(data.y[TRAIN], 0)
    shape = data.y[TEST].shape
    return Prediction.gaussian(mean.expand(shape), std.expand(shape))


def _rows(data: Spirals, rows: slice) -> TensorData:
    x, y = data.x[rows], data.y[rows]
    return TensorData(x=x, y=y, times=data.times[rows], query_times=data.query_times.expand(len(x), -1))


class _AskSome(nn.Module):
    """A method trained at a few random query times per step; one that is asked at all of them learns no more of it."""

    def __init__(self, method: AbstractTrainable, queries: int):
        super().__init__()
        self.method, self.queries = method, queries

    @property
    def parts(self) -> dict[str, Tensor]:
        return self.method.parts

    def loss(self, batch: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        asked = torch.randperm(batch["y"].shape[1], generator=generator)[: self.queries]
        return self.method.loss({**batch, **{name: batch[name][:, asked] for name in ("query_times", "y")}}, generator)

    def validation(self, batch: dict[str, Tensor], generator: torch.Generator) -> tuple[Tensor, int]:
        return self.method.validation(batch, generator)
