"""How well an estimator predicts what it has not seen, beside a naive guess."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from nsac.uncertainty import Prediction
from nsac.uncertainty.scores import calibration_error, crps, mae, nll, rmse

SCORES = ("rmse", "mae", "nll", "crps", "coverage_90", "width_90", "calibration_error")
"""In the order of the table."""


@dataclass(frozen=True)
class Evaluation:
    """Predictions of one target and what came; entries without a known target are left out."""

    target: str
    """its name"""
    prediction: Prediction
    """(n,), calibrated, in the unit of y"""
    lower: Tensor
    """(n,), lower end of the 90 % interval"""
    upper: Tensor
    """(n,), its upper end"""
    y: Tensor
    """(n,), what came"""
    naive: Prediction
    """(n,), the guess to beat"""
    naive_name: str
    """what it is"""
    place: np.ndarray | None = None
    """(n,), times, if the rows have any"""
    step: Tensor | None = None
    """(n,), forecasts: steps ahead, from 1"""
    shown: Tensor | None = None
    """(n,), whether a value belongs in the picture along time: one series, so many steps ahead"""

    def __post_init__(self):
        if not len(self.y):
            raise ValueError(
                f"The target {self.target!r} must be known in at least one row to be evaluated. Got none. "
                "Give a file that has its values."
            )

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        """`{"model": {score: value}, "naive": ...}`; the model's interval is the conformal one."""
        own = _scores(self.prediction, self.y, self.lower, self.upper)
        return {"model": own, "naive": _scores(self.naive, self.y, *self.naive.interval(0.9))}


def evaluate_rows(
    target: str,
    prediction: Prediction,
    interval: tuple[Tensor, Tensor],
    y: Tensor,
    naive: Prediction,
    naive_name: str,
    place: np.ndarray | None = None,
    step: Tensor | None = None,
    shown: Tensor | None = None,
) -> Evaluation:
    """An `Evaluation` of the entries whose target is known, in double precision."""
    known = torch.isfinite(y)
    lower, upper = (end.double()[known] for end in interval)
    return Evaluation(
        target, _double(prediction[known]), lower, upper, y.double()[known], _double(naive[known]), naive_name,
        None if place is None else place[known.numpy()], *(None if v is None else v[known] for v in (step, shown)),
    )  # fmt: skip


def _scores(prediction: Prediction, y: Tensor, lower: Tensor, upper: Tensor) -> dict[str, float]:
    return {
        "rmse": rmse(prediction, y),
        "mae": mae(prediction, y),
        "nll": nll(prediction, y),
        "crps": crps(prediction, y),
        "coverage_90": ((lower <= y) & (y <= upper)).double().mean().item(),
        "width_90": (upper - lower).mean().item(),
        "calibration_error": calibration_error(prediction, y),
    }


def _double(prediction: Prediction) -> Prediction:
    return Prediction(prediction.mean_draws.double(), prediction.log_std_draws.double())
