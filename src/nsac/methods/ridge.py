"""Ridge regression with a constant deviation per output: what a straight line can do."""

import torch
from torch import Tensor

from nsac._checks import check_known
from nsac.layers import Draws
from nsac.methods.base import AbstractSolved, Problem, Rows, method, sweep
from nsac.models.encoders import Batch, amplitude, fill_holes

PENALTIES = tuple(10.0**k for k in range(-4, 4))
"""Candidates, relative to the number of rows; the best on validation is taken."""


def flat_features(batch: Batch, problem: Problem) -> Tensor:
    """All a row has, as one vector: numbers (filled where missing, and a flag), one-hot categories, calendar."""
    x = batch["x"][:, list(problem.columns)] if problem.columns else batch["x"]
    check_known("x", x, problem.missing)
    absent = torch.isnan(x)
    x = fill_holes(x) if problem.kind == "windows" else x.masked_fill(absent, 0)
    if problem.amplitudes:
        last = x[:, -1:]
        x = torch.cat([(x - last)[:, :-1] / amplitude(x, x.new_tensor(problem.amplitudes)), last], 1)
    parts = [x.flatten(1)] + ([absent.to(x.dtype).flatten(1)] if problem.missing else [])
    for i, levels in enumerate(problem.levels):
        parts.append(torch.nn.functional.one_hot(batch["c"][:, i], levels + 1).to(x.dtype))
    if problem.calendar:
        parts.append(batch["calendar"])
    return torch.cat(parts, 1)


def flat_size(problem: Problem) -> int:
    """Length of `flat_features`."""
    numbers = (len(problem.columns) or problem.inputs) * max(1, problem.length) * (2 if problem.missing else 1)
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
        """Normal equations; the penalty that does best on validation."""
        outputs = self.problem.outputs
        whole = not any(self.target(batch).isnan().any() for batch in sweep(train))
        groups = [slice(None)] if whole else [slice(i, i + 1) for i in range(outputs)]  # each has rows of its own
        tried = torch.cat([self._candidates(train, group) for group in groups], -1)
        errors, count = torch.zeros(len(tried), outputs).double(), torch.zeros(outputs)
        for batch in sweep(validation):
            design, y = self._design(batch), self.target(batch).double()
            errors += torch.stack([(y - design @ weight).square().nansum(0) for weight in tried])
            count += (~y.isnan()).sum(0)
        best = int(errors.sum(1).argmin())
        self.weight = tried[best].to(self.weight).contiguous()  # as it will be when it is loaded: products keep bits
        self.log_std = (0.5 * (errors[best] / count.clamp(min=1)).clamp(min=1e-12).log()).to(self.log_std)

    def _candidates(self, train: Rows, outputs: slice) -> Tensor:
        """Weights of outputs that have the same rows, (penalties, features, outputs), in one sweep."""
        size, rows = len(self.weight), 0
        gram, moment = torch.zeros(size, size).double(), torch.zeros(size, self.problem.outputs).double()[:, outputs]
        for batch in sweep(train):
            design, y = self._design(batch), self.target(batch)[:, outputs].double()
            known = ~y[:, 0].isnan()
            design, y, rows = design[known], y[known], rows + int(known.sum())
            gram += design.T @ design
            moment += design.T @ y
        eye = torch.eye(size, dtype=torch.float64)
        eye[-1, -1] = 0 if rows else 1  # the intercept is free
        return torch.stack([torch.linalg.solve(gram + a * max(rows, 1) * eye, moment) for a in PENALTIES])

    def _design(self, batch: Batch) -> Tensor:
        features = flat_features(batch, self.problem).double()
        return torch.cat([features, torch.ones_like(features[:, :1])], 1)
