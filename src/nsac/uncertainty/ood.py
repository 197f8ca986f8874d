"""Out-of-distribution detection: metrics of a score that should be higher for out-of-distribution (OOD) rows."""

import torch
from torch import Tensor

from nsac._checks import refuse_where


def ood_auroc(score_id: Tensor, score_ood: Tensor) -> float:
    """Probability that an OOD row scores above an in-distribution row, ties counting half (Mann-Whitney)."""
    inside, outside = _flat("score_id", score_id), _flat("score_ood", score_ood)
    ranks = average_ranks(torch.cat([inside, outside]))[len(inside) :]
    wins = ranks.sum() - len(outside) * (len(outside) + 1) / 2
    return (wins / (len(inside) * len(outside))).item()


def ood_aupr(score_id: Tensor, score_ood: Tensor) -> float:
    r"""Average precision $\sum_k (R_k - R_{k-1})P_k$ over distinct thresholds, with OOD rows as positives.

    By chance it is the share of OOD rows, so it depends on how many there are.
    """
    inside, outside = _flat("score_id", score_id), _flat("score_ood", score_ood)
    thresholds = torch.cat([inside, outside]).unique().flip(0)
    true_positives, false_positives = _at_least(outside, thresholds), _at_least(inside, thresholds)
    precision = true_positives / (true_positives + false_positives)
    recall_gain = true_positives.diff(prepend=true_positives.new_zeros(1)) / len(outside)
    return (recall_gain * precision).sum().item()


def ood_fpr95(score_id: Tensor, score_ood: Tensor) -> float:
    """False positive rate at the highest threshold with a true positive rate of at least 95 %; OOD is positive."""
    inside, outside = _flat("score_id", score_id), _flat("score_ood", score_ood)
    needed = -(-95 * len(outside) // 100)  # rounded up, in whole numbers
    threshold = outside.sort(descending=True).values[needed - 1]
    return (inside >= threshold).double().mean().item()


def average_ranks(values: Tensor) -> Tensor:
    """Ranks of a flat tensor, from 1 for the least; equal values have the mean of their ranks."""
    _, group, count = values.unique(return_inverse=True, return_counts=True)
    last = count.cumsum(0).double()
    return (last - (count.double() - 1) / 2)[group]


def _at_least(scores: Tensor, thresholds: Tensor) -> Tensor:
    return (len(scores) - torch.searchsorted(scores.sort().values, thresholds)).double()


def _flat(name: str, scores: Tensor) -> Tensor:
    scores = torch.as_tensor(scores, dtype=torch.float64).flatten()
    if not len(scores):
        raise ValueError(f"`{name}` must have at least one score. Got none. Pass rows of both kinds.")
    refuse_where(scores.isnan(), f"`{name}`", scores, "be numbers", "Drop these rows, or check why they have no score.")
    return scores
