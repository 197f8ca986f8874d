"""Baselines: mean of the training targets, persistence, seasonal naive and zero, with their training errors."""

import math
from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.methods.base import AbstractProblem, AbstractSolved, method
from nsac.methods.problem import EventsProblem
from nsac.models.channels import RECENT_WIDTHS, ChannelStatistics, channel_statistics, read_events
from nsac.models.encoder import Batch
from nsac.training import Data, batches

EVENT_ROWS = 256  # rows of events in memory at once
LEAD_BINS = 12  # bins of lead time, for events, each with its own error per channel
MIN_LEAD_ERRORS = 20  # number of errors of a channel in a bin below which all its errors count
BINS = 200  # bins of query time, for series, between the first and the last query time in training


class AbstractBaseline(AbstractSolved):
    """Predicts a given value, (B, outputs); its standard deviation is the root mean square error, on training rows.

    For events the value is that of a query, (B, Q, 1), and the error that of its channel in its bin of lead time.
    """

    kinds = ("windows",)
    min_log_std: ClassVar[float] = -math.inf  # of a prediction, for a standardised target
    log_std: Tensor
    leads: Tensor

    def __init__(self, problem: AbstractProblem, seed: int = 0):
        super().__init__(problem)
        self.register_buffer("log_std", torch.zeros(_groups(problem) * (LEAD_BINS if problem.kind == "events" else 1)))
        if problem.kind == "events":
            self.register_buffer("leads", torch.tensor([0.0, 1.0]))  # smallest and largest lead time in training

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """A single draw: the method is deterministic."""
        mean = self._value(batch).unsqueeze(0)
        return Draws(mean, self.log_error(batch).clamp(min=self.min_log_std).expand_as(mean))

    def log_error(self, batch: Batch) -> Tensor:
        """Logarithm of the root mean square error on training rows, broadcast against the targets."""
        return self.log_std[self._group(batch)]

    def solve(self, train: Data, validation: Data) -> None:
        """Root mean square error per output, or per channel and bin of lead time, over the observed targets."""
        rows = self._learn(train, validation)
        if self.problem.kind == "events":
            self.leads = _range_of_leads(rows).to(self.leads)
        total, count = torch.zeros(2, len(self.log_std), dtype=torch.float64)
        for batch in _batches(rows, self.problem):
            error = (self.target(batch) - self._value(batch)).square()
            group = self._group(batch).expand_as(error)
            known = ~error.isnan()
            total.index_add_(0, group[known], error[known].to(total))
            count += torch.bincount(group[known], minlength=len(count))
        if self.problem.kind == "events":
            total, count = total.view(-1, LEAD_BINS), count.view(-1, LEAD_BINS)
            few, every = count < MIN_LEAD_ERRORS, (total.sum(1, keepdim=True), count.sum(1, keepdim=True))
            total, count = torch.where(few, every[0], total).flatten(), torch.where(few, every[1], count).flatten()
        self.log_std = (0.5 * (total / count.clamp(min=1)).clamp(min=1e-12).log()).to(self.log_std)

    def _learn(self, train: Data, validation: Data) -> Data:
        """Learn what `_value` needs; returns the rows whose errors count."""
        return train

    def _group(self, batch: Batch) -> Tensor:
        """Output, or channel and bin of lead time, of each target, broadcast against the targets."""
        if self.problem.kind != "events":
            return torch.arange(self.problem.output_dim)
        low, high = self.leads
        bins = ((batch["query_times"] - low) / (high - low).clamp(min=1e-12) * LEAD_BINS).long()
        return (batch["query_channel"] * LEAD_BINS + bins.clamp(0, LEAD_BINS - 1)).unsqueeze(-1)

    def _value(self, batch: Batch) -> Tensor:
        if self.name not in batch:
            raise ValueError(f"Method {self.name!r} needs the key {self.name!r} in every batch. Got {sorted(batch)}.")
        return batch[self.name]


@method("persistence")
class Persistence(AbstractBaseline):
    """The last observed value, which a batch of windows has under the key `persistence`, in the unit of y."""

    kinds = ("windows", "events")

    def _value(self, batch: Batch) -> Tensor:
        if self.problem.kind != "events":
            return super()._value(batch)
        return query_statistics(batch, self.problem).last.unsqueeze(-1)


@method("extrapolation")
class Extrapolation(AbstractBaseline):
    """A straight line through the latest observations of the channel, weighted exponentially."""

    kinds = ("events",)

    def _value(self, batch: Batch) -> Tensor:
        statistics, scale = query_statistics(batch, self.problem), self.problem.time_scale  # pyright: ignore
        elapsed = batch["query_times"] / scale + statistics.age
        return (statistics.last + statistics.slope * (elapsed / RECENT_WIDTHS[0]).to(statistics.last)).unsqueeze(-1)


