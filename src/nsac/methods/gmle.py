"""Gaussian maximum likelihood."""

import torch
from torch import Tensor

from nsac.methods.base import method
from nsac.methods.gaussian import AbstractGaussian


@method("gmle")
class GaussianMLE(AbstractGaussian):
    """Gaussian maximum likelihood: mean and standard deviation per row, without perturbation; one draw."""

    has_epistemic = False

    def _perturb(self, hidden: Tensor, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        return hidden
