"""Stacking: one predictive distribution from several models, fitted on rows that none of them was trained on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import gammaincc, gammainccinv, ndtri
from torch import Tensor

from nsac.methods.weights import MEDIAN_TO_STD, robust_weights
from nsac.uncertainty import Prediction

DEGREES_OF_FREEDOM = (3.0, 4.0, 6.0, 10.0, 20.0, 100.0)  # of the noise that are tried; 100 is Gaussian
MAX_NOISE_RATIO = 25.0  # largest variance of the noise over the mean squared error of left-out rows
MAX_BEYOND = 0.5  # how far means may be beyond the targets that were seen, in ranges of these
MAX_ROWS = 20_000  # rows that the stack is fitted on
MIN_DRAWS = 2  # of which the variance of the mean can be computed
PRIOR_ROWS = 5.0  # weight, in rows, of the prior of the variance factors
MIN_SHARE = 0.2  # least constant variance, in shares of the squared typical error: models may agree by chance
MIN_SHARE_OF_MEAN = 0.03  # the same, in shares of the mean squared error: most rows may repeat others exactly


class Parts(NamedTuple):
    """Predictions of the models for the same rows, standardised."""

    means: Tensor  # (models, n, outputs)
    aleatoric: Tensor  # (n, outputs), variance of the noise, learned
    epistemic: Tensor  # (n, outputs, sources), variances of the mean, from several sources

    def rows(self, kept: Tensor) -> "Parts":
        """Predictions of these rows."""
        return Parts(self.means[:, kept], self.aleatoric[kept], self.epistemic[kept])


@dataclass(frozen=True)
class Stack:
    r"""Mean $m = \sum_c w_c \mu_c$ with non-negative weights, and variance that adds up sources of uncertainty.

    $$\sigma^2(x) = \underbrace{\beta_0 + \beta_1 A(x)}_{\text{aleatoric}}
    + \underbrace{\textstyle\sum_k \gamma_k E_k(x) + \gamma_0 \sum_c \bar w_c (\mu_c - m)^2}_{\text{epistemic}},$$

    with the learned variance A of the noise, variances $E_k$ of the mean, and the disagreement of the models, each
    counted as much as the errors of left-out rows say. The noise is Student's t, a mixture of Gaussians over draws.
    """

    weights: Tensor  # (models, outputs)
    aleatoric: Tensor  # (2, outputs), beta
    epistemic: Tensor  # (sources + 1, outputs), gamma; the disagreement is last
    freedom: Tensor  # (outputs,), degrees of freedom
    limits: Tensor  # (2, outputs), least and largest mean: half the range of the targets beyond it
    max_noise: Tensor  # (outputs,), largest variance of the noise

    @classmethod
    def fit(cls, parts: Parts, y: Tensor, weight: Tensor | None = None) -> "Stack":
        """From predictions of left-out rows and their targets, (n, outputs)."""
        row_weight = torch.ones(len(y)).double() if weight is None else weight.double()
        columns = []
        for j in range(y.shape[1]):
            means, target = parts.means[:, :, j], y[:, j]
            w = robust_weights(means.numpy(), target.numpy(), row_weight.numpy())
            sources = _sources(means, parts.aleatoric[:, j], parts.epistemic[:, j], w)
            columns.append((w, *_fit_variance(sources, (target - w @ means).square(), row_weight)))
        w, factors, freedom = (torch.stack(list(column), -1) for column in zip(*columns, strict=True))
        low, high = torch.aminmax(y, dim=0)
        beyond = MAX_BEYOND * (high - low)
        squared = (y - (w[:, None] * parts.means).sum(0)).square().mean(0)
        limits = torch.stack([low - beyond, high + beyond])
        return cls(w, factors[:2], factors[2:], freedom, limits, MAX_NOISE_RATIO * squared + factors[0])

    def predict(
        self, parts: Parts, num_samples: int, extra: Tensor | None = None, max_epistemic: Tensor | None = None
    ) -> Prediction:
        """The stacked distribution.

        Args:
            parts: predictions of the models.
            num_samples: number of draws; 1 counts as 2, since one draw has no variance of the mean.
            extra: (n,), variance of the mean that is added.
            max_epistemic: (outputs,), largest variance of the mean.
        """
        return self.mixture(parts, *self.nodes(num_samples), extra, max_epistemic)

    def nodes(self, num_samples: int) -> tuple[Tensor, Tensor]:
        """Standard normal numbers, (draws,), and scales of the noise, (draws, outputs), of `num_samples` draws or 2."""
        return _nodes(max(num_samples, MIN_DRAWS), self.freedom)

    def mixture(
        self, parts: Parts, normal: Tensor, scale: Tensor, extra: Tensor | None, max_epistemic: Tensor | None
    ) -> Prediction:
        """As `predict`, with the draws that `nodes` returned."""
        means, aleatoric, epistemic = [], [], []
        for j in range(parts.means.shape[2]):
            w = self.weights[:, j]
            sources = _sources(parts.means[:, :, j], parts.aleatoric[:, j], parts.epistemic[:, j], w)
            means.append(w @ parts.means[:, :, j])
            aleatoric.append(sources[:, :2] @ self.aleatoric[:, j])
            epistemic.append(sources[:, 2:] @ self.epistemic[:, j] + (0 if extra is None else extra))
        mean, noise, spread = (torch.stack(column, -1) for column in (means, aleatoric, epistemic))
        mean = torch.minimum(torch.maximum(mean, self.limits[0]), self.limits[1])
        noise = torch.minimum(noise, self.max_noise)  # networks may extrapolate it to anything
        if max_epistemic is not None:
            spread = torch.minimum(spread, max_epistemic)
        return Prediction(mean + normal[:, None, None] * spread.sqrt(), noise.log() / 2 + scale[:, None].log())

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        return dict(vars(self))

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], models: int, sources: int, outputs: int) -> "Stack":
        """Inverse of `to_tensors`."""
        names = ("weights", "aleatoric", "epistemic", "freedom", "limits", "max_noise")
        stack = cls(*(tensors[name].double() for name in names))
        shapes = [(models, outputs), (2, outputs), (sources + 1, outputs), (outputs,), (2, outputs), (outputs,)]
        found = [tuple(getattr(stack, name).shape) for name in names]
        if found != shapes or any(bool((getattr(stack, name) < 0).any()) for name in names[:4]):
            raise ValueError(f"The stack must have non-negative tensors of shapes {shapes}. Got {found} instead.")
        positive = (stack.aleatoric[0] > 0) & (stack.max_noise > 0) & (stack.freedom > 2)
        if not positive.all():
            raise ValueError("The stack must have a positive variance and more than 2 degrees of freedom.")
        return stack


def predict_unseen(
    parts: Parts, y: Tensor, weight: Tensor | None, folds: Sequence[int], num_samples: int
) -> list[Prediction]:
    """Predictions of each fold by a stack that is fitted to the others; `folds` are their sizes, in the order of rows.

    The errors of few groups are few, however many rows they have: a stack that was fitted to them underestimates them.
    """
    number = torch.arange(len(folds)).repeat_interleave(torch.tensor(folds))
    predictions = []
    for k in range(len(folds)):
        own = number == k
        stack = Stack.fit(parts.rows(~own), y[~own], None if weight is None else weight[~own])
        predictions.append(stack.predict(parts.rows(own), num_samples))
    return predictions


def _sources(means: Tensor, aleatoric: Tensor, epistemic: Tensor, w: Tensor) -> Tensor:  # n (2 + sources + 1)
    share = w / w.sum().clamp(min=1e-12)
    mean = share @ means
    disagreement = share @ (means - mean).square()
    return torch.cat([torch.ones_like(mean)[:, None], aleatoric[:, None], epistemic, disagreement[:, None]], 1)


def _fit_variance(sources: Tensor, squared: Tensor, row_weight: Tensor) -> tuple[Tensor, Tensor]:
    """Factors of the sources, and degrees of freedom, of the largest likelihood of Student's t with this variance."""
    if len(squared) > MAX_ROWS:
        sources, squared, row_weight = sources[:MAX_ROWS], squared[:MAX_ROWS], row_weight[:MAX_ROWS]
    error = squared.mean().clamp(min=1e-12)
    typical_error = (MEDIAN_TO_STD**2 * squared.median()).clamp(max=error)
    least = torch.maximum(MIN_SHARE * typical_error, MIN_SHARE_OF_MEAN * error)
    typical = sources.mean(0)
    start = (error / (2 * typical.clamp(min=1e-12))).log().clamp(max=3.0)
    best: tuple[float, Tensor, float] | None = None
    for freedom in DEGREES_OF_FREEDOM:
        found, value = _minimise(start, sources, squared, row_weight, freedom, least)
        if best is None or value < best[0]:
            best = value, found, freedom
        start = found
    assert best is not None
    factors = best[1].exp()
    factors[0] += least
    return factors, torch.tensor(best[2]).double()


