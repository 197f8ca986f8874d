"""Isotonic recalibration: a monotone map of quantile levels, fitted on a held-out set."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac.core import mixture_quantile
from nsac.uncertainty.checks import check_columns, check_probability
from nsac.uncertainty.prediction import Prediction, check_rows, each_level

KNOTS = 201
"""Quantile levels at which `Isotonic` keeps its map: every half per cent."""
MOMENT_NODES = 61
"""Nodes of the integral over quantiles that gives mean and variance; the error is about 1 % of the std."""
MOMENT_RANGE = 5.0
"""Standard deviations on either side that the integral covers."""


@dataclass(frozen=True)
class Isotonic:
    r"""Monotone map $R$ per column from predicted to observed level (Kuleshov et al., 2018); the CDF becomes $R(F(y))$.

    It corrects the shape of a distribution, which a scale cannot, and needs more rows: a few hundred per column.
    """

    levels: Tensor
    r"""(KNOTS, *columns), $R^{-1}$ at evenly spaced levels from 0 to 1; straight lines between"""

    @classmethod
    def fit(cls, prediction: Prediction, y: Tensor) -> "Isotonic":
        """From a held-out calibration set."""
        check_rows(prediction, y)
        predicted = prediction.cdf(y)
        eps = torch.finfo(predicted.dtype).eps  # a level of 0 or 1 has an infinite quantile
        columns = predicted.double().clamp(eps, 1 - eps).reshape(len(predicted), -1).T.numpy(force=True)
        levels = np.stack([_inverse_map(column) for column in columns], 1)
        return cls(torch.as_tensor(levels).reshape(KNOTS, *prediction.shape[1:]))

    def __call__(self, prediction: Prediction) -> "Recalibrated":
        """The recalibrated prediction."""
        check_columns("Isotonic", self.levels.shape[1:], prediction.shape)
        return Recalibrated(prediction, self.levels.to(prediction.mean_draws))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"levels": self.levels.tolist()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Isotonic":
        """Inverse of `to_dict`."""
        return cls(torch.tensor(state["levels"], dtype=torch.float64))


@dataclass(frozen=True)
class Recalibrated:
    r"""A prediction with CDF $R(F(y))$: quantiles, intervals, mean and standard deviation as those of a `Prediction`.

    It has no draws, hence no split into aleatoric and epistemic variance, and no density: the slope of a fitted map is
    noise. Tails end where the map ends, at the quantile of the last level below 1 in the prediction's precision.
    """

    prediction: Prediction
    levels: Tensor
    """(KNOTS, *columns), see `Isotonic`"""

    @property
    def shape(self) -> torch.Size:
        """Of the entries."""
        return self.prediction.shape

    def cdf(self, y: Tensor) -> Tensor:
        """Probability of a value at most `y`."""
        level = self.prediction.cdf(y)
        knots = self.levels.reshape(len(self.levels), -1)
        return _interpolate(level.reshape(-1, knots.shape[1]), knots).reshape(level.shape)

    def quantile(self, q: float | Sequence[float] | Tensor) -> Tensor:
        """The value that is not exceeded with probability `q`; for several levels (levels, ...)."""
        return each_level(q, self._quantile)

    def _quantile(self, q: float) -> Tensor:
        knot = q * (len(self.levels) - 1)
        left = min(int(knot), len(self.levels) - 2)
        level = torch.lerp(self.levels[left], self.levels[left + 1], knot - left)
        eps = torch.finfo(level.dtype).eps
        p = self.prediction
        return mixture_quantile(p.mean_draws, p.log_std_draws.exp(), level.clamp(eps, 1 - eps))

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval: lower and upper ends, each missed with probability (1 - coverage) / 2."""
        check_probability("coverage", coverage)
        return self._quantile((1 - coverage) / 2), self._quantile((1 + coverage) / 2)

    @property
    def mean(self) -> Tensor:
        """Predictive mean, an integral over quantiles."""
        return self._moments[0]

    @property
    def variance(self) -> Tensor:
        """Total variance, an integral over quantiles."""
        return self._moments[1]

    @property
    def std(self) -> Tensor:
        """Square root of the variance."""
        return self.variance.sqrt()

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        r"""With $q = \Phi(t)$, $E[g(Y)] = \int g(Q(\Phi(t)))\,\varphi(t)\,dt$; the trapezoid rule is accurate."""
        t = torch.linspace(-MOMENT_RANGE, MOMENT_RANGE, MOMENT_NODES, dtype=torch.float64)
        weights = (-t.square() / 2).exp() / (-t.square() / 2).exp().sum()
        values = self.quantile(torch.special.ndtr(t)) - self.prediction.mean  # no cancellation in the square
        weights = weights.to(values).reshape(-1, *(1,) * (values.ndim - 1))
        shift = (weights * values).sum(0)
        return self.prediction.mean + shift, (weights * (values - shift).square()).sum(0)

    def check(self) -> None:
        """Refuse a mean that is not finite and a standard deviation that is not above 0."""
        self.prediction.check()


def _inverse_map(predicted: np.ndarray) -> np.ndarray:
    """$R^{-1}$ at KNOTS even levels, $R$ the isotonic regression of empirical level i / (n + 1) on predicted level."""
    from sklearn.isotonic import IsotonicRegression

    observed = np.arange(1, len(predicted) + 1) / (len(predicted) + 1)
    fitted = IsotonicRegression(y_min=0, y_max=1).fit(np.sort(predicted), observed)
    ends = [0, *fitted.y_thresholds_, 1], [0, *fitted.X_thresholds_, 1]
    return np.interp(np.linspace(0, 1, KNOTS), *ends)


def _interpolate(x: Tensor, knots: Tensor) -> Tensor:
    """Levels 0 to 1 are reached at `knots` (KNOTS, columns); the level at `x` (rows, columns), linear between."""
    last = len(knots) - 1
    right = torch.searchsorted(knots.T.contiguous(), x.T.contiguous()).T.clamp(1, last)
    a, b = knots.gather(0, right - 1), knots.gather(0, right)
    share = (x - a) / (b - a).clamp(min=torch.finfo(x.dtype).tiny)
    return (right - 1 + share.clamp(0, 1)) / last
