"""Boosted trees as tensors: scikit-learn grows them, torch evaluates them, and a file holds nothing executable."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

_INTEGERS, _NUMBERS = ("feature", "left", "right"), ("threshold", "value")
NODE: dict[str, torch.dtype] = {name: torch.int64 for name in _INTEGERS} | {name: torch.float64 for name in _NUMBERS}
"""Fields of a node, each a tensor (..., trees, nodes)."""


def store_trees(model: Any, trees: int, nodes: int) -> tuple[dict[str, Tensor], int]:
    """The first `trees` trees of a `HistGradientBoostingRegressor`, padded to `nodes` nodes, and their depth."""
    fields = {name: torch.zeros((trees, nodes), dtype=dtype) for name, dtype in NODE.items()}
    fields["left"] += torch.arange(nodes)  # what is not grown is a leaf, its own child
    fields["right"] += torch.arange(nodes)
    depth = 0
    for i, (tree,) in enumerate(model._predictors[:trees]):
        grown, itself = tree.nodes, np.arange(len(tree.nodes))
        leaf = grown["is_leaf"].astype(bool)
        values = {
            "feature": np.where(leaf, 0, grown["feature_idx"]),
            "left": np.where(leaf, itself, grown["left"]),  # a leaf is its own child
            "right": np.where(leaf, itself, grown["right"]),
            "threshold": np.where(leaf, np.inf, grown["num_threshold"]),
            "value": np.ascontiguousarray(grown["value"]),
        }
        for name, value in values.items():
            fields[name][i, : len(grown)] = torch.from_numpy(value)
        depth = max(depth, int(grown["depth"].max()))
    return fields, depth


def evaluate_trees(x: Tensor, fields: dict[str, Tensor], depth: int) -> Tensor:
    """Value of each tree at each row, (trees, rows); all rows descend all trees, (trees, nodes), in parallel."""
    node = torch.zeros(fields["value"].shape[0], x.shape[0], dtype=torch.int64)
    columns = x.T
    for _ in range(depth):
        goes_left = columns.gather(0, fields["feature"].gather(1, node)) <= fields["threshold"].gather(1, node)
        node = torch.where(goes_left, fields["left"].gather(1, node), fields["right"].gather(1, node))
    return fields["value"].gather(1, node)


def tree_records(fields: dict[str, np.ndarray]) -> np.ndarray:
    """Trees, whose fields are (trees, nodes), in the layout of scikit-learn."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    nodes: Any = np.zeros(fields["value"].shape, dtype=PREDICTOR_RECORD_DTYPE)
    names = {"value": "value", "feature_idx": "feature", "num_threshold": "threshold", "left": "left", "right": "right"}
    for name, ours in names.items():
        nodes[name] = fields[ours]
    nodes["is_leaf"] = fields["left"] == np.arange(nodes.shape[-1])  # a leaf is its own child
    return nodes


def evaluate_tree(x: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Value of one of `tree_records` at each row: as `evaluate_trees`, by scikit-learn's own code."""
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    nothing = np.zeros((0, 8), dtype=np.uint32)  # no categories
    return TreePredictor(nodes, nothing, nothing).predict(x, nothing, np.zeros(0, dtype=np.uint32), 1)
