"""Attributions of tables that add up to a prediction: sampled Shapley values."""

import numpy as np
import torch

from nsac.explain.subjects import TableSubject
from nsac.models.encoder import Batch

EVALUATED_ROWS = 24_000  # predicted rows that the attributions of a table may take, if at least one pair of orders fits
MAX_PAIRS = 20  # pairs of orders of the features per row; each pair has its own baseline row


def table_attributions(
    subject: TableSubject, predicted: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    r"""Shapley values of the features of each row, (3, n, features, outputs), and the baseline, (3, outputs).

    The value of a feature is its mean effect when the values of a baseline row, a training row that the model keeps,
    are replaced by those of the row, one feature at a time in a random order. Every order is used in both directions.
    The effects of an order add up to the difference between the predictions of the row and of the baseline row, so
    attributions and baseline add up to the prediction, whatever the model and however few orders there are.

    Args:
        subject: rows and model.
        predicted: (3, n, outputs), their predictions.
        generator: draws the orders.
    """
    n, features = len(subject), len(subject.features)
    pairs = int(np.clip(EVALUATED_ROWS // max(1, 2 * n * (features - 1)), 1, MAX_PAIRS))
    baselines = subject.baselines
    at_baseline = subject.predict(baselines).quantities  # (3, donors, outputs)
    chosen = _representative(at_baseline[0], pairs)
    total = np.zeros((3, n, features, predicted.shape[2]))
    orders = [generator.permuted(np.tile(np.arange(features), (n, 1)), axis=1) for _ in chosen]
    for donor, order in zip(chosen, orders, strict=True):
        baseline = {name: each[donor] for name, each in baselines.items()}
        for each in (order, order[:, ::-1]):
            total += _effects(subject, each, baseline, predicted, at_baseline[:, donor])
    return total / (2 * len(chosen)), at_baseline[:, chosen].mean(1)


def _effects(
    subject: TableSubject, order: np.ndarray, baseline: Batch, predicted: np.ndarray, at_baseline: np.ndarray
) -> np.ndarray:
    """Change of the prediction by each feature when they are replaced in this order, (n, features), row by row."""
    n, features = order.shape
    rank = np.argsort(order, axis=1)  # n features: when a feature is replaced
    steps = [np.broadcast_to(at_baseline[:, None], predicted.shape)]
    if features > 1:
        count = torch.arange(1, features)[:, None, None]  # features replaced so far
        inputs = {}
        for name, column in subject.inputs.items():
            when = torch.from_numpy(rank[:, subject.players[name]])  # n columns
            inputs[name] = torch.where(when < count, column, baseline[name]).flatten(0, 1)
        between = subject.predict(inputs).quantities
        steps += list(between.reshape(3, features - 1, n, -1).transpose(1, 0, 2, 3))
    change = np.diff(np.stack([*steps, predicted]), axis=0)  # features 3 n outputs, in the order of the replacement
    return np.take_along_axis(change.transpose(1, 2, 0, 3), rank[None, :, :, None], 2)


def _representative(means: np.ndarray, count: int) -> list[int]:
    """Baseline rows, (rows, outputs), whose mean prediction is close to that of all, chosen one after the other."""
    centre, unit = means.mean(0), means.std(0) + 1e-12
    chosen: list[int] = []
    while len(chosen) < min(count, len(means)):
        others = [i for i in range(len(means)) if i not in chosen]
        distance = [np.abs((means[[*chosen, i]].mean(0) - centre) / unit).sum() for i in others]
        chosen.append(others[int(np.argmin(distance))])
    return chosen
