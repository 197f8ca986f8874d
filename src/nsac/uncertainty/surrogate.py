"""Surrogates of out-of-distribution data, made from training rows.

A surrogate is called with the rows `x`, (B, ..., F), a function that returns the model's epistemic variance at such
rows, and a generator; it returns rows of the same shape, without gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nsac._checks import check_choice

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
