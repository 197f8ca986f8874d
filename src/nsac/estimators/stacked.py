"""Fit of a stacked regressor: every model leaves the same rows out, and these rows stack and calibrate them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.base import Split, Splits, join, random_splits
from nsac.estimators.components import Components, LeftOutModels, Moments, design_groups
from nsac.estimators.ensemble import ensemble_moments
from nsac.estimators.patterns import MissingPatterns
from nsac.estimators.stack import Stack, predict_unseen
from nsac.methods import AbstractMethod, TableProblem
from nsac.models.encoder import Batch
from nsac.training import Data, TensorData
from nsac.uncertainty import Calibration

Effort = Literal["fast", "default", "best"]
MEMBERS: dict[Effort, int] = {"fast": 2, "default": 4, "best": 8}  # ensemble size
STEPS: dict[Effort, float] = {"fast": 0.5, "default": 1.0, "best": 3.0}  # factor on the training steps
SMALL_TABLE_ROWS, SMALL_FOLDS, LARGE_FOLDS = 1500, 5, 8
"""Rows up to which a table has few folds, so that most of its rows are left out by some member; folds."""
DECAY_PER_NOISE, WEIGHT_DECAY_RANGE = 10.0, (0.01, 8.0)
"""Weight decay, for 1000 rows, per squared error of the other models, and its range: noise needs a strong decay."""
STEPS_FOR_1000_ROWS, STEPS_EXPONENT, MAX_STEPS_PER_ROW = 300, 0.33, 4
"""Training steps: 300 for 1000 rows, growing as the power 0.33 of the number of rows, and at most 4 per row."""
BATCH_SIZES = ((3000, 128), (30_000, 256), (float("inf"), 512))  # rows below which a batch has this size
LEARNING_RATE = 6e-3  # high, since the weight decay is strong
VALIDATIONS = 8  # times that the weights of a member are validated; the best are kept
FIRST_MEMBERS, MIN_WEIGHT = 2, 0.1
"""Members of a large table that are trained first, and their weight in the stack from which on others follow."""
STACK_PARAMETERS = 12  # variances of the process, weights and variance factors of the stack
MIN_MEMBER_DRAWS = 4  # of which the variance of a member's mean is computed

TrainMembers = Callable[[Data, Splits, Sequence[int], dict[str, Any]], list[AbstractMethod]]


class Stacked(NamedTuple):
    """All that is fitted."""

    members: list[AbstractMethod]
    components: Components
    calibration: Calibration
    seeds: list[int]
    chosen: dict[str, float]
    patterns: MissingPatterns | None  # classes of the calibration; None if no value is missing, or with groups
    left_out_mse: list[float]  # mean squared error of the left-out rows, of each output, standardised


def fit_stacked(
    problem: TableProblem,
    columns: Batch,
    z: Tensor,
    splits: Splits,
    weight: Tensor | None,
    groups: Tensor | None,
    seed: int,
    num_samples: int,
    train_members: TrainMembers,
    first: int,
) -> Stacked:
    """Fit kernel and trees, then the ensemble, one member per split; stack and calibrate them on the left-out rows.

    Members after the first ones are trained only if these have weight in the stack.

    Args:
        problem, columns, z: standardised rows and targets, (n, outputs).
        splits: rows to train on, and rows to leave out, of each member.
        weight, groups: (n,), how much a row counts, and its group.
        seed: of everything random.
        num_samples: draws of the predictive distribution.
        train_members: trains one member per split.
        first: number of members to train first.
    """
    seeds = [(seed + 10_007 * k) % 2**31 for k in range(len(splits))]
    size = member_draws(num_samples, len(splits))
    others = LeftOutModels.fit(problem, columns, z, splits, weight, seed)
    low, high = WEIGHT_DECAY_RANGE
    decay = min(max(DECAY_PER_NOISE * others.noise(z, _left_out(splits)), low), high)
    chosen = {"weight_decay": decay * (1000 / len(z)) ** 0.5}
    data = TensorData(**columns, y=z)
    resampled = splits if weight is None else [(resample(train, weight.numpy()), out) for train, out in splits]
    members: list[AbstractMethod] = []
    predicted: list[Moments] = []
    for some in (slice(0, first), slice(first, None)):
        trained = train_members(data, resampled[some], seeds[some], chosen)
        for member, (_, left_out) in zip(trained, splits[some], strict=True):
            rows = {name: column[torch.as_tensor(left_out)] for name, column in columns.items()}
            predicted.append(ensemble_moments([member], rows, size))
        members += trained
        rows = _left_out(splits[: len(members)])
        parts = others.parts(Moments(*(torch.cat(column) for column in zip(*predicted, strict=True))), rows)
        targets, row_weight = z[rows].double(), None if weight is None else weight[rows]
        stack = Stack.fit(parts, targets, row_weight)
        if len(members) == len(splits) or stack.weights[0].max() < MIN_WEIGHT:
            break
    if groups is None:
        prediction = stack.predict(parts, num_samples)
    else:
        sizes = [len(left_out) for _, left_out in splits]
        prediction = join(predict_unseen(parts, targets, row_weight, sizes, num_samples), 1)
    given = {name: column[rows] for name, column in columns.items()}
    patterns = MissingPatterns.fit(given) if groups is None else None
    classes = None if patterns is None else patterns.classify(given)
    row_groups = None if groups is None else groups[rows]
    calibration = Calibration.fit(prediction, targets, row_groups, rescale=False, classes=classes)
    calibration = replace(calibration, scale=torch.full_like(calibration.scale, optimism(problem, len(z))))
    mse = (prediction.mean - targets).square().mean(0).tolist()
    return Stacked(members, others.stacked(stack), calibration, seeds[: len(members)], chosen, patterns, mse)


def _left_out(splits: Splits) -> Tensor:
    return torch.as_tensor(np.concatenate([left_out for _, left_out in splits]))


def optimism(problem: TableProblem, rows: int) -> float:
    """Factor on the standard deviation for what was chosen with the left-out rows in sight: lengths and weights.

    Akaike's final prediction error: p parameters of n rows make squared errors (n + p) / (n - p) times as large.
    """
    parameters = min(len(set(design_groups(problem))) + STACK_PARAMETERS, rows // 4)
    return ((rows + parameters) / (rows - parameters)) ** 0.5


def member_draws(num_samples: int, members: int) -> int:
    """Draws of a member: all members together have `num_samples`, and each enough for a variance."""
    return max(MIN_MEMBER_DRAWS, -(-num_samples // members))


def training_fields(rows: int, effort: Effort) -> dict[str, Any]:
    """Fields of `TrainConfig` for this number of training rows."""
    steps = min(MAX_STEPS_PER_ROW * rows, STEPS_FOR_1000_ROWS * (rows / 1000) ** STEPS_EXPONENT)
    steps = max(1, round(STEPS[effort] * steps))
    batch_size = next(size for limit, size in BATCH_SIZES if rows < limit)
    fields = {"max_steps": steps, "validate_every": max(1, steps // VALIDATIONS)}
    return fields | {"batch_size": min(batch_size, rows), "learning_rate": LEARNING_RATE}


def make_splits(rows: int, members: int, random_state: np.random.RandomState) -> list[Split]:
    """Member k trains on all rows but fold k."""
    return random_splits(rows, members, random_state, SMALL_FOLDS if rows <= SMALL_TABLE_ROWS else LARGE_FOLDS)


def split_groups(groups: np.ndarray, random_state: np.random.RandomState) -> list[Split]:
    """Every group is left out once, at most 8 parts; large groups first, each into the smallest part so far."""
    codes, counts = np.unique(groups, return_counts=True)
    order = np.lexsort((random_state.permutation(len(codes)), -counts))
    parts: list[list[int]] = [[] for _ in range(min(LARGE_FOLDS, len(codes)))]
    sizes = np.zeros(len(parts))
    for i in order:
        smallest = int(sizes.argmin())
        parts[smallest].append(int(codes[i]))
        sizes[smallest] += counts[i]
    rows = np.arange(len(groups))
    left_out = [np.isin(groups, part) for part in parts]
    return [(rows[~out], rows[out]) for out in left_out]


def resample(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """As many rows, each as often as its weight says, to the nearest whole number; rows of weight 0 never."""
    total = np.cumsum(weight[rows])
    places = (np.arange(len(rows)) + 0.5) / len(rows) * total[-1]
    return rows[np.searchsorted(total, places)]
