"""Does a score tell data from elsewhere? A higher score says: more out of distribution."""

import torch
from torch import Tensor

from nsac.uncertainty.ranks import average_ranks


def ood_auroc(score_id: Tensor, score_ood: Tensor) -> float:
    """Probability that a row from elsewhere scores above a known one, ties counting half (Mann-Whitney)."""
    known, other = _flat("score_id", score_id), _flat("score_ood", score_ood)
    ranks = average_ranks(torch.cat([known, other]))[len(known) :]
    wins = ranks.sum() - len(other) * (len(other) + 1) / 2
    return (wins / (len(known) * len(other))).item()


def ood_aupr(score_id: Tensor, score_ood: Tensor) -> float:
    r"""Average precision $\sum_k (R_k - R_{k-1})P_k$ over distinct thresholds, rows from elsewhere being positive.

    By chance it is the share of rows from elsewhere, so it depends on how many there are.
    """
    known, other = _flat("score_id", score_id), _flat("score_ood", score_ood)
    thresholds = torch.cat([known, other]).unique().flip(0)
    caught, alarms = (_at_least(scores, thresholds) for scores in (other, known))
    precision = caught / (caught + alarms)
    gain = caught.diff(prepend=caught.new_zeros(1)) / len(other)
    return (gain * precision).sum().item()


def ood_fpr95(score_id: Tensor, score_ood: Tensor) -> float:
    """Share of known rows that raise an alarm at the highest threshold that catches 95 % of those from elsewhere."""
    known, other = _flat("score_id", score_id), _flat("score_ood", score_ood)
    needed = -(-95 * len(other) // 100)  # rounded up, in whole numbers
    threshold = other.sort(descending=True).values[needed - 1]
    return (known >= threshold).double().mean().item()


def _at_least(scores: Tensor, thresholds: Tensor) -> Tensor:
    return (len(scores) - torch.searchsorted(scores.sort().values, thresholds)).double()


def _flat(name: str, scores: Tensor) -> Tensor:
    scores = torch.as_tensor(scores, dtype=torch.float64).flatten()
    if not len(scores):
        raise ValueError(f"`{name}` must have at least one score. Got none. Pass rows of both kinds.")
    if scores.isnan().any():
        place = int(scores.isnan().nonzero()[0])
        raise ValueError(
            f"`{name}` must be numbers. Got nan at index {place} ({int(scores.isnan().sum())} such values) instead. "
            "Drop these rows, or find out why they have no score."
        )
    return scores
