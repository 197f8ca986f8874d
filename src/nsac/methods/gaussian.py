"""A network with a Gaussian head, the base of Gaussian maximum likelihood and Monte Carlo dropout."""

from abc import abstractmethod

import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.methods.base import AbstractProblem, AbstractTrainable
from nsac.models import Head, Trunk
from nsac.models.encoder import Batch


class AbstractGaussian(AbstractTrainable):
    """A trunk on deterministic attention and a Gaussian head; the hidden features between them may be perturbed."""

    def __init__(self, problem: AbstractProblem, seed: int = 0):
        super().__init__(problem)
        self.trunk = Trunk(problem.encoder(seed), problem.network, seed)
        self.head = Head(self.trunk, problem.output_dim, 3 if problem.heavy_tails else 2, seed + 2)

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One draw per perturbation, which all rows share; the trunk is computed once."""
        features = self.trunk(batch)
        hidden = self._perturb(features.hidden, (num_samples, 1, 1), generator)
        return self.head.normal(features._replace(hidden=hidden), num_samples)

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Negative log-likelihood, with a perturbation per row."""
        features = self.trunk(batch)
        hidden = self._perturb(features.hidden, tuple(features.hidden.shape[:-1]), generator)
        nll = self.head.nll(features._replace(hidden=hidden), self.target(batch), self.problem.beta)
        self.parts = {"nll": nll.detach()}
        return nll

    @abstractmethod
    def _perturb(self, hidden: Tensor, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """Hidden features under independent perturbations, `shape` of them."""
