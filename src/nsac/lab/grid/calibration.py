"""Calibration of a fitted method on the calibration split: a variance scale and a conformal margin."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nsac.lab.tasks.base import Predict, Task
from nsac.uncertainty import Prediction, VarianceScale, conformal_margin

COVERAGE = 0.9
"""Nominal coverage of the conformal intervals."""


@dataclass(frozen=True)
class Calibration:
    """What the calibration split determines; both are ratios, so they apply in the unit of the model as well."""

    scale: VarianceScale
    """factor on the standard deviation, per column"""
    margin: Tensor
    """half the conformal 90 % interval in predicted standard deviations, per column"""


def calibrate(task: Task, predict: Predict) -> Calibration:
    """Variance scale and conformal margin of each column, from the calibration split.

    Where a task has groups, all entries of a group share the two numbers per output, since its rows are few and its
    columns many. Entries of one row are not independent, so the margin is then taken at coverage 0.9 (1 + 1 / rows),
    with which an entry of another row is covered with probability at least 0.9 (Lee, Barber and Willett, 2023).
    """
    y, mean, std = _predicted(task, predict)
    coverage = COVERAGE * (1 + 1 / len(y)) if task.groups else COVERAGE
    scale = torch.ones(y.shape[1:], dtype=torch.float64)
    margin = torch.ones(y.shape[1:], dtype=torch.float64)
    for columns in task.groups.values() or [slice(None)]:
        observed, prediction = y[:, columns], Prediction.gaussian(mean[:, columns], std[:, columns])
        if task.groups:
            observed, prediction = observed.flatten(0, 1), _flattened(prediction)
        scale[columns] = VarianceScale.fit(prediction, observed).scale
        margin[columns] = conformal_margin((observed - prediction.mean).abs() / prediction.std, coverage)
    return Calibration(VarianceScale(scale), margin)


def _predicted(task: Task, predict: Predict) -> tuple[Tensor, Tensor, Tensor]:
    """Observed values, predicted means and standard deviations of the calibration split, in double precision."""
    batches = []
    for batch in task.batches("calibration"):
        prediction = batch.restore(predict(batch.inputs))
        batches.append((batch.y, prediction.mean, prediction.std))
    y, mean, std = zip(*batches, strict=True)
    return torch.cat(y).double(), torch.cat(mean).double(), torch.cat(std).double()


def _flattened(prediction: Prediction) -> Prediction:
    """Rows and columns of a group as one axis."""
    return Prediction(prediction.mean_draws.flatten(1, 2), prediction.log_std_draws.flatten(1, 2))
