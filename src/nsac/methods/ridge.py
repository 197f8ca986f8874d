"""Ridge regression with a constant deviation per output: what a straight line can do."""

import torch
from torch import Tensor

from nsac._checks import check_known
from nsac.layers import Draws
from nsac.methods.base import AbstractSolved, Problem, Rows, method, sweep
from nsac.models.encoders import Batch

PENALTIES = tuple(10.0**k for k in range(-4, 4))
"""Candidates, relative to the number of rows; the best on validation is taken."""


def flat_features(batch: Batch, problem: Problem) -> Tensor:
    """All a row has, as one vector: numbers (0 where missing, and a flag), one-hot categories, calendar."""
    x = batch["x"].flatten(1)
    check_known("x", x, problem.missing)
    absent = torch.isnan(x)
    parts = [x.masked_fill(absent, 0)] + ([absent.to(x.dtype)] if problem.missing else [])
    for i, levels in enumerate(problem.levels):
        parts.append(torch.nn.functional.one_hot(batch["c"][:, i], levels + 1).to(x.dtype))
    if problem.calendar:
        parts.append(batch["calendar"])
    return torch.cat(parts, 1)


def flat_size(problem: Problem) -> int:
    """Length of `flat_features`."""
    numbers = problem.inputs * max(1, problem.length) * (2 if problem.missing else 1)
    return numbers + sum(levels + 1 for levels in problem.levels) + problem.calendar


@method("ridge")
class Ridge(AbstractSolved):
    """Linear mean; the deviation is the root mean square error on validation."""

    has_epistemic = False
    kinds = ("table", "windows")
    weight: Tensor
    log_std: Tensor

    def __init__(self, problem: Problem, seed: int = 0):
        super().__init__(problem)
        self.register_buffer("weight", torch.zeros(flat_size(problem) + 1, problem.outputs))
        self.register_buffer("log_std", torch.zeros(problem.outputs))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One: nothing is random."""
        mean = (self._design(batch) @ self.weight.double()).to(self.weight).unsqueeze(0)
        return Draws(mean, self.log_std.expand_as(mean))

    def solve(self, train: Rows, validation: Rows) -> None:
        """Normal equations in one sweep; the penalty that does best on validation."""
        size = len(self.weight)
        gram, moment = torch.zeros(size, size).double(), torch.zeros(size, self.problem.outputs).double()
        for batch in sweep(train):
            design = self._design(batch)
            gram += design.T @ design
            moment += design.T @ self.target(batch).double()
        eye = torch.eye(size, dtype=torch.float64)
        eye[-1, -1] = 0  # the intercept is free
        tried = [torch.linalg.solve(gram + a * len(train) * eye, moment) for a in PENALTIES]
        errors = torch.zeros(len(tried), self.problem.outputs).double()
        for batch in sweep(validation):
            design, y = self._design(batch), self.target(batch).double()
            errors += torch.stack([(y - design @ weight).square().sum(0) for weight in tried])
        best = int(errors.sum(1).argmin())
        self.weight = tried[best].to(self.weight).contiguous()  # as it will be when it is loaded: products keep bits
        self.log_std = (0.5 * (errors[best] / len(validation)).clamp(min=1e-12).log()).to(self.log_std)

    def _design(self, batch: Batch) -> Tensor:
        features = flat_features(batch, self.problem).double()
        return torch.cat([features, torch.ones_like(features[:, :1])], 1)
