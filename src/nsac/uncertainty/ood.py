"""Out-of-distribution (OOD) rows: surrogates made from training rows, and metrics of a score that detects them.

A surrogate is called with the rows `x`, (B, ..., F), a function that returns the model's epistemic variance at such
rows, and a generator; it returns rows of the same shape, without gradient. A score should be higher for OOD rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nsac._checks import check_choice, refuse_where

Epistemic = Callable[[Tensor], Tensor]
Surrogate = Callable[[Tensor, Epistemic, torch.Generator | None], Tensor]


@dataclass(frozen=True)
class GaussianNoise:
    r"""$x + \xi$, $\xi \sim N(mean, std^2)$, the paper's choice; inputs are assumed to be standardised."""

    mean: float = 0.0
    std: float = 5.0

    def __call__(self, x: Tensor, epistemic: Epistemic, generator: torch.Generator | None = None) -> Tensor:
        """Perturbed rows."""
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
        return x + self.mean + self.std * noise


@dataclass(frozen=True)
class FeatureShuffle:
    """Each feature comes from another row: marginal distributions stay, their dependence is lost."""

    def __call__(self, x: Tensor, epistemic: Epistemic, generator: torch.Generator | None = None) -> Tensor:
        """Rows with features mixed across the batch."""
        scores = torch.rand(len(x), x.shape[-1], generator=generator, device=x.device)
        donor = scores.argsort(0)  # (B, F): a permutation of the rows per feature
        return x.gather(0, donor.view(len(x), *(1,) * (x.ndim - 2), -1).expand_as(x))


@dataclass(frozen=True)
class Adversarial:
    """Gaussian noise, then steps towards low epistemic variance, at the same distance from the data.

    Each step moves against the sign of the gradient of the logarithm of the epistemic variance, and the perturbation is
    rescaled to its length: the result is as far away as Gaussian noise and harder to detect.
    """

    mean: float = 0.0
    std: float = 5.0
    step: float = 0.5
    """length of a step, relative to the root mean square of the perturbation"""
    steps: int = 1

    def __call__(self, x: Tensor, epistemic: Epistemic, generator: torch.Generator | None = None) -> Tensor:
        """Perturbed rows on which the epistemic variance is low."""
        noise = GaussianNoise(self.mean, self.std)(x, epistemic, generator) - x
        axes = tuple(range(1, x.ndim))
        length = noise.square().mean(axes, keepdim=True).sqrt()
        with torch.enable_grad():
            for _ in range(self.steps):
                noise.requires_grad_()
                log_variance = epistemic(x + noise).clamp(min=torch.finfo(x.dtype).tiny).log().sum()
                (slope,) = torch.autograd.grad(log_variance, noise)
                noise = noise.detach() - self.step * length * slope.sign()
                noise = noise * (length / noise.square().mean(axes, keepdim=True).sqrt())
        return x + noise


def make_surrogate(name: str, mean: float = 0.0, std: float = 5.0) -> Surrogate:
    """A surrogate by name; `mean` and `std` are those of the Gaussian part, where it has one."""
    check_choice("surrogate", name, ("gaussian", "shuffle", "adversarial"))
    if name == "shuffle":
        return FeatureShuffle()
    return GaussianNoise(mean, std) if name == "gaussian" else Adversarial(mean, std)


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
