"""Deep ensemble."""

import torch
from torch import Tensor, nn

from nsac._checks import check_int
from nsac.layers import Draws
from nsac.methods.base import AbstractProblem, AbstractTrainable, method
from nsac.methods.gmle import GaussianMLE
from nsac.models.encoder import Batch


@method("de")
class DeepEnsemble(AbstractTrainable):
    """Networks that differ in their seed, trained independently; the variance of their means is epistemic."""

    def __init__(self, problem: AbstractProblem, seed: int = 0, members: int = 3):
        super().__init__(problem)
        check_int("members", members)
        self.members = nn.ModuleList(GaussianMLE(problem, 1000 * i + seed) for i in range(members))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One draw per member, whatever `num_samples` is; with heavy tails a few of each."""
        each = max(1, num_samples // len(self.members)) if self.problem.heavy_tails else 1
        draws = [member.draws(batch, each, generator) for member in self.members]  # pyright: ignore[reportCallIssue]
        return Draws(torch.cat([each.mean for each in draws]), torch.cat([each.log_std for each in draws]))

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Sum over members, whose parameters are separate."""
        losses = [member.loss(batch, generator) for member in self.members]  # pyright: ignore[reportCallIssue]
        self.parts = {"nll": torch.stack(losses).mean().detach()}
        return torch.stack(losses).sum()

    def learners(self) -> list[AbstractTrainable]:
        """The members, each trained with its own data order and early stopping."""
        return list(self.members)  # pyright: ignore[reportReturnType]
