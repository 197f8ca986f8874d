r"""The prediction of a target whose link is predicted: $y = g^{-1}(z)$ with z a Gaussian mixture of draws.

CDF, quantiles, intervals and density are exact; moments and the CRPS are quadratures.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nsac.uncertainty.link import Link
from nsac.uncertainty.prediction import DecomposedPredictor, Prediction, prediction_frame

if TYPE_CHECKING:
    from pandas import DataFrame

MOMENT_NODES = 64
"""Nodes of the Gauss-Hermite quadrature per draw; for a log link with std 5 the variance has 9 correct digits."""
MIN_STD = 1e-6
"""Smallest aleatoric standard deviation, in margins: a draw far beyond a bound has all its probability on it."""
CRPS_NODES = 64
"""Nodes of the Gauss-Legendre quadrature on either side of the observed value."""
CRPS_RANGE = 5.0
"""Standard deviations on either side of a draw that the quadrature covers: (1 - F)^2 is 1e-13 there."""
CRPS_CHUNK = 2**20
"""Values of one draw at one node that `transformed_crps` computes at once: 8 MB in each of a few arrays."""


@dataclass(frozen=True)
class TransformedPrediction(DecomposedPredictor):
    r"""The prediction of $y = g^{-1}(z)$, z a Gaussian mixture of draws: positive or bounded as the link is.

    It has the interface of a `Prediction`, in double precision. Moments are those of the target, not of z. With a log
    link the mean is dominated by the upper tail where the standard deviation of z is large; there the median,
    `quantile(0.5)`, is the better point prediction. Distances above $e^{300}$ from a bound are cut, so all is finite.
    """

    prediction: Prediction
    """of z"""
    link: Link

    def __getitem__(self, index: Any) -> "TransformedPrediction":
        return TransformedPrediction(self.prediction[index], self.link)

    @property
    def shape(self) -> torch.Size:
        """Of the entries: rows first, then outputs or lead times."""
        return self.prediction.shape

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor, Tensor]:
        r"""Per draw $E[y] = \sum_k w_k\,g^{-1}(\mu + \sqrt2\,\sigma x_k)$, about $g^{-1}(\mu)$: nothing cancels."""
        if self.link.name == "identity":
            return self.prediction._moments
        mean, std = self.prediction.mean_draws.double(), self.prediction.log_std_draws.double().exp()
        nodes, weights = np.polynomial.hermite.hermgauss(MOMENT_NODES)
        shape = (-1, *(1,) * mean.ndim)
        nodes = torch.from_numpy(nodes * math.sqrt(2)).to(mean.device).reshape(shape)
        weights = torch.from_numpy(weights / weights.sum()).to(mean.device).reshape(shape)
        centre = self.link.inverse(mean)
        first, second = torch.zeros_like(mean), torch.zeros_like(mean)
        step = MOMENT_NODES if torch.compiler.is_compiling() else 1  # little memory, or a small graph
        for some, shares in zip(nodes.split(step), weights.split(step), strict=True):
            distance = self.link.inverse(mean + std * some) - centre
            first = first + (shares * distance).sum(0)
            second = second + (shares * distance.square()).sum(0)
        within = (second - first.square()).clamp(min=(MIN_STD * self.link.margin) ** 2)
        means = self.link.clamp(centre + first)
        return means.mean(0), within.mean(0), means.var(0, correction=0)

    def cdf(self, y: Tensor) -> Tensor:
        """Probability of a value at most `y`; 0 below the range, 1 at its upper end and above."""
        level = self.prediction.cdf(self.link.forward(self.link.clamp(y)))
        if self.link.lower is not None:
            level = level.masked_fill(y < self.link.lower, 0.0)
        return level if self.link.upper is None else level.masked_fill(y >= self.link.upper, 1.0)

    def pit(self, y: Tensor) -> Tensor:
        """The CDF at observed values; on a bound, which has a probability of its own, the middle of the jump."""
        level = self.prediction.cdf(self.link.forward(y))
        if self.link.lower is not None:
            level = torch.where(y <= self.link.lower, level / 2, level)
        return level if self.link.upper is None else torch.where(y >= self.link.upper, (1 + level) / 2, level)

    def log_prob(self, y: Tensor) -> Tensor:
        """Logarithm of the density at `y`; on a bound the limit of the density, not the bound's probability."""
        return self.prediction.log_prob(self.link.forward(y)) + self.link.log_derivative(y)

    def _quantile(self, q: float) -> Tensor:
        return self.link.inverse(self.prediction._quantile(q))

    def sample(self, num_samples: int, generator: torch.Generator | None = None) -> Tensor:
        """Values from the prediction, (num_samples, ...); entries are independent."""
        return self.link.inverse(self.prediction.sample(num_samples, generator))

    def moment_matched(self) -> Prediction:
        """The Gaussian with the same mean and total variance, all of it aleatoric; it knows no bounds."""
        return Prediction(self.mean[None], self.variance.log()[None] / 2)

    def to_frame(self, coverage: float = 0.9, names: Sequence[str] | None = None) -> "DataFrame":
        """As `Prediction.to_frame`."""
        return prediction_frame(self, coverage, names)

    def check(self) -> None:
        """Refuse a mean that is not finite and a standard deviation that is not above 0."""
        self.prediction.check()


