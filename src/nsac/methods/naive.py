"""Naive predictions with the errors they made in training: the last value, the value one season ago, nothing."""

import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.methods.base import AbstractProblem, AbstractSolved, method
from nsac.models.encoder import Batch
from nsac.training import Data, batches


class _Repeat(AbstractSolved):
    """Repeats a key of the batch, (B, outputs); its deviation is the root mean square error in training."""

    has_epistemic = False
    kinds = ("windows",)
    log_std: Tensor

    def __init__(self, problem: AbstractProblem, seed: int = 0):
        super().__init__(problem)
        self.register_buffer("log_std", torch.zeros(problem.output_dim))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One: nothing is random."""
        mean = self._value(batch).unsqueeze(0)
        return Draws(mean, self.log_std.expand_as(mean))

    def solve(self, train: Data, validation: Data) -> None:
        """Root mean square error per output, over the targets that are known."""
        errors = [(self.target(batch) - self._value(batch)).square() for batch in batches(train)]
        total = torch.stack([error.nansum(0) for error in errors]).sum(0)
        count = torch.stack([(~error.isnan()).sum(0) for error in errors]).sum(0)
        self.log_std = 0.5 * (total / count.clamp(min=1)).clamp(min=1e-12).log()

    def _value(self, batch: Batch) -> Tensor:
        if self.name not in batch:
            raise ValueError(f"Method {self.name!r} needs the key {self.name!r} in every batch. Got {sorted(batch)}.")
        return batch[self.name]


@method("persistence")
class Persistence(_Repeat):
    """The last observed value; the data says it in the key `persistence`, in the unit of y."""


@method("seasonal")
class Seasonal(_Repeat):
    """The value one season before; the data says it in the key `seasonal`, in the unit of y."""


@method("zero")
class Zero(_Repeat):
    """Nothing happens: 0 in the unit of y, which is what a wheel mostly does."""

    kinds = ("frames",)

    def _value(self, batch: Batch) -> Tensor:
        return batch["x"].new_zeros(len(batch["x"]), self.problem.output_dim)
