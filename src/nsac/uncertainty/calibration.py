"""Calibration of predictions on a held-out set.

A column is an entry of a row: an output, a lead time, or one of each. Every column is calibrated by itself, and the
rows of the calibration set, (rows, *columns), are assumed to be exchangeable with those to be predicted.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nsac.uncertainty.checks import check_columns, check_probability
from nsac.uncertainty.conformal import conformal_margin, conformal_scores, interval_around
from nsac.uncertainty.prediction import Prediction, check_rows

PRIOR_ROWS = 4.0
"""Weight, in rows, of the prior that no scale is needed: a small calibration set must not change the scale much."""


@dataclass(frozen=True)
class VarianceScale:
    r"""One factor $s$ per column on the standard deviation, $s^2 = \frac1n\sum_i (y_i - \mu_i)^2/\sigma_i^2$.

    This $s$ minimises the negative log-likelihood of the moment-matched Gaussian. The mixture is stretched about its
    mean, so aleatoric and epistemic variance both grow by $s^2$ and keep their proportion.
    """

    scale: Tensor
    """(*columns), factor on the standard deviation"""

    @classmethod
    def fit(cls, prediction: Prediction, y: Tensor) -> "VarianceScale":
        """From a held-out calibration set."""
        check_rows(prediction, y)
        scale = ((y - prediction.mean) / prediction.std).detach().double().square().mean(0).sqrt()
        if (scale == 0).any():
            raise ValueError(
                "`y` must differ from the predicted mean in at least one row of each column, or no scale above 0 fits. "
                "Got errors of exactly 0. Calibrate on rows that were not trained on."
            )
        return cls(scale)

    def __call__(self, prediction: Prediction) -> Prediction:
        """The same draws, stretched about their mean."""
        check_columns("VarianceScale", self.scale.shape, prediction.shape)
        scale, mean = self.scale.to(prediction.mean_draws), prediction.mean
        return Prediction(mean + scale * (prediction.mean_draws - mean), prediction.log_std_draws + scale.log())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"scale": self.scale.tolist()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "VarianceScale":
        """Inverse of `to_dict`."""
        return cls(torch.tensor(state["scale"], dtype=torch.float64))


@dataclass(frozen=True)
class Calibration:
    r"""A variance scale and split-conformal scores, both per column, from a set that may have missing targets.

    The scale is $s^2 = (n_0 + \sum_i z_i^2)/(n_0 + n)$ with errors z in predicted standard deviations; the scores are
    $|z_i|/s$, sorted. An entry of y that is NaN was not observed: it counts for no column.
    """

    scale: Tensor
    """(*columns), factor on the standard deviation"""
    scores: Tensor
    """(n, *columns), sorted; NaN, at the end, where a column has fewer than n"""

    @classmethod
    def fit(cls, prediction: Prediction, y: Tensor) -> "Calibration":
        """From predictions and targets, (n, *columns), of a held-out calibration set."""
        scores = conformal_scores(prediction, y)
        known = ~torch.isnan(scores)
        scale = ((PRIOR_ROWS + scores.square().nansum(0)) / (PRIOR_ROWS + known.sum(0))).sqrt()
        return cls(scale, (scores / scale).sort(0).values)

    def apply(self, prediction: Prediction) -> Prediction:
        """The draws, stretched about their mean."""
        return VarianceScale(self.scale)(prediction)

    def interval(self, prediction: Prediction, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Lower and upper ends, conformal, of a prediction that is not calibrated yet (`apply` is done here)."""
        check_columns("Calibration", self.scale.shape, prediction.shape)
        return self.scaled_interval(self.apply(prediction), coverage)

    def scaled_interval(self, scaled: Prediction, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Lower and upper ends, conformal, of a prediction that `apply` returned, in any unit.

        A column with too few scores for this coverage, n < coverage / (1 - coverage), gets the central interval of the
        scaled mixture, with a warning.
        """
        check_probability("coverage", coverage)
        margin = conformal_margin(self.scores, coverage)
        lower, upper = interval_around(scaled, margin)
        too_few = margin.isinf()
        if too_few.any():
            n = int((~torch.isnan(self.scores)).sum(0).min())
            warnings.warn(
                f"{n} rows of calibration are too few for a conformal interval of coverage {coverage}. The interval "
                "of the model, calibrated in scale only, takes its place. Fit more rows, or lower the coverage to "
                f"{n / (n + 1):.3g}.",
                stacklevel=3,
            )
            central_lower, central_upper = scaled.interval(coverage)
            lower = torch.where(too_few, central_lower, lower)
            upper = torch.where(too_few, central_upper, upper)
        return lower, upper

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        return {"scale": self.scale, "scores": self.scores}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "Calibration":
        """Inverse of `to_tensors`."""
        scale, scores = tensors["scale"].double(), tensors["scores"].double()
        if scores.ndim != scale.ndim + 1 or scores.shape[1:] != scale.shape or not bool((scale > 0).all()):
            raise ValueError(f"`scores` must have shape (rows, *{tuple(scale.shape)}) and `scale` be above 0.")
        return cls(scale, scores)
