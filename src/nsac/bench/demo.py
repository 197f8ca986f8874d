"""The five-minute demonstration: irregular spirals, trained, scored and drawn."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nsac.datasets import Spirals, make_spirals
from nsac.layers import NSACLoss
from nsac.models import SeriesModel
from nsac.training import Progress, TrainConfig, train
from nsac.uncertainty import Prediction, coverage, crps, mse, nll

PARTS = {"interpolation": slice(0, 75), "extrapolation": slice(75, 150)}
"""Query points of the first, observed half of a spiral and of the second, unobserved one."""

TRAIN, VALIDATION, TEST = slice(0, 200), slice(200, 250), slice(250, 300)
"""Spirals by their number; every one is generated independently."""

BATCH, QUERIES = 32, 16
"""Spirals and query times in one step."""


@dataclass(frozen=True)
class Demo:
    """What came out."""

    spirals: Spirals
    prediction: Prediction
    """of the test spirals, at all times"""
    rows: list[dict]
    """scores: one row per method and part"""


def run_demo(steps: int = 1200, seed: int = 0, report: Callable[[Progress], None] = lambda progress: None) -> Demo:
    """Train on 200 spirals, keep the best of 50 others, score 50 more; everything follows from the seed."""
    generator = torch.Generator().manual_seed(seed)
    spirals = make_spirals(generator=generator)
    model = SeriesModel(2, 2, num_heads=2, topk=24, seed=seed)
    config = TrainConfig(steps=steps, learning_rate=6e-3, validate_every=max(1, steps // 10))
    best = train(model, _Objective(spirals, generator), lambda m: _validate(m, spirals), config, report)
    prediction = _predict(best, spirals, TEST, num_samples=20)
    rows = _score("nsac", prediction, spirals) + _score("mean trajectory", _mean_trajectory(spirals), spirals)
    return Demo(spirals, prediction, rows)


class _Objective:
    """The two-term loss on a random batch, at random query times."""

    def __init__(self, spirals: Spirals, generator: torch.Generator):
        self.spirals, self.generator, self.loss = spirals, generator, NSACLoss()

    @property
    def parts(self) -> dict[str, Tensor]:
        return self.loss.parts

    def __call__(self, model: nn.Module) -> Tensor:
        data, g = self.spirals, self.generator
        rows = torch.randperm(TRAIN.stop, generator=g)[:BATCH]
        asked = torch.randperm(len(data.query_times), generator=g)[:QUERIES]
        y = data.y[rows][:, asked]
        inputs = {"times": data.times[rows], "query_times": data.query_times[asked]}
        return self.loss(model, data.x[rows], y, generator=g, **inputs)


@torch.no_grad()
def _predict(model: nn.Module, data: Spirals, rows: slice, num_samples: int) -> Prediction:
    g = torch.Generator().manual_seed(0)  # the same noise every time, so that scores can be compared
    return Prediction(*model(data.x[rows], data.times[rows], data.query_times, num_samples=num_samples, generator=g))


def _validate(model: nn.Module, data: Spirals) -> float:
    p = _predict(model, data, VALIDATION, num_samples=5)
    return nll(p, data.y[VALIDATION])


def _mean_trajectory(data: Spirals) -> Prediction:
    """The naive forecast: mean and spread of the training spirals at each time."""
    std, mean = torch.std_mean(data.y[TRAIN], 0)
    shape = data.y[TEST].shape
    return Prediction(mean.expand(1, *shape), std.log().expand(1, *shape))


def _score(method: str, prediction: Prediction, data: Spirals) -> list[dict]:
    rows = []
    for part, points in PARTS.items():
        p = Prediction(prediction.mean_draws[:, :, points], prediction.log_std_draws[:, :, points])
        y = data.y[TEST][:, points]
        scores = {score.__name__: score(p, y) for score in (mse, nll, crps, coverage)}
        spread = {kind: getattr(p, kind).mean().sqrt().item() for kind in ("aleatoric", "epistemic")}
        rows.append({"method": method, "part": part, **scores, **spread})
    return rows
