r"""Draws, along axis 0: their moments, and the equal-weight mixture $\frac1N\sum_n N(\mu_n, \sigma_n^2)$."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

NEWTON_STEPS = 12  # for a quantile; two to five are usual


def decompose(mean_draws: Tensor, log_std_draws: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Mean $E_n[\mu_n]$, aleatoric variance $E_n[\sigma_n^2]$, epistemic variance $\mathrm{Var}_n[\mu_n]$ over axis 0.

    The variance over draws divides by N, so that aleatoric + epistemic is the variance of the mixture of the draws.
    """
    return mean_draws.mean(0), (2 * log_std_draws).exp().mean(0), mean_draws.var(0, correction=0)


def matched_normal(draws: int, *shape: int, generator: torch.Generator | None = None, **kwargs: Any) -> Tensor:
    """Standard normal draws, (draws, *shape), with exact sample moments, so that fewer draws give the same accuracy.

    Over draws, every entry has mean 0 and variance 1, and `draws - 1` neighbours along the flattened shape are
    uncorrelated. One or two draws are returned unchanged.
    """
    plain = torch.randn(draws, *shape, generator=generator, **kwargs)
    if draws < 3:
        return plain
    flat = plain.flatten(1).to(torch.promote_types(plain.dtype, torch.float32))  # half precision has no QR
    size, width = flat.shape[1], draws - 1
    blocks = pad(flat - flat.mean(0), (0, -size % width)).unflatten(1, (-1, width)).movedim(1, 0)
    basis, triangle = torch.linalg.qr(blocks)  # an orthonormal basis of each block, but without the draws' signs
    signed = basis * triangle.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2) * draws**0.5
    return signed.movedim(0, 1).flatten(1)[:, :size].to(plain.dtype).view_as(plain)


def mixture_cdf(mean: Tensor, std: Tensor, y: Tensor) -> Tensor:
    r"""$F(y) = \frac1N\sum_n \Phi((y - \mu_n)/\sigma_n)$."""
    return torch.special.ndtr((y - mean) / std).mean(0)


def mixture_log_prob(mean: Tensor, std: Tensor, y: Tensor) -> Tensor:
    r"""$\log\frac1N\sum_n N(y; \mu_n, \sigma_n^2)$."""
    z = (y - mean) / std
    log_prob = -0.5 * (z**2 + math.log(2 * math.pi)) - std.log()
    return log_prob.logsumexp(0) - math.log(len(mean))


def mixture_quantile(mean: Tensor, std: Tensor, q: Tensor) -> Tensor:
    r"""$F^{-1}(q)$, with q in (0, 1): Newton steps on normal scores $\Phi^{-1}(F(x))$, then bisection where they fail.

    The smallest and the largest quantile of the components are bounds. An entry that has converged stays as it is,
    whatever the others need.
    """
    if mean.dtype in (torch.bfloat16, torch.float16):  # no quantile function in half precision
        return mixture_quantile(mean.float(), std.float(), q.float()).to(mean.dtype)
    z = torch.special.ndtri(q)
    ends = mean + std * z
    lower, upper = ends.amin(0), ends.amax(0)
    if len(mean) == 1:
        return lower
    x, eps = ends.mean(0), torch.finfo(mean.dtype).eps
    tolerance = eps ** (5 / 6) + 10 * eps * (z**2 / 2).exp()  # of normal scores; in the tails that of a rounded F
    done = torch.zeros_like(x, dtype=torch.bool)
    for _ in range(NEWTON_STEPS):
        scores = (x - mean) / std
        cdf, density = torch.special.ndtr(scores).mean(0), ((-0.5 * scores**2).exp() / std).mean(0)
        lower, upper = torch.where(cdf < q, x, lower), torch.where(cdf < q, upper, x)
        z_x = torch.special.ndtri(cdf)
        newton = x - (z_x - z) * (-0.5 * z_x**2).exp() / density
        inside = (lower <= newton) & (newton <= upper)
        close = (z_x - z).abs() <= tolerance
        other = torch.where(close, x, (lower + upper) / 2)
        x = torch.where(done, x, torch.where(inside, newton, other))
        done |= close
        if done.all():
            return x
    left = ~done
    mean, std = (each.expand(len(each), *x.shape)[:, left] for each in (mean, std))
    x[left] = _bisected(mean, std, q.expand_as(x)[left], lower[left], upper[left])
    return x


def _bisected(mean: Tensor, std: Tensor, q: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    for _ in range(torch.finfo(mean.dtype).bits):  # more halvings than the mantissa has bits
        middle = (lower + upper) / 2
        below = mixture_cdf(mean, std, middle) < q
        lower, upper = torch.where(below, middle, lower), torch.where(below, upper, middle)
    return (lower + upper) / 2
