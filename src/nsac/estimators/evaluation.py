"""The evaluation of an estimator on new rows, beside a baseline."""

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
    """Predictions and observed values of one target; entries without an observed value are left out."""

    target: str  # its name
    prediction: Prediction  # (n,), calibrated, in the unit of y
    lower: Tensor  # (n,), lower end of the 90 % interval
    upper: Tensor  # (n,), its upper end
    y: Tensor  # (n,), observed values
    baseline: Prediction  # (n,), prediction of the baseline
    baseline_name: str  # in tables and legends
    place: np.ndarray | None = None  # (n,), times, if the rows have any
    step: Tensor | None = None  # (n,), forecasts: lead time in steps, from 1
    shown: Tensor | None = None  # (n,), whether a value is in the plot over time: one series at one lead time

    def __post_init__(self):
        if not len(self.y):
            raise ValueError(
                f"The target {self.target!r} must be known in at least one row to be evaluated. Got none. "
                "Pass a file with its values."
            )

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        """`{"model": {score: value}, "baseline": ...}`; the interval of the model is the conformal one."""
        model = _scores(self.prediction, self.y, self.lower, self.upper)
        return {"model": model, "baseline": _scores(self.baseline, self.y, *self.baseline.interval(0.9))}


def evaluate_rows(
    target: str,
    prediction: Prediction,
    interval: tuple[Tensor, Tensor],
    y: Tensor,
    baseline: Prediction,
    baseline_name: str,
    place: np.ndarray | None = None,
    step: Tensor | None = None,
    shown: Tensor | None = None,
) -> Evaluation:
    """An `Evaluation` of the entries whose target is known."""
    known = torch.isfinite(y)
    return Evaluation(
        target,
        prediction[known],
        interval[0][known],
        interval[1][known],
        y[known],
        baseline[known],
        baseline_name,
        place=None if place is None else place[known.numpy()],
        step=None if step is None else step[known],
        shown=None if shown is None else shown[known],
    )


def interval_scores(y: Tensor, lower: Tensor, upper: Tensor) -> dict[str, float]:
    """Coverage and mean width of 90 % intervals."""
    covered = ((lower <= y) & (y <= upper)).double().mean().item()
    return {"coverage_90": covered, "width_90": (upper - lower).mean().item()}


def _scores(p: Prediction, y: Tensor, lower: Tensor, upper: Tensor) -> dict[str, float]:
    scores = {"rmse": rmse(p, y), "mae": mae(p, y), "nll": nll(p, y), "crps": crps(p, y)}
    return scores | interval_scores(y, lower, upper) | {"calibration_error": calibration_error(p, y)}
