"""Irregular spirals: training and scores, for the demonstration `nsac demo` and the study of the regulariser."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nsac.lab.datasets import Spirals, make_spirals
from nsac.lab.tasks.spirals import GROUPS, PROBLEM, SPLIT_ROWS, columns
from nsac.methods import AbstractTrainable, NSACMethod
from nsac.training import Progress, TensorData, TrainConfig, train
from nsac.uncertainty import Prediction, coverage, crps, mse, nll

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

    def score(self, *scores: Callable) -> dict[str, dict[str, float]]:
        """By half of the spirals: these scores, and the mean aleatoric and epistemic standard deviation."""
        halves = {}
        for half, points in GROUPS.items():
            p, y = self.prediction[:, points], self.spirals.y[TEST][:, points]
            stds = {kind: getattr(p, kind).mean().sqrt().item() for kind in ("aleatoric", "epistemic")}
            halves[half] = {score.__name__: score(p, y) for score in scores} | stds
        return halves


class Demo(NamedTuple):
    """Result of the demonstration; `rows` has the scores of each method and half of the spirals."""

    run: SpiralRun
    rows: list[dict]


def run_demo(steps: int = 1000, seed: int = 0, report: Callable[[Progress], None] | None = None) -> Demo:
    """Train NSAC on irregular spirals; score it and the baseline, the mean of the training spirals."""
    run = run_spirals(steps, seed, report=report)
    rows = []
    for method, each in {"nsac": run, "mean trajectory": SpiralRun(run.spirals, mean_trajectory(run.spirals))}.items():
        halves = each.score(mse, nll, crps, coverage)
        rows += [{"method": method, "half": half, **scores} for half, scores in halves.items()]
    return Demo(run, rows)


def run_spirals(
    steps: int, seed: int = 0, report: Callable[[Progress], None] | None = None, **options: Any
) -> SpiralRun:
    """Train on 200 spirals, select the weights on 50 others, predict 50 more; everything follows from the seed.

    `options` are arguments of `NSACMethod`.
    """
    spirals = make_spirals(generator=torch.Generator().manual_seed(seed))
    method = NSACMethod(PROBLEM, seed=seed, **options)
    optimiser = {"batch_size": BATCH_SIZE, "learning_rate": 6e-3, "schedule": "one-cycle", "ema": 0.995}
    config = TrainConfig(max_steps=steps, validate_every=max(1, steps // 10), accelerator="cpu", **optimiser)
    training, validation = TensorData(**columns(spirals, TRAIN)), TensorData(**columns(spirals, VALIDATION))
    method.prepare(training)
    train(_RandomQueries(method), training, validation, config, seed=seed, report=report)
    method.finish(training, validation)
    return SpiralRun(spirals, method.predict(columns(spirals, TEST)))


def mean_trajectory(data: Spirals) -> Prediction:
    """The baseline: mean and standard deviation of the training spirals at each time."""
    std, mean = torch.std_mean(data.y[TRAIN], 0)
    shape = data.y[TEST].shape
    return Prediction.gaussian(mean.expand(shape), std.expand(shape))


class _RandomQueries(nn.Module):
    """Trains a method at a few random query times per step, which is faster than all of them and no less accurate."""

    def __init__(self, method: AbstractTrainable):
        super().__init__()
        self.method = method

    @property
    def parts(self) -> dict[str, Tensor]:
        return self.method.parts

    def loss(self, batch: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        chosen = torch.randperm(batch["y"].shape[1], generator=generator)[:QUERIES_PER_STEP]
        queried = {name: batch[name][:, chosen] for name in ("query_times", "y")}
        return self.method.loss({**batch, **queried}, generator)

    def validation(self, batch: dict[str, Tensor], generator: torch.Generator) -> tuple[Tensor, int]:
        return self.method.validation(batch, generator)
