r"""Joint samples of forecasts: marginals of the calibrated mixture, tied together by the correlation of past errors.

Errors at neighbouring lead times are correlated, so sums and maxima over a horizon vary more than independent errors
would. A Gaussian copula keeps each marginal distribution as it is: a sample is $F_h^{-1}(\Phi(z_h))$ with z from a
multivariate Gaussian whose correlation is that of $\Phi^{-1}(F_h(y_h))$ in the calibration set.
"""

import torch
from torch import Tensor

from nsac._checks import check_int
from nsac.core import mixture_quantile
from nsac.uncertainty import Prediction

MAX_SAMPLES = 100_000  # joint samples in one call
SAMPLE_CHUNK = 20_000_000  # numbers in memory at once, draws times samples times entries
MIN_LEVEL = 1e-6  # PIT values are kept this far from 0 and 1
MAX_CORRELATION = 0.9999  # between neighbouring lead times


def normal_scores(p: Prediction, y: Tensor) -> Tensor:
    r"""$\Phi^{-1}(F(y))$, standard Gaussian if the prediction is calibrated; NaN where `y` is NaN."""
    known = ~y.isnan()
    scores = torch.full_like(y, torch.nan)
    scores[known] = torch.special.ndtri(p[known].cdf(y[known]).clamp(MIN_LEVEL, 1 - MIN_LEVEL))
    return scores


def fit_correlation(scores: Tensor) -> Tensor:
    """Correlation of the errors at all lead times, (horizon, horizon), from normal scores, (windows, horizon).

    The correlation of the sample is shrunk towards that of a Markov chain, for which the correlation of two lead times
    is the product of those between neighbours. Windows overlap: n of them count as n / horizon.
    """
    n, horizon = scores.shape
    known = ~scores.isnan()
    z, count = scores.nan_to_num(0.0), known.double()
    mean = z.sum(0) / count.sum(0).clamp(min=1)
    z = (z - mean) * count
    both = count.T @ count
    cross = z.T @ z
    squares = z.square().T @ count  # sums of squares of the row's lead time where the column's is known too
    sample = cross / (squares * squares.T).sqrt().clamp(min=1e-12)
    sample = torch.where(both >= 2, sample, 0.0).clamp(-1, 1)
    neighbours = sample.diagonal(1).clamp(1e-4, MAX_CORRELATION)
    place = torch.cat([neighbours.new_zeros(1), neighbours.log().cumsum(0)])
    markov = (-(place[:, None] - place).abs()).exp()
    weight = n / (n + horizon**2)
    return nearest_correlation(weight * sample + (1 - weight) * markov)


def nearest_correlation(matrix: Tensor) -> Tensor:
    """A symmetric matrix with negative eigenvalues raised to 0, rescaled to a diagonal of 1."""
    values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
    positive = (vectors * values.clamp(min=1e-9)[..., None, :]) @ vectors.mT
    scale = positive.diagonal(dim1=-2, dim2=-1).rsqrt()
    return positive * scale[..., None, :] * scale[..., :, None]


def read_correlation(correlation: Tensor, horizon: int) -> Tensor:
    """The correlation of a model folder, checked."""
    if correlation.shape != (horizon, horizon) or not bool((correlation.abs() <= 1 + 1e-6).all()):
        raise ValueError("`correlation` must have a number from -1 to 1 for each pair of lead times.")
    return correlation.double()


def joint_samples(p: Prediction, correlation: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
    """Samples of a prediction (rows, entries), (num_samples, rows, entries); rows are independent.

    `correlation` is (entries, entries), the same for all rows, or (rows, entries, entries).
    """
    check_int("num_samples", num_samples)
    if num_samples > MAX_SAMPLES:
        raise ValueError(f"`num_samples` must be at most {MAX_SAMPLES}. Got {num_samples!r} instead.")
    values, vectors = torch.linalg.eigh(correlation)
    root = vectors * values.clamp(min=0).sqrt()[..., None, :]
    rows, entries = p.shape
    noise = torch.randn(num_samples, rows, entries, generator=generator, dtype=torch.float64)
    z = torch.einsum("sre,rfe->srf", noise, root.expand(rows, -1, -1))
    level = torch.special.ndtr(z).clamp(MIN_LEVEL, 1 - MIN_LEVEL)
    size = max(1, SAMPLE_CHUNK // max(1, len(p.mean_draws) * rows * entries))
    mean, std = p.mean_draws[:, None], p.log_std_draws.exp()[:, None]
    return torch.cat([mixture_quantile(mean, std, chunk) for chunk in level.split(size)])
