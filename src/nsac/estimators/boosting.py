"""Gradient boosted trees on table rows: steps and interactions that smooth models miss, one model per fold."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac.methods.trees import NODE, evaluate_tree, evaluate_trees, store_trees, tree_records

MAX_ROUNDS = 300
LARGE_ROWS = 5000  # training rows from which on trees are larger
LEARNING_RATE, L2 = (0.05, 0.1), 1.0  # of small and large tables; penalty on leaf values
LEAVES, MIN_ROWS_PER_LEAF = (16, 32), (5, 20)  # of small and large tables


@dataclass(frozen=True)
class Trees:
    """The mean of several boosted models, as tensors."""

    start: Tensor  # (models, outputs), prediction before the first tree
    depth: Tensor  # (), of the deepest tree
    feature: Tensor  # (models * outputs * rounds, nodes), as the following
    left: Tensor
    right: Tensor
    threshold: Tensor
    value: Tensor

    @classmethod
    def fit(
        cls, x: np.ndarray, y: np.ndarray, splits: Sequence[tuple[np.ndarray, np.ndarray]], weight: np.ndarray | None,
        seed: int,
    ) -> tuple["Trees", np.ndarray]:  # fmt: skip
        """From rows x, (n, inputs), and targets y, (n, outputs); one model per split into training and left-out rows.

        The number of rounds is the best on the left-out rows of all splits. Returns the model, and its predictions of
        the left-out rows, (n, outputs), NaN for rows that no split leaves out.
        """
        from sklearn.ensemble import HistGradientBoostingRegressor

        large = int(len(x) >= LARGE_ROWS)
        models, staged = [], np.full((MAX_ROUNDS, *y.shape), np.nan)
        for train, left_out in splits:
            for j in range(y.shape[1]):
                model = HistGradientBoostingRegressor(
                    learning_rate=LEARNING_RATE[large], max_iter=MAX_ROUNDS, max_leaf_nodes=LEAVES[large],
                    min_samples_leaf=MIN_ROWS_PER_LEAF[large], l2_regularization=L2, random_state=seed,
                    early_stopping=False,  # pyright: ignore[reportArgumentType]
                )  # fmt: skip
                model.fit(x[train], y[train, j], sample_weight=None if weight is None else weight[train])
                staged[:, left_out, j] = np.stack(list(model.staged_predict(x[left_out])))
                models.append(model)
        rows = np.concatenate([left_out for _, left_out in splits])
        squared, counted = np.square(staged[:, rows] - y[rows]).mean(2), None if weight is None else weight[rows]
        errors = np.average(squared, axis=1, weights=counted)
        rounds = int(errors.argmin()) + 1
        return cls.of(models, len(splits), rounds, 2 * LEAVES[large] - 1), staged[rounds - 1]

    @classmethod
    def of(cls, models: Sequence[Any], folds: int, rounds: int, nodes: int) -> "Trees":
        """The first trees of models of scikit-learn, `folds` times all outputs; no tree has more than `nodes` nodes."""
        stored = [store_trees(model, rounds, nodes) for model in models]
        tensors = {name: torch.cat([each[name] for each, _ in stored]) for name in NODE}
        start = torch.tensor([float(np.ravel(model._baseline_prediction)[0]) for model in models]).double()
        return cls(start.unflatten(0, (folds, -1)), torch.tensor(max(depth for _, depth in stored)), **tensors)

    def predict(self, x: Tensor) -> Tensor:
        """Mean over the models, (n, outputs), by the compiled code of scikit-learn, which is faster than tensors."""
        models, outputs = self.start.shape
        rows, trees = x.contiguous().numpy(), tree_records({name: getattr(self, name).numpy() for name in NODE})
        sums = np.zeros((models * outputs, len(rows)))
        for tree, total in enumerate(np.repeat(np.arange(len(sums)), len(trees) // len(sums))):
            sums[total] += evaluate_tree(rows, trees[tree])
        return torch.from_numpy(sums).unflatten(0, (models, outputs)).mean(0).T + self.start.mean(0)

    def mean(self, x: Tensor, depth: int) -> Tensor:
        """As `predict`, by tensors, for graphs."""
        trees = evaluate_trees(x, {name: getattr(self, name) for name in NODE}, depth)
        return trees.unflatten(0, (*self.start.shape, -1)).sum(2).mean(0).T + self.start.mean(0)

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], inputs: int, outputs: int) -> "Trees":
        """Inverse of `to_tensors`, for these numbers of inputs and outputs."""
        trees = cls(**{field.name: tensors[field.name] for field in fields(cls)})
        shape = trees.value.shape
        nodes = {name: getattr(trees, name) for name in NODE}
        if len(shape) != 2 or any(each.shape != shape or each.dtype != NODE[name] for name, each in nodes.items()):
            raise ValueError("The tensors of the trees do not fit each other.")
        if (
            trees.start.ndim != 2
            or trees.start.shape[1] != outputs
            or not trees.start.numel()
            or shape[0] % trees.start.numel()
        ):
            raise ValueError("The trees do not fit the number of outputs.")
        limits = {"feature": inputs, "left": shape[1], "right": shape[1]}
        for name, limit in limits.items():
            if nodes[name].numel() and not 0 <= int(nodes[name].min()) <= int(nodes[name].max()) < limit:
                raise ValueError(f"The trees must have `{name}` from 0 to {limit - 1}.")
        itself = torch.arange(shape[1])
        descends = (trees.left > itself) & (trees.right > itself)
        if not (descends | (trees.left == itself)).all():  # compiled code would follow a cycle forever
            raise ValueError("The trees must have children after their parents; a leaf is its own child.")
        if trees.threshold.isnan().any():
            raise ValueError("The thresholds of the trees must not be NaN.")
        if trees.depth.shape != () or not 0 <= int(trees.depth) < shape[1]:
            raise ValueError("The depth of the trees must be below their number of nodes.")
        return trees
