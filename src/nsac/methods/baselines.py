"""Baselines: persistence, seasonal naive and zero, with the standard deviation of their training errors."""

from abc import abstractmethod

import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.methods.base import AbstractProblem, AbstractSolved, method
from nsac.models.encoder import Batch
from nsac.training import Data, batches


class _AbstractBaseline(AbstractSolved):
    """Predicts a given value, (B, outputs); its standard deviation is the root mean square error on training rows."""

    has_epistemic = False
    kinds = ("windows",)
    log_std: Tensor

    def __init__(self, problem: AbstractProblem, seed: int = 0):
        super().__init__(problem)
        self.register_buffer("log_std", torch.zeros(problem.output_dim))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """A single draw: the method is deterministic."""
        mean = self._value(batch).unsqueeze(0)
        return Draws(mean, self.log_std.expand_as(mean))

    def solve(self, train: Data, validation: Data) -> None:
        """Root mean square error per output, over the observed targets."""
        errors = [(self.target(batch) - self._value(batch)).square() for batch in batches(train)]
        total = torch.stack([error.nansum(0) for error in errors]).sum(0)
        count = torch.stack([(~error.isnan()).sum(0) for error in errors]).sum(0)
        self.log_std = 0.5 * (total / count.clamp(min=1)).clamp(min=1e-12).log()

    @abstractmethod
    def _value(self, batch: Batch) -> Tensor:
        """The prediction, (B, outputs)."""


@method("persistence")
class Persistence(_AbstractBaseline):
    """The last observed value, which a batch has under the key `persistence`, in the unit of y."""

    def _value(self, batch: Batch) -> Tensor:
        return _from_batch(batch, "persistence")


@method("seasonal")
class Seasonal(_AbstractBaseline):
    """The value one season earlier, which a batch has under the key `seasonal`, in the unit of y."""

    def _value(self, batch: Batch) -> Tensor:
        return _from_batch(batch, "seasonal")


@method("zero")
class Zero(_AbstractBaseline):
    """Always 0 in the unit of y, for instance a steering angle of 0."""

    kinds = ("frames",)

    def _value(self, batch: Batch) -> Tensor:
        return batch["x"].new_zeros(len(batch["x"]), self.problem.output_dim)


def _from_batch(batch: Batch, name: str) -> Tensor:
    if name not in batch:
        raise ValueError(f"Method {name!r} needs the key {name!r} in every batch. Got {sorted(batch)}.")
    return batch[name]
