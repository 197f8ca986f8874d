"""Gaussian networks: maximum likelihood, Monte Carlo dropout, and a deep ensemble."""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from nsac._checks import check_int
from nsac.layers import Draws
from nsac.layers.loss import gaussian_nll
from nsac.methods.base import AbstractProblem, AbstractTrainable, method
from nsac.models import Head, Trunk
from nsac.models.encoder import Batch


class _AbstractGaussian(AbstractTrainable):
    """A trunk on deterministic attention and a Gaussian head; the hidden features between them may be perturbed."""

    def __init__(self, problem: AbstractProblem, seed: int = 0):
        super().__init__(problem)
        self.trunk = Trunk(problem.encoder(seed), problem.network, seed)
        self.head = Head(self.trunk, problem.output_dim, 2, seed + 2)

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One draw per perturbation, which all rows share; the trunk is computed once."""
        features = self.trunk(batch)
        hidden = self._perturb(features.hidden, (num_samples, 1, 1), generator)
        return self.head.normal(features._replace(hidden=hidden))

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Negative log-likelihood, with a perturbation per row."""
        features = self.trunk(batch)
        hidden = self._perturb(features.hidden, tuple(features.hidden.shape[:-1]), generator)
        nll = gaussian_nll(*self.head.normal(features._replace(hidden=hidden)), self.target(batch))
        self.parts = {"nll": nll.detach()}
        return nll

    @abstractmethod
    def _perturb(self, hidden: Tensor, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """Hidden features under independent perturbations, `shape` of them."""


@method("gmle")
class GaussianMLE(_AbstractGaussian):
    """Gaussian maximum likelihood: mean and standard deviation per row, without perturbation; one draw."""

    has_epistemic = False

    def _perturb(self, hidden: Tensor, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        return hidden


@method("mcd")
class MCDropout(_AbstractGaussian):
    """Monte Carlo dropout before the head, also in prediction; draws differ in their dropout mask."""

    def __init__(self, problem: AbstractProblem, seed: int = 0, rate: float = 0.1):
        if not 0 < rate < 1:
            raise ValueError(f"`rate` must be strictly between 0 and 1. Got {rate} instead. A common value is 0.1.")
        super().__init__(problem, seed)
        self.rate = rate

    def _perturb(self, hidden: Tensor, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        kept = torch.rand((*shape, hidden.shape[-1]), generator=generator, device=hidden.device) >= self.rate
        return hidden * kept / (1 - self.rate)


@method("de")
class DeepEnsemble(AbstractTrainable):
    """Networks that differ in their seed, trained independently; the variance of their means is epistemic."""

    def __init__(self, problem: AbstractProblem, seed: int = 0, members: int = 3):
        super().__init__(problem)
        check_int("members", members)
        self.members = nn.ModuleList(GaussianMLE(problem, 1000 * i + seed) for i in range(members))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One draw per member, whatever `num_samples` is."""
        draws = [member.draws(batch, 1, generator) for member in self.members]  # pyright: ignore[reportCallIssue]
        return Draws(torch.cat([each.mean for each in draws]), torch.cat([each.log_std for each in draws]))

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Sum over members, whose parameters are separate."""
        losses = [member.loss(batch, generator) for member in self.members]  # pyright: ignore[reportCallIssue]
        self.parts = {"nll": torch.stack(losses).mean().detach()}
        return torch.stack(losses).sum()

    def learners(self) -> list[AbstractTrainable]:
        """The members, each trained with its own data order and early stopping."""
        return list(self.members)  # pyright: ignore[reportReturnType]
