"""Template of an uncertainty method: copy it to `src/nsac/methods/`, rename it, and write its page.

Mean and variance are those of 20 training rows, weighted by their nearness in the standardised inputs.
"""

import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.methods.base import AbstractSolved, method
from nsac.methods.problem import TableProblem
from nsac.models.encoder import Batch
from nsac.training import Data, batches

NEIGHBOURS = 20  # training rows that are kept
MIN_VARIANCE = 1e-6  # of a standardised target


@method("neighbours")  # the name in METHODS, on the command line and in tables
class Neighbours(AbstractSolved):
    """Weighted mean and variance of training rows. `AbstractTrainable` is the base of methods with a loss."""

    kinds = ("table",)  # the kinds of data it supports; the contract suite tests all of them
    problem: TableProblem
    inputs: Tensor
    targets: Tensor

    def __init__(self, problem: TableProblem, seed: int = 0):
        super().__init__(problem)
        # Parameters and buffers are the whole state, so their sizes must follow from the problem.
        self.register_buffer("inputs", torch.zeros(NEIGHBOURS, problem.flat_dim))
        self.register_buffer("targets", torch.zeros(NEIGHBOURS, problem.output_dim))

    def solve(self, train: Data, validation: Data) -> None:
        """Keep some rows, evenly spaced."""
        rows = [(self.problem.flatten(batch), self.target(batch)) for batch in batches(train)]
        inputs, targets = (torch.cat(column) for column in zip(*rows, strict=True))
        kept = torch.linspace(0, len(inputs) - 1, NEIGHBOURS).round().long()
        self.inputs, self.targets = inputs[kept], targets[kept]

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One draw, since the method has no randomness: (1, rows, outputs)."""
        weights = torch.softmax(-torch.cdist(self.problem.flatten(batch), self.inputs), -1)
        mean = weights @ self.targets
        variance = weights @ self.targets.square() - mean.square()
        return Draws(mean[None], variance.clamp(min=MIN_VARIANCE).log()[None] / 2)
