"""Moments over draws: aleatoric and epistemic variance, and normal draws with exact sample moments."""

from typing import Any

import torch
from torch import Tensor


def decompose(mean_draws: Tensor, log_std_draws: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Mean $E_n[\mu_n]$, aleatoric variance $E_n[\sigma_n^2]$, epistemic variance $\mathrm{Var}_n[\mu_n]$ over axis 0.

    The variance over draws divides by N, so that aleatoric + epistemic is the variance of the mixture of the draws.
    """
    epistemic = mean_draws.var(0, correction=0)
    return mean_draws.mean(0), (2 * log_std_draws).exp().mean(0), epistemic


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
    blocks = torch.nn.functional.pad(flat - flat.mean(0), (0, -size % width)).unflatten(1, (-1, width)).movedim(1, 0)
    basis, triangle = torch.linalg.qr(
        blocks
    )  # an orthonormal basis of each block; the signs of the draws are restored below
    signed = basis * triangle.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2) * draws**0.5
    return signed.movedim(0, 1).flatten(1)[:, :size].to(plain.dtype).view_as(plain)
