"""Quantiles by gradient boosted trees on flattened rows."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.methods.base import AbstractSolved, method
from nsac.methods.problem import TableProblem, WindowProblem
from nsac.methods.trees import NODE, evaluate_trees, store_trees
from nsac.models.encoder import Batch
from nsac.training import Data, batches

QUANTILES = (0.1, 0.5, 0.9)
"""Lower, middle and upper quantile level; the distance of the outer two gives the standard deviation."""
QUANTILE_DISTANCE = 2 * 1.2815515655446004  # distance between the 10 % and the 90 % quantile of a standard Gaussian
MIN_STD = 0.01  # smallest standard deviation, for a standardised target: two predicted quantiles may coincide


@method("gbm")
class QuantileBoosting(AbstractSolved):
    """A Gaussian with the boosted median as mean, and a standard deviation from the outer boosted quantiles.

    scikit-learn grows the trees. They are stored as tensors, so that a saved method contains nothing executable.
    """

    kinds = ("table", "windows")
    problem: TableProblem | WindowProblem
    value: Tensor
    start: Tensor
    depth: Tensor

    def __init__(self, problem: TableProblem | WindowProblem, seed: int = 0, rounds: int = 200, leaves: int = 15):
        super().__init__(problem)
        self.seed, self.rounds, self.leaves = seed, rounds, leaves
        shape = (len(QUANTILES), problem.output_dim, rounds, 2 * leaves - 1)
        for name, dtype in NODE.items():
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))
        self.register_buffer("start", torch.zeros(shape[:2], dtype=torch.float64))
        self.register_buffer("depth", torch.zeros((), dtype=torch.int64))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """A single draw: the method is deterministic."""
        low, middle, high = self._quantiles(self.problem.flatten(batch).double())
        std = ((high - low) / QUANTILE_DISTANCE).clamp(min=MIN_STD)
        return Draws(middle.to(batch["x"]).unsqueeze(0), std.log().to(batch["x"]).unsqueeze(0))

    def solve(self, train: Data, validation: Data) -> None:
        """Boost every quantile of every output."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        rows = list(batches(train))
        x = torch.cat([self.problem.flatten(batch) for batch in rows]).double().numpy()
        y = torch.cat([self.target(batch) for batch in rows]).double().numpy()
        for i, quantile in enumerate(QUANTILES):
            for j in range(self.problem.output_dim):
                known = ~np.isnan(y[:, j])
                if not known.any():  # never observed: the quantiles of a standardised target
                    self.start[i, j] = (i - 1) * QUANTILE_DISTANCE / 2
                    continue
                model = HistGradientBoostingRegressor(
                    loss="quantile", quantile=quantile, max_iter=self.rounds, max_leaf_nodes=self.leaves,
                    learning_rate=0.05, early_stopping=False, random_state=self.seed,  # pyright: ignore
                ).fit(x[known], y[known, j])  # fmt: skip
                self._store(i, j, model)

    def _store(self, i: int, j: int, model: Any) -> None:
        """Copy the trees of quantile i and output j into the buffers."""
        self.start[i, j] = float(np.ravel(model._baseline_prediction)[0])
        fields, depth = store_trees(model, *self.value.shape[2:])
        for name, value in fields.items():
            getattr(self, name)[i, j] = value
        self.depth = self.depth.clamp(min=depth)

    def _quantiles(self, x: Tensor) -> Tensor:
        """Sum of the trees, (quantiles, rows, outputs)."""
        fields = {name: getattr(self, name).flatten(0, 2) for name in NODE}
        depth = min(int(self.depth), self.value.shape[-1])  # a stored depth may be any number
        trees = evaluate_trees(x, fields, depth).unflatten(0, self.value.shape[:3]).sum(2)
        return (trees + self.start[..., None]).mT
