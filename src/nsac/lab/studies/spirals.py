"""Training on irregular spirals, shared by the demonstration and the study of the regulariser."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nsac.lab.datasets import Spirals, make_spirals
from nsac.lab.tasks.spirals import PROBLEM, SPLIT_ROWS, columns
from nsac.methods import AbstractTrainable, NSACMethod
from nsac.training import Progress, TensorData, TrainConfig, train
from nsac.uncertainty import Prediction

TRAIN, TEST = SPLIT_ROWS["train"], SPLIT_ROWS["test"]
VALIDATION = slice(SPLIT_ROWS["validation"].start, SPLIT_ROWS["calibration"].stop)
"""Spirals by number, as in the task; nothing is calibrated here, so validation has the calibration split as well."""

BATCH_SIZE, QUERIES_PER_STEP = 32, 16
"""Spirals and query times in one training step."""


@dataclass(frozen=True)
class SpiralRun:
    """All spirals, and the prediction of the test spirals at all query times."""

    spirals: Spirals
    prediction: Prediction

    def at(self, points: slice) -> tuple[Prediction, Tensor]:
        """Prediction and observed positions at some of the query times."""
        return self.prediction[:, points], self.spirals.y[TEST][:, points]


def run_spirals(
    steps: int, seed: int = 0, report: Callable[[Progress], None] | None = None, **options: Any
) -> SpiralRun:
    """Train on 200 spirals, select the weights on 50 others, predict 50 more; everything follows from the seed.

    `options` are arguments of `NSACMethod`.
    """
    spirals = make_spirals(generator=torch.Generator().manual_seed(seed))
    method = NSACMethod(PROBLEM, seed=seed, **options)
    config = TrainConfig(
        max_steps=steps,
        batch_size=BATCH_SIZE,
        learning_rate=6e-3,
        schedule="one-cycle",
        ema=0.995,
        validate_every=max(1, steps // 10),
        accelerator="cpu",
    )
    training, validation = TensorData(**columns(spirals, TRAIN)), TensorData(**columns(spirals, VALIDATION))
    method.prepare(training)
    train(_RandomQueries(method, QUERIES_PER_STEP), training, validation, config, seed=seed, report=report)
    method.finish(training, validation)
    return SpiralRun(spirals, method.predict(columns(spirals, TEST)))


def mean_trajectory(data: Spirals) -> Prediction:
    """The baseline: mean and standard deviation of the training spirals at each time."""
    std, mean = torch.std_mean(data.y[TRAIN], 0)
    shape = data.y[TEST].shape
    return Prediction.gaussian(mean.expand(shape), std.expand(shape))


class _RandomQueries(nn.Module):
    """Trains a method at a few random query times per step, which is faster than all of them and no less accurate."""

    def __init__(self, method: AbstractTrainable, queries: int):
        super().__init__()
        self.method = method
        self.queries = queries

    @property
    def parts(self) -> dict[str, Tensor]:
        return self.method.parts

    def loss(self, batch: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        chosen = torch.randperm(batch["y"].shape[1], generator=generator)[: self.queries]
        queried = {name: batch[name][:, chosen] for name in ("query_times", "y")}
        return self.method.loss({**batch, **queried}, generator)

    def validation(self, batch: dict[str, Tensor], generator: torch.Generator) -> tuple[Tensor, int]:
        return self.method.validation(batch, generator)
