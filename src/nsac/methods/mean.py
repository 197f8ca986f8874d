"""Mean and deviation of the training targets: what is known before looking at an input."""

import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.methods.base import AbstractProblem, AbstractSolved, method
from nsac.models.encoder import Batch
from nsac.training import Data, batches

BINS = 200
"""Series: bins of query time between the first and the last one asked in training."""


@method("mean")
class TrainingMean(AbstractSolved):
    """The same for every row; for series, mean and deviation of what was asked at about the same time."""

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
        """One: nothing is random."""
        bins = self._bins(batch)
        return Draws(self.mean[bins].unsqueeze(0), self.log_std[bins].unsqueeze(0))

    def solve(self, train: Data, validation: Data) -> None:
        """Moments per bin; a bin nobody asked in gets those of all."""
        if self.problem.has_query_axis:
            asked = torch.stack([torch.stack(batch["query_times"].aminmax()) for batch in batches(train)])
            self.range = torch.stack([asked[:, 0].min(), asked[:, 1].max()]).to(self.range)
        count, total, square = (torch.zeros_like(self.mean).double() for _ in range(3))
        for batch in batches(train):
            y, bins = self.target(batch).double().flatten(0, -2), self._bins(batch).flatten()
            for moment, values in (
                (count, (~y.isnan()).to(y)),
                (total, y.nan_to_num()),
                (square, y.nan_to_num().square()),
            ):
                moment.index_add_(0, bins, values)
        few = count < 2
        count, total, square = (torch.where(few, v.sum(0, keepdim=True), v) for v in (count, total, square))
        count = count.clamp(min=1)
        mean = total / count
        self.mean = mean.to(self.mean)
        self.log_std = (0.5 * (square / count - mean.square()).clamp(min=1e-12).log()).to(self.log_std)

    def _bins(self, batch: Batch) -> Tensor:
        if not self.problem.has_query_axis:
            return torch.zeros(len(batch["x"]), dtype=torch.long)
        asked = batch["query_times"].expand(len(batch["x"]), -1)
        place = (asked - self.range[0]) / (self.range[1] - self.range[0]).clamp(min=1e-12)
        return (place * BINS).long().clamp(0, BINS - 1)
