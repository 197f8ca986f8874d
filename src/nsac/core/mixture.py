r"""The equal-weight Gaussian mixture of N draws, $\frac1N\sum_n N(\mu_n, \sigma_n^2)$, components along axis 0."""

import math

import torch
from torch import Tensor


def mixture_cdf(mean: Tensor, std: Tensor, y: Tensor) -> Tensor:
    r"""$F(y) = \frac1N\sum_n \Phi((y - \mu_n)/\sigma_n)$."""
    return torch.special.ndtr((y - mean) / std).mean(0)


def mixture_log_prob(mean: Tensor, std: Tensor, y: Tensor) -> Tensor:
    r"""$\log\frac1N\sum_n N(y; \mu_n, \sigma_n^2)$."""
    z = (y - mean) / std
    log_prob = -0.5 * (z**2 + math.log(2 * math.pi)) - std.log()
    return log_prob.logsumexp(0) - math.log(len(mean))


def mixture_quantile(mean: Tensor, std: Tensor, q: Tensor) -> Tensor:
    r"""$F^{-1}(q)$ by bisection between the smallest and the largest quantile of the components.

    Args:
        mean, std: (n, ...).
        q: quantile levels in (0, 1), broadcast against one component.
    """
    if mean.dtype in (torch.bfloat16, torch.float16):  # no quantile function in half precision
        return mixture_quantile(mean.float(), std.float(), q.float()).to(mean.dtype)
    ends = mean + std * torch.special.ndtri(q)
    lower, upper = ends.amin(0), ends.amax(0)
    if len(mean) == 1:
        return lower
    for _ in range(torch.finfo(mean.dtype).bits):  # more halvings than the mantissa has bits
        middle = (lower + upper) / 2
        below = mixture_cdf(mean, std, middle) < q
        lower, upper = torch.where(below, middle, lower), torch.where(below, upper, middle)
    return (lower + upper) / 2