def transformed_crps(prediction: TransformedPrediction, y: Tensor) -> Tensor:
    r"""$\int (F(t) - 1\{y \le t\})^2\,dt$ per entry, by quadrature over $z = g(t)$ below and above $g(y)$.

    Beyond the range of the quadrature F is 0 or 1, and the integral is a distance.
    """
    link, n = prediction.link, len(prediction.prediction.mean_draws)
    mean = prediction.prediction.mean_draws.double().reshape(n, -1)
    std = prediction.prediction.log_std_draws.double().exp().reshape(n, -1)
    z, y = link.forward(y).reshape(-1), link.clamp(y.double()).reshape(-1)
    entries = max(1, CRPS_CHUNK // (n * CRPS_NODES))
    chunks = zip(*(v.split(entries, -1) for v in (mean, std, z, y)), strict=True)
    return torch.cat([_crps(link, *chunk) for chunk in chunks]).reshape(prediction.shape)


def _crps(link: Link, mean: Tensor, std: Tensor, z: Tensor, y: Tensor) -> Tensor:
    # With a log link (1 - F)^2 is multiplied by e^z (F^2 by e^-z, if mirrored): its tail moves by std / 2.
    further = std / 2 if link.name == "log" else torch.zeros_like(std)
    below, above = (0, further) if link.upper is None else (further, 0)
    low = (mean - (CRPS_RANGE + below) * std).amin(0)
    high = (mean + (CRPS_RANGE + above) * std).amax(0)
    ends = [None if b is None else link.forward(y.new_tensor(b)).item() for b in (link.lower, link.upper)]
    if ends != [None, None]:
        low, high = low.clamp(*ends), high.clamp(*ends)
    middle = z.clamp(low, high)
    score = (y - link.inverse(high)).clamp(min=0) + (link.inverse(low) - y).clamp(min=0)
    nodes, weights = (torch.as_tensor(v, device=y.device) for v in np.polynomial.legendre.leggauss(CRPS_NODES))
    for start, stop, sign in ((low, middle, 1.0), (middle, high, -1.0)):
        half = (stop - start) / 2
        at = start + half * (1 + nodes[:, None])  # nodes, entries
        share = torch.special.ndtr(sign * (at - mean[:, None]) / std[:, None]).mean(0)  # F or 1 - F
        slope = (-link.log_derivative(link.inverse(at))).exp()
        score = score + half * (weights[:, None] * share.square() * slope).sum(0)
    return score
