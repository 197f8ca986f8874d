"""Ridge regression on flattened rows."""

import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.methods.base import AbstractSolved, method
from nsac.methods.problem import TableProblem, WindowProblem
from nsac.models.encoder import Batch
from nsac.training import Data, batches

PENALTIES = tuple(10.0**k for k in range(-4, 4))
"""Candidate penalties per training row; the one with the smallest validation error is used."""


@method("ridge")
class Ridge(AbstractSolved):
    """Linear mean; the standard deviation is the root mean square error on validation rows."""

    kinds = ("table", "windows")
    problem: TableProblem | WindowProblem
    weight: Tensor
    log_std: Tensor

    def __init__(self, problem: TableProblem | WindowProblem, seed: int = 0):
        super().__init__(problem)
        self.register_buffer("weight", torch.zeros(problem.flat_dim + 1, problem.output_dim))
        self.register_buffer("log_std", torch.zeros(problem.output_dim))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """A single draw: the method is deterministic."""
        mean = (self._design(batch) @ self.weight.double()).to(self.weight).unsqueeze(0)
        return Draws(mean, self.log_std.expand_as(mean))

    def solve(self, train: Data, validation: Data) -> None:
        """Normal equations, and the penalty with the smallest validation error."""
        outputs = self.problem.output_dim
        complete = not any(self.target(batch).isnan().any() for batch in batches(train))
        groups = [slice(None)] if complete else [slice(i, i + 1) for i in range(outputs)]  # of outputs with equal rows
        candidates = torch.cat([self._candidates(train, group) for group in groups], -1)
        errors, count = torch.zeros(len(candidates), outputs).double(), torch.zeros(outputs)
        for batch in batches(validation):
            design, y = self._design(batch), self.target(batch).double()
            errors += torch.stack([(y - design @ weight).square().nansum(0) for weight in candidates])
            count += (~y.isnan()).sum(0)
        best = int(errors.sum(1).argmin())
        self.weight = candidates[best].to(self.weight).contiguous()  # as after loading: products agree to the bit
        self.log_std = (0.5 * (errors[best] / count.clamp(min=1)).clamp(min=1e-12).log()).to(self.log_std)

    def _candidates(self, train: Data, outputs: slice) -> Tensor:
        """Weights of outputs that have the same rows, (penalties, features, outputs), in one pass over the data."""
        size, rows = len(self.weight), 0
        gram, moment = torch.zeros(size, size).double(), torch.zeros(size, self.problem.output_dim).double()[:, outputs]
        for batch in batches(train):
            design, y = self._design(batch), self.target(batch)[:, outputs].double()
            known = ~y[:, 0].isnan()
            design, y, rows = design[known], y[known], rows + int(known.sum())
            gram += design.T @ design
            moment += design.T @ y
        eye = torch.eye(size, dtype=torch.float64)
        eye[-1, -1] = 0 if rows else 1  # no penalty on the intercept
        return torch.stack([torch.linalg.solve(gram + a * max(rows, 1) * eye, moment) for a in PENALTIES])

    def _design(self, batch: Batch) -> Tensor:
        features = self.problem.flatten(batch).double()
        return torch.cat([features, torch.ones_like(features[:, :1])], 1)
