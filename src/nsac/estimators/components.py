"""The models of a regressor besides its ensemble, and how all of them become one distribution."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from nsac.estimators.base import Splits
from nsac.estimators.boosting import Trees
from nsac.estimators.kernel import Kernel
from nsac.estimators.ranges import Ranges
from nsac.estimators.stack import Parts, Stack
from nsac.methods import TableProblem
from nsac.models.encoder import Batch
from nsac.uncertainty import Prediction

NUM_MODELS, NUM_SOURCES = 3, 2  # ensemble, kernel, trees; epistemic variance of the ensemble and of the kernel
TREES = 2  # place of the trees among the models
MAX_ONE_HOT = 64  # categories of a column, the last of which is all rarer ones, that kernel and trees tell apart


class Moments(NamedTuple):
    """Prediction of the ensemble: averages over its members."""

    mean: Tensor  # (n, outputs)
    aleatoric: Tensor  # (n, outputs)
    epistemic: Tensor  # (n, outputs), variance over the draws of a member

    @classmethod
    def of(cls, draws: Prediction, members: int) -> "Moments":
        """From the draws of all members, one member after the other."""
        spread = draws.mean_draws.unflatten(0, (members, -1)).var(1, correction=0).mean(0)
        return cls(draws.mean, draws.aleatoric, spread)


@dataclass(frozen=True)
class Components:
    """A Gaussian process and boosted trees beside the ensemble, the stack of all three, and the training ranges."""

    kernel: Kernel
    trees: Trees
    ranges: Ranges
    stack: Stack

    def predict(
        self, problem: TableProblem, columns: Batch, ensemble: Moments, num_samples: int, max_epistemic: Tensor | None
    ) -> Prediction:
        """The stacked distribution of standardised rows, with `num_samples` draws."""
        design = flatten(problem, columns)
        kernel, variance = self.kernel.predict(design)
        trees = torch.zeros_like(kernel)
        if self.stack.weights[TREES].any():  # a mean without weight is used nowhere
            trees = self.trees.predict(design)
        parts = join_parts(ensemble, kernel, variance, trees)
        return self.stack.predict(parts, num_samples, self.ranges.variance(columns["x"]), max_epistemic)

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        return {
            f"{name}.{key}": tensor
            for name in ("kernel", "trees", "ranges", "stack")
            for key, tensor in getattr(self, name).to_tensors().items()
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], problem: TableProblem) -> "Components":
        """Inverse of `to_tensors`."""
        groups: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            head, _, rest = name.partition(".")
            groups.setdefault(head, {})[rest] = tensor
        sizes = _with_few_categories(problem).flat_dim, problem.output_dim
        return cls(
            Kernel.from_tensors(groups["kernel"], *sizes),
            Trees.from_tensors(groups["trees"], *sizes),
            Ranges.from_tensors(groups["ranges"], problem.input_dim),
            Stack.from_tensors(groups["stack"], NUM_MODELS, NUM_SOURCES, problem.output_dim),
        )


@dataclass(frozen=True)
class LeftOutModels:
    """Kernel, trees and ranges, and their predictions of left-out rows; what is missing is the ensemble."""

    kernel: Kernel
    trees: Trees
    ranges: Ranges
    means: Tensor  # (2, n, outputs), NaN for rows that no split leaves out
    variance: Tensor  # (n,), of the kernel

    @classmethod
    def fit(
        cls, problem: TableProblem, columns: Batch, y: Tensor, splits: Splits, weight: Tensor | None, seed: int
    ) -> "LeftOutModels":
        """From standardised rows; the trees have one model per split, the process leaves the same rows out."""
        design, targets = flatten(problem, columns), y.double()
        generator = torch.Generator().manual_seed(seed)
        kernel, left_out = Kernel.fit(design, targets, design_groups(problem), weight, generator)
        weights = None if weight is None else weight.numpy()
        trees, boosted = Trees.fit(design.numpy(), targets.numpy(), splits, weights, seed)
        mean, variance = torch.full_like(targets, torch.nan), torch.full_like(targets[:, 0], torch.nan)
        for _, rows in splits:
            mean[rows], variance[rows] = left_out.predict(rows)
        ranges = Ranges.fit(columns["x"], left_out, targets)
        return cls(kernel, trees, ranges, torch.stack([mean, torch.from_numpy(boosted)]), variance)

    def noise(self, y: Tensor, rows: Tensor) -> float:
        """Squared error of the better of the two models on left-out rows: an upper bound of the noise."""
        return float((self.means[:, rows] - y[rows].double()).square().mean((1, 2)).min())

    def parts(self, ensemble: Moments, rows: Tensor) -> Parts:
        """Predictions of left-out rows; `ensemble` are those of the members that were not trained on them."""
        return join_parts(ensemble, self.means[0, rows], self.variance[rows], self.means[1, rows])

    def stacked(self, stack: Stack) -> Components:
        """With the stack, all that predicts."""
        return Components(self.kernel, self.trees, self.ranges, stack)


def join_parts(ensemble: Moments, kernel: Tensor, variance: Tensor, trees: Tensor) -> Parts:
    """The three models in the order of the stack."""
    spread = torch.stack([ensemble.epistemic, variance[:, None].expand_as(kernel)], -1)
    return Parts(torch.stack([ensemble.mean, kernel, trees]), ensemble.aleatoric, spread)


def flatten(problem: TableProblem, columns: Batch) -> Tensor:
    """Rows as vectors, in double precision: numbers, with 0 and a flag where one is missing, and one-hot categories.

    Codes of categories descend in frequency; those from `MAX_ONE_HOT` on share one entry.
    """
    if problem.categories:
        columns = columns | {"c": columns["c"].clamp(max=MAX_ONE_HOT)}
    return _with_few_categories(problem).flatten(columns).double()


def design_groups(problem: TableProblem) -> list[int]:
    """Number of the length scale of each entry of `flatten`: one per number or flag, one per category column."""
    few = _with_few_categories(problem)
    numbers = few.flat_dim - sum(size + 1 for size in few.categories)
    groups = list(range(numbers))
    for i, size in enumerate(few.categories):
        groups += [numbers + i] * (size + 1)
    return groups


def _with_few_categories(problem: TableProblem) -> TableProblem:
    return replace(problem, categories=tuple(min(size, MAX_ONE_HOT) for size in problem.categories))
