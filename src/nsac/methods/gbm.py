"""Gradient boosting of quantiles: what trees can do."""

import numpy as np
import torch
from torch import Tensor

from nsac.layers import Draws
from nsac.methods.base import AbstractSolved, method
from nsac.methods.problem import TableProblem, WindowProblem
from nsac.models.encoder import Batch
from nsac.training import Data, batches

QUANTILES = (0.1, 0.5, 0.9)
"""Lower, middle and upper; the deviation is read off their distance."""

DEVIATIONS = 2 * 1.2815515655446004
"""Standard deviations between the 10 % and the 90 % quantile of a Gaussian."""

NARROWEST = 0.01
"""Smallest deviation, of a standardised target: two quantiles may meet, and a density needs some width."""


@method("gbm")
class QuantileBoosting(AbstractSolved):
    """A Gaussian around the boosted median, as wide as the boosted quantiles say.

    scikit-learn grows the trees; they are then kept as tensors, so that a saved method holds nothing executable.
    """

    has_epistemic = False
    kinds = ("table", "windows")
    problem: TableProblem | WindowProblem
    feature: Tensor
    left: Tensor
    right: Tensor
    threshold: Tensor
    value: Tensor
    start: Tensor
    depth: Tensor

    def __init__(self, problem: TableProblem | WindowProblem, seed: int = 0, rounds: int = 200, leaves: int = 15):
        super().__init__(problem)
        self.seed, self.rounds, self.nodes, self.leaves = seed, rounds, 2 * leaves - 1, leaves
        shape = (len(QUANTILES), problem.output_dim, rounds, self.nodes)
        for name in ("feature", "left", "right"):
            self.register_buffer(name, torch.zeros(shape, dtype=torch.int64))
        for name in ("threshold", "value"):
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("start", torch.zeros(shape[:2], dtype=torch.float64))
        self.register_buffer("depth", torch.zeros((), dtype=torch.int64))

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """One: nothing is random."""
        x = self.problem.flatten(batch).double()
        low, middle, high = self._quantiles(x)
        std = ((high - low) / DEVIATIONS).clamp(min=NARROWEST)
        return Draws(middle.to(batch["x"]).unsqueeze(0), std.log().to(batch["x"]).unsqueeze(0))

    def solve(self, train: Data, validation: Data) -> None:
        """Boost each quantile of each output."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        every = list(batches(train))
        x = torch.cat([self.problem.flatten(batch) for batch in every]).double().numpy()
        y = torch.cat([self.target(batch) for batch in every]).double().numpy()
        for i, quantile in enumerate(QUANTILES):
            for j in range(self.problem.output_dim):
                known = ~np.isnan(y[:, j])
                if not known.any():  # a standardised target that nobody saw
                    self.start[i, j] = (i - 1) * DEVIATIONS / 2
                    continue
                model = HistGradientBoostingRegressor(
                    loss="quantile", quantile=quantile, max_iter=self.rounds, max_leaf_nodes=self.leaves,
                    learning_rate=0.05, early_stopping=False, random_state=self.seed,  # pyright: ignore
                ).fit(x[known], y[known, j])  # fmt: skip
                self._keep(i, j, model)

    def _keep(self, i: int, j: int, model) -> None:
        self.start[i, j] = float(np.ravel(model._baseline_prediction)[0])
        for r, (tree,) in enumerate(model._predictors):
            nodes = tree.nodes
            n = len(nodes)
            leaf = nodes["is_leaf"].astype(bool)
            own = np.arange(n)
            for name, values in (
                ("feature", np.where(leaf, 0, nodes["feature_idx"])),
                ("left", np.where(leaf, own, nodes["left"])),  # a leaf leads to itself
                ("right", np.where(leaf, own, nodes["right"])),
                ("threshold", np.where(leaf, np.inf, nodes["num_threshold"])),
                ("value", nodes["value"]),
            ):
                getattr(self, name)[i, j, r, :n] = torch.from_numpy(np.ascontiguousarray(values))
            self.depth = torch.maximum(self.depth, torch.tensor(int(nodes["depth"].max())))

    def _quantiles(self, x: Tensor) -> Tensor:
        """Sum of the trees, (quantiles, rows, outputs): every row walks down all trees at once."""
        flat = {name: getattr(self, name).flatten(0, 2) for name in ("feature", "left", "right", "threshold", "value")}
        place = torch.zeros(len(flat["value"]), len(x), dtype=torch.int64)  # trees x rows
        for _ in range(int(self.depth)):
            feature, threshold = (flat[name].gather(1, place) for name in ("feature", "threshold"))
            goes_left = x.T.gather(0, feature) <= threshold
            place = torch.where(goes_left, flat["left"].gather(1, place), flat["right"].gather(1, place))
        trees = flat["value"].gather(1, place).unflatten(0, self.value.shape[:3]).sum(2)
        return (trees + self.start[..., None]).mT