@method("half-mean")
class HalfMean(AbstractBaseline):
    """Half the last value of the channel, half its mean in the observed window."""

    kinds = ("events",)

    def _value(self, batch: Batch) -> Tensor:
        statistics = query_statistics(batch, self.problem)
        return (statistics.last + statistics.mean).unsqueeze(-1) / 2


@method("seasonal")
class Seasonal(AbstractBaseline):
    """The value one season earlier, which a batch has under the key `seasonal`, in the unit of y."""


@method("zero")
class Zero(AbstractBaseline):
    """Always 0 in the unit of y, for instance a steering angle of 0."""

    kinds = ("frames",)

    def _value(self, batch: Batch) -> Tensor:
        return batch["x"].new_zeros(len(batch["x"]), self.problem.output_dim)


@method("mean")
class TrainingMean(AbstractSolved):
    """The same prediction for every row; for series, in each bin of query time, for events, of each channel."""

    range: Tensor
    mean: Tensor
    log_std: Tensor

    def __init__(self, problem: AbstractProblem, seed: int = 0):
        super().__init__(problem)
        bins = _groups(problem) if problem.kind == "events" else BINS if problem.has_query_axis else 1
        self.register_buffer("range", torch.tensor([0.0, 1.0]))
        self.register_buffer("mean", torch.zeros(bins, problem.output_dim))
        self.register_buffer("log_std", torch.zeros(bins, problem.output_dim))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """A single draw: the method is deterministic."""
        bins = self._bins(batch)
        return Draws(self.mean[bins].unsqueeze(0), self.log_std[bins].unsqueeze(0))

    def solve(self, train: Data, validation: Data) -> None:
        """Moments per bin; bins with fewer than two targets get the moments over all bins."""
        if self.problem.kind == "series":
            ranges = torch.stack([torch.stack(batch["query_times"].aminmax()) for batch in batches(train)])
            self.range = torch.stack([ranges[:, 0].min(), ranges[:, 1].max()]).to(self.range)
        moments = torch.zeros(3, *self.mean.shape).double()  # number, sum and sum of squares of the targets of a bin
        for batch in _batches(train, self.problem):
            y, bins = self.target(batch).double().flatten(0, -2), self._bins(batch).flatten()
            moments.index_add_(1, bins, torch.stack([(~y.isnan()).to(y), y.nan_to_num(), y.nan_to_num().square()]))
        count, total, square = torch.where(moments[0] < 2, moments.sum(1, keepdim=True), moments)
        count = count.clamp(min=1)
        mean = total / count
        self.mean = mean.to(self.mean)
        self.log_std = (0.5 * (square / count - mean.square()).clamp(min=1e-12).log()).to(self.log_std)

    def _bins(self, batch: Batch) -> Tensor:
        if self.problem.kind == "events":
            return batch["query_channel"]
        if not self.problem.has_query_axis:
            return torch.zeros(len(batch["x"]), dtype=torch.long)
        query_times = batch["query_times"].expand(len(batch["x"]), -1)
        position = (query_times - self.range[0]) / (self.range[1] - self.range[0]).clamp(min=1e-12)
        return (position * BINS).long().clamp(0, BINS - 1)


def query_statistics(batch: Batch, problem: AbstractProblem) -> ChannelStatistics:
    """Statistics of the channel of each query, (B, Q) each; `recent` and `slope` are those of the smallest width."""
    assert isinstance(problem, EventsProblem)
    events = read_events(batch, problem.channels, problem.time_scale)
    statistics = channel_statistics(events, problem.channels)
    index = batch["query_channel"]
    return ChannelStatistics(*[(each if each.ndim == 2 else each[..., 0]).gather(1, index) for each in statistics])


def _groups(problem: AbstractProblem) -> int:
    """Number of outputs, or of channels, each with its own error."""
    return problem.channels if isinstance(problem, EventsProblem) else problem.output_dim


def _batches(train: Data, problem: AbstractProblem) -> Iterator[Batch]:
    """All rows; few at a time if each has many observations and queries."""
    return batches(train, EVENT_ROWS) if problem.kind == "events" else batches(train)


def _range_of_leads(train: Data) -> Tensor:
    """Smallest and largest query time among the observed targets."""
    ends = []
    for batch in batches(train, EVENT_ROWS):
        known = batch["query_times"][~batch["y"][..., 0].isnan()]
        if len(known):
            ends += [known.min(), known.max()]
    return torch.stack([min(ends), max(ends)]) if ends else torch.tensor([0.0, 1.0])
