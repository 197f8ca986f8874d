"""Boosted trees of each channel of irregular series: they read statistics of the channels, and never extrapolate."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nsac.layers.tails import MIN_LOG_STD
from nsac.methods.base import method
from nsac.methods.baselines import EVENT_ROWS, AbstractBaseline
from nsac.methods.problem import EventsProblem
from nsac.methods.trees import NODE, evaluate_trees, store_trees
from nsac.models.channels import FEATURES, channel_statistics, compress, expand, fill_unknown, read_events
from nsac.models.encoder import Batch
from nsac.training import Data, Subset, batches

LEARNING_RATE, MAX_ROUNDS, LEAVES, L2, FEATURE_SHARE = 0.06, 150, 31, 1.0, 0.5  # of the trees
MIN_LEAF_SHARE, MIN_LEAF = 1 / 400, 5  # least number of targets in a leaf
MAX_TARGETS, MIN_TARGETS = 30_000, 50  # observed targets of a channel that its trees are grown on: at most, at least
MAX_VALIDATION_TARGETS = 2000  # observed targets of a channel that choose the number of rounds, at most
MAX_NUMBERS = 100_000_000  # inputs of all targets in memory; with more, every so many rows are read
STORED = {name: torch.float32 if dtype.is_floating_point else torch.int16 for name, dtype in NODE.items()}
"""Types of the buffers: a forecaster has trees for each member and target."""
MAX_THRESHOLD = torch.finfo(torch.float32).max  # of a leaf, whose children are itself


class Targets(NamedTuple):
    """Observed targets of some rows."""

    x: np.ndarray  # (n, inputs), see `EventTrees.features`
    y: np.ndarray  # (n,), change from the last value
    channel: np.ndarray  # (n,)


@method("trees")
class EventTrees(AbstractBaseline):
    """Boosted trees of each channel, whose target is the change from the last value.

    Inputs are statistics of the channel, the lead time, the age of the last value, the last values and counts of all
    channels, attributes and covariates known in advance. The number of rounds is the best one on validation rows, and
    the standard deviation of a channel at a lead time is the root mean square error there. A channel with few targets
    has its last value.

    scikit-learn grows the trees. They are stored as tensors, so that a saved method contains nothing executable.
    """

    kinds = ("events",)
    min_log_std = MIN_LOG_STD  # a channel may be constant in the validation rows
    problem: EventsProblem
    value: Tensor
    start: Tensor
    grown: Tensor
    depth: Tensor

    def __init__(self, problem: EventsProblem, seed: int = 0):
        super().__init__(problem)
        self.seed, self.targets = seed, problem.targets or tuple(range(problem.channels))
        shape = len(self.targets), MAX_ROUNDS, 2 * LEAVES - 1
        for name, dtype in STORED.items():
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))
        self.register_buffer("start", torch.zeros(len(self.targets)))  # prediction before the first tree
        self.register_buffer("grown", torch.zeros(len(self.targets), dtype=torch.bool))  # whether a target has trees
        self.register_buffer("depth", torch.zeros((), dtype=torch.int64))

    def features(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Inputs of the trees, (B, Q, inputs), and the last value of each query's channel, (B, Q), both float32."""
        problem = self.problem
        events = read_events(batch, problem.channels, problem.time_scale)
        statistics = channel_statistics(events._replace(x=compress(events.x)), problem.channels)
        index, lead = batch["query_channel"], (batch["query_times"] / problem.time_scale).to(batch["x"])
        own = statistics.features().gather(1, index.unsqueeze(-1).expand(-1, -1, FEATURES))
        times = torch.stack([lead, lead + statistics.age.gather(1, index)], -1)
        row = [statistics.last, statistics.count.log1p()]
        if problem.static_dim:
            row.append(fill_unknown("static", batch["static"]))
        columns = [own, times, torch.cat(row, -1).unsqueeze(1).expand(-1, lead.shape[1], -1)]
        if problem.future_dim:
            columns.append(fill_unknown("future", batch["future"]))
        return torch.cat(columns, -1).float(), expand(statistics.last).gather(1, index).float()

    def check_nodes(self) -> None:
        """Raise a ValueError unless every stored node has an input and children that exist."""
        inputs, nodes = self._input_dim(), self.value.shape[-1]
        for name, limit in {"feature": inputs, "left": nodes, "right": nodes}.items():
            low, high = getattr(self, name).aminmax()
            if low < 0 or high >= limit:
                raise ValueError(f"The trees must have `{name}` from 0 to {limit - 1}. Got {int(low)} to {int(high)}.")

    def _input_dim(self) -> int:
        problem = self.problem
        return FEATURES + 2 + 2 * (problem.channels + problem.static_dim + problem.future_dim)

    def _learn(self, train: Data, validation: Data) -> Data:
        """Grow the trees; their errors are those on the validation rows."""
        self._grow(self._targets(train), self._targets(validation))
        return validation

    def _value(self, batch: Batch) -> Tensor:
        """Mean of the trees, (B, Q, 1)."""
        x, last = self.features(batch)
        mean, depth = last.clone(), min(int(self.depth), self.value.shape[-1])  # a stored depth may be any number
        for i, channel in enumerate(self.targets):
            chosen = batch["query_channel"] == channel
            if self.grown[i] and chosen.any():
                fields = {name: getattr(self, name)[i].to(dtype) for name, dtype in NODE.items()}
                mean[chosen] += (self.start[i] + evaluate_trees(x[chosen], fields, depth).sum(0)).to(mean)
        return mean.to(batch["x"]).unsqueeze(-1)

    def _targets(self, data: Data) -> Targets:
        first = data.batch(torch.arange(min(len(data), EVENT_ROWS)))
        numbers = self._input_dim() * len(data) * float((~first["y"].isnan()).sum()) / len(first["y"])
        rows = np.arange(0, len(data), max(1, math.ceil(numbers / MAX_NUMBERS)))
        found = []
        for batch in batches(Subset(data, rows), EVENT_ROWS):
            y = self.target(batch).squeeze(-1).float()
            known, (x, last) = ~y.isnan(), self.features(batch)
            columns = x[known], (y - last)[known], batch["query_channel"][known]
            found.append([column.numpy() for column in columns])
        return Targets(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _grow(self, train: Targets, validation: Targets) -> None:
        random = np.random.default_rng(self.seed)
        models: dict[int, Any] = {}
        squared = np.zeros(MAX_ROUNDS)  # errors after each round, of all channels
        for i, channel in enumerate(self.targets):
            rows = _some(np.flatnonzero(train.channel == channel), MAX_TARGETS, random)
            if len(rows) < MIN_TARGETS:
                continue
            models[i] = _boost(train.x[rows], train.y[rows], self.seed)
            rows = _some(np.flatnonzero(validation.channel == channel), MAX_VALIDATION_TARGETS, random)
            if len(rows):
                staged = np.stack(list(models[i].staged_predict(validation.x[rows])))
                squared += np.square(staged - validation.y[rows]).sum(1)
        rounds = int(squared.argmin()) + 1 if squared.any() else MAX_ROUNDS
        for i, model in models.items():
            self.grown[i], self.start[i] = True, float(np.ravel(model._baseline_prediction)[0])
            fields, depth = store_trees(model, rounds, self.value.shape[-1])
            for name, values in fields.items():
                getattr(self, name)[i, :rounds] = values.clamp(max=MAX_THRESHOLD).to(STORED[name])
            self.depth = self.depth.clamp(min=depth)


def _some(rows: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    return rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))


def _boost(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        learning_rate=LEARNING_RATE, max_iter=MAX_ROUNDS, max_leaf_nodes=LEAVES, l2_regularization=L2,
        min_samples_leaf=max(MIN_LEAF, int(MIN_LEAF_SHARE * len(y))), max_features=FEATURE_SHARE, random_state=seed,
        early_stopping=False,  # pyright: ignore[reportArgumentType]
    ).fit(x, y)  # fmt: skip