def _minimise(
    start: Tensor, sources: Tensor, squared: Tensor, row_weight: Tensor, freedom: float, least: Tensor
) -> tuple[Tensor, float]:
    prior, log_factor, half = start.clone(), start.clone().requires_grad_(), (freedom + 1) / 2
    constant = float(torch.lgamma(torch.tensor(freedom / 2)) - torch.lgamma(torch.tensor(half)))
    constant += float(torch.tensor(freedom - 2).log()) / 2
    optimiser = torch.optim.LBFGS([log_factor], max_iter=40, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        variance = sources @ log_factor.exp() + least
        each = variance.log() / 2 + half * torch.log1p(squared / (variance * (freedom - 2))) + constant
        nll = (row_weight * each).sum() / row_weight.mean()
        total = nll + PRIOR_ROWS * (log_factor - prior).square().mean() / 2 / 9
        total.backward()
        return total.detach()

    with torch.enable_grad():
        optimiser.step(loss)
        value = float(loss())
    return log_factor.detach(), value


def _nodes(n: int, freedom: Tensor) -> tuple[Tensor, Tensor]:
    """Standard normal numbers, (n,), with mean 0 and variance 1, and scales of the noise, (n, outputs), unrelated."""
    levels = (np.arange(n) + 0.5) / n
    normal = torch.from_numpy(ndtri(levels))
    normal = normal / normal.square().mean().sqrt()
    stride = next(step for step in range(max(1, round(0.38 * n)), n + 1) if np.gcd(step, n) == 1)
    order = np.arange(n) * stride % n
    squares = [_mean_squares(n, nu)[order] for nu in freedom.tolist()]
    return normal, torch.from_numpy(np.stack(squares, -1)).sqrt()


def _mean_squares(n: int, freedom: float) -> np.ndarray:
    """Means of n equally likely parts of the squared scale of Student's t, ascending; their mean is 1.

    The squared scale is inverse gamma, (nu/2, nu/2 - 1); its mean below a level is a gamma integral of order nu/2 - 1.
    """
    order, scale = freedom / 2, freedom / 2 - 1
    edges = scale / gammainccinv(order, np.arange(1, n) / n)
    below = np.concatenate([[0.0], gammaincc(order - 1, scale / edges), [1.0]])
    return n * np.diff(below)
