r"""Heavy tails: a Gaussian whose standard deviation is itself uncertain, $\log\sigma \sim N(s, \tau^2)$.

The distribution is a mixture over equally likely values of its standard deviation, so draws with different ones
represent it. The mean does not depend on them: the variance of the means over draws stays the epistemic one.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nsac.layers.loss import fill_missing_targets, mean_over_observed

LIKELIHOOD_LEVELS = 9  # values of the standard deviation in the likelihood of one draw
MAX_TAIL = 1.5  # largest standard deviation of the logarithm of a standard deviation
MIN_LOG_STD = math.log(0.01)
"""Of a standardised target: values that are repeated exactly must not decide the likelihood."""
TAIL_OFFSET = -1.0  # the tail starts at softplus(-1) = 0.31


def tail_width(raw: Tensor) -> Tensor:
    r"""$\tau$ from the output of a network."""
    return softplus(raw + TAIL_OFFSET).clamp(max=MAX_TAIL)


def scale_levels(n: int, like: Tensor) -> Tensor:
    """Standard normal quantiles of n equally likely intervals, with mean 0 and, for n > 1, variance 1."""
    z = torch.special.ndtri((torch.arange(n, dtype=torch.float64, device=like.device) + 0.5) / n)
    return (z / z.square().mean().sqrt() if n > 1 else torch.zeros_like(z)).to(like.dtype)


def spread_scales(mean: Tensor, log_std: Tensor, tail: Tensor, num_samples: int) -> tuple[Tensor, Tensor]:
    """Draws whose standard deviations differ by the tail, (N, ...); a single draw becomes `num_samples` of them."""
    n = num_samples if len(mean) == 1 else len(mean)
    levels = scale_levels(n, mean).view(-1, *(1,) * (mean.ndim - 1))
    return mean.expand(n, *mean.shape[1:]), (log_std + tail * levels).clamp(min=MIN_LOG_STD)


def scale_offsets(mean: Tensor, log_std: Tensor) -> Tensor:
    r"""Means of the draws, (N, ...), with offsets $\delta_n \propto \sigma_n (e_n - \bar e)$ for $e_n = m_n - \bar m$.

    $\bar e$ is weighted by $\sigma_n$, so that the mean over draws stays the same, and so does their variance. An
    uncertain mean then widens narrow and wide draws by the same factor: a value that is likely to be repeated exactly,
    the density of the narrow ones, stays likely.
    """
    centre = mean.mean(0)
    offset = mean - centre
    weight = log_std.softmax(0)  # standard deviation over the sum of all
    scaled = weight * (offset - (weight * offset).sum(0))
    factor = offset.square().mean(0) / scaled.square().mean(0).clamp(min=torch.finfo(mean.dtype).tiny)
    return torch.addcmul(centre, scaled, factor.sqrt())


def tailed_nll(mean: Tensor, log_std: Tensor, tail: Tensor, y: Tensor) -> Tensor:
    r"""Mean of $-\log\frac1L\sum_l N(y; \mu, e^{2(s + \tau z_l)})$ over draws and observed targets."""
    known, y = fill_missing_targets(y, mean.mean(0))
    levels = scale_levels(LIKELIHOOD_LEVELS, mean).view(-1, *(1,) * mean.ndim)
    s = (log_std + tail * levels).clamp(min=MIN_LOG_STD)  # l n ...
    log_prob = -0.5 * (math.log(2 * math.pi) + (y - mean).square() * torch.exp(-2 * s)) - s
    return mean_over_observed(math.log(LIKELIHOOD_LEVELS) - log_prob.logsumexp(0), known)
