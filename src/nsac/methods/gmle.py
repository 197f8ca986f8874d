"""Gaussian maximum likelihood: mean and standard deviation per row."""

import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.layers.loss import gaussian_nll
from nsac.methods.base import AbstractProblem, AbstractTrainable, method
from nsac.models import Head, Trunk
from nsac.models.encoder import Batch


@method("gmle")
class GaussianMLE(AbstractTrainable):
    """Heteroscedastic regression on deterministic attention; all its variance is aleatoric."""

    has_epistemic = False

    def __init__(self, problem: AbstractProblem, seed: int = 0):
        super().__init__(problem)
        self.trunk = Trunk(problem.encoder(seed), problem.network, seed)
        self.head = Head(self.trunk, problem.output_dim, 2, seed + 2)

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """A single draw: the method is deterministic."""
        return self.head.normal(self.trunk(batch))

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Negative log-likelihood."""
        nll = gaussian_nll(*self.draws(batch, 1, generator), self.target(batch))
        self.parts = {"nll": nll.detach()}
        return nll
