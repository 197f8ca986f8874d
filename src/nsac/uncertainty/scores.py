"""How good is a predicted distribution? Each score is a mean over all entries; lower is better but for coverage."""

import numpy as np
import scoringrules
import torch
from torch import Tensor

from nsac._checks import check_finite, check_shape
from nsac.uncertainty.prediction import Prediction


def mse(prediction: Prediction, y: Tensor) -> float:
    """Mean squared error of the predictive mean."""
    _check(prediction, y)
    return (prediction.mean - y).square().mean().item()


def nll(prediction: Prediction, y: Tensor) -> float:
    """Negative log-likelihood of the mixture."""
    _check(prediction, y)
    return -prediction.log_prob(y).mean().item()


def crps(prediction: Prediction, y: Tensor) -> float:
    """Continuous ranked probability score of the mixture, in closed form."""
    _check(prediction, y)
    means, stds = (d.movedim(0, -1).double().numpy(force=True) for d in _components(prediction))
    return float(np.mean(np.asarray(scoringrules.crps_mixnorm(y.double().numpy(force=True), means, stds))))


def coverage(prediction: Prediction, y: Tensor, level: float = 0.9) -> float:
    """Share of values inside the central interval of probability `level`; `level` is what it should be."""
    _check(prediction, y)
    lower, upper = prediction.interval(level)
    return ((y >= lower) & (y <= upper)).double().mean().item()


def _components(prediction: Prediction) -> tuple[Tensor, Tensor]:
    return prediction.mean_draws, prediction.log_std_draws.exp()


def _check(prediction: Prediction, y: Tensor) -> None:
    check_shape("y", y, "as the prediction's mean", tuple(prediction.mean.shape))
    check_finite("y", y)
    for name, value in zip(("mean", "standard deviation"), _components(prediction), strict=True):
        if not torch.isfinite(value).all() or (name != "mean" and (value <= 0).any()):
            raise ValueError(f"The prediction's {name} must be finite, and a deviation above 0. Check the training.")
