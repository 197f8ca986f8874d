"""Stand-ins for data from elsewhere: rows a model should be unsure about, made from rows it knows.

A surrogate is called with the rows `x`, (B, ..., F), a function that gives the model's epistemic variance at such rows,
and a generator; it returns rows of the same shape, without gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nsac._checks import check_choice

Epistemic = Callable[[Tensor], Tensor]
Surrogate = Callable[[Tensor, Epistemic, torch.Generator | None], Tensor]


def _normal_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)


@dataclass(frozen=True)
class GaussianNoise:
    r"""$x + \xi$, $\xi \sim N(mean, std^2)$, the paper's choice; inputs are thought to be standardised."""

    mean: float = 0.0
    std: float = 5.0

    def __call__(self, x: Tensor, epistemic: Epistemic, generator: torch.Generator | None = None) -> Tensor:
        """Perturbed rows."""
        return x + self.mean + self.std * _normal_like(x, generator)


@dataclass(frozen=True)
class FeatureShuffle:
    """Each feature comes from another row: every marginal is as known, how they go together is not."""

    def __call__(self, x: Tensor, epistemic: Epistemic, generator: torch.Generator | None = None) -> Tensor:
        """Rows with features mixed across the batch."""
        scores = torch.rand(len(x), x.shape[-1], generator=generator, device=x.device)
        donor = scores.argsort(0)  # (B, F): a permutation of the rows per feature
        return x.gather(0, donor.view(len(x), *(1,) * (x.ndim - 2), -1).expand_as(x))


@dataclass(frozen=True)
class Adversarial:
    """Gaussian noise, then steps towards where the model is most sure, at the same distance from the data.

    Each step moves against the sign of the gradient of the logarithm of the epistemic variance, and the perturbation is
    brought back to its length: what comes out is as far away as Gaussian noise and harder to recognise.
    """

    mean: float = 0.0
    std: float = 5.0
    step: float = 0.5
    """length of a step, as a share of the perturbation's root mean square"""
    steps: int = 1

    def __call__(self, x: Tensor, epistemic: Epistemic, generator: torch.Generator | None = None) -> Tensor:
        """Perturbed rows on which the epistemic variance is low."""
        noise = GaussianNoise(self.mean, self.std)(x, epistemic, generator) - x
        axes = tuple(range(1, x.ndim))
        length = noise.square().mean(axes, keepdim=True).sqrt()
        with torch.enable_grad():
            for _ in range(self.steps):
                noise.requires_grad_()
                doubt = epistemic(x + noise).clamp(min=torch.finfo(x.dtype).tiny).log().sum()
                (slope,) = torch.autograd.grad(doubt, noise)
                noise = noise.detach() - self.step * length * slope.sign()
                noise = noise * (length / noise.square().mean(axes, keepdim=True).sqrt())
        return x + noise


def make_surrogate(name: str, mean: float = 0.0, std: float = 5.0) -> Surrogate:
    """A surrogate by name; `mean` and `std` are those of the Gaussian part, where it has one."""
    check_choice("surrogate", name, ("gaussian", "shuffle", "adversarial"))
    if name == "shuffle":
        return FeatureShuffle()
    return GaussianNoise(mean, std) if name == "gaussian" else Adversarial(mean, std)
