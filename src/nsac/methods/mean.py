"""Mean and standard deviation of the training targets: the baseline that does not depend on the input."""

import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.methods.base import AbstractProblem, AbstractSolved, method
from nsac.models.encoder import Batch
from nsac.training import Data, batches

BINS = 200
"""Bins of query time, for series, between the first and the last query time in training."""


@method("mean")
class TrainingMean(AbstractSolved):
    """The same prediction for every row; for series, mean and standard deviation in each bin of query time."""

    has_epistemic = False
    range: Tensor
    mean: Tensor
    log_std: Tensor

    def __init__(self, problem: AbstractProblem, seed: int = 0):
        super().__init__(problem)
        bins = BINS if problem.has_query_axis else 1
        self.register_buffer("range", torch.tensor([0.0, 1.0]))
        self.register_buffer("mean", torch.zeros(bins, problem.output_dim))
        self.register_buffer("log_std", torch.zeros(bins, problem.output_dim))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """A single draw: the method is deterministic."""
        bins = self._bins(batch)
        return Draws(self.mean[bins].unsqueeze(0), self.log_std[bins].unsqueeze(0))

    def solve(self, train: Data, validation: Data) -> None:
        """Moments per bin; bins with fewer than two targets get the moments over all bins."""
        if self.problem.has_query_axis:
            ranges = torch.stack([torch.stack(batch["query_times"].aminmax()) for batch in batches(train)])
            self.range = torch.stack([ranges[:, 0].min(), ranges[:, 1].max()]).to(self.range)
        count = torch.zeros_like(self.mean).double()
        total = torch.zeros_like(count)
        square = torch.zeros_like(count)
        for batch in batches(train):
            y, bins = self.target(batch).double().flatten(0, -2), self._bins(batch).flatten()
            count.index_add_(0, bins, (~y.isnan()).to(y))
            total.index_add_(0, bins, y.nan_to_num())
            square.index_add_(0, bins, y.nan_to_num().square())
        few = count < 2
        count = torch.where(few, count.sum(0, keepdim=True), count).clamp(min=1)
        total = torch.where(few, total.sum(0, keepdim=True), total)
        square = torch.where(few, square.sum(0, keepdim=True), square)
        mean = total / count
        self.mean = mean.to(self.mean)
        self.log_std = (0.5 * (square / count - mean.square()).clamp(min=1e-12).log()).to(self.log_std)

    def _bins(self, batch: Batch) -> Tensor:
        if not self.problem.has_query_axis:
            return torch.zeros(len(batch["x"]), dtype=torch.long)
        query_times = batch["query_times"].expand(len(batch["x"]), -1)
        position = (query_times - self.range[0]) / (self.range[1] - self.range[0]).clamp(min=1e-12)
        return (position * BINS).long().clamp(0, BINS - 1)
