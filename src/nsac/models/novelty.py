"""How new an input is, and how much a mean should vary there: a Gaussian process that knows the inputs of training."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

FEATURES, KEPT = 256, 32
"""Random features, and directions among them: those the training inputs say least about. More cost more, and are no
better: the others are known everywhere."""

LENGTH = 4.0
"""Length of the kernel, in typical distances between neighbours."""

NOISE = 0.01
"""Variance of the process's noise, as a share of its prior variance: how soon a few neighbours are enough."""

SHRINKAGE = 0.01
"""Added to the variances of the principal axes before they are made equal: one that hardly varies is mostly noise."""

ROWS, NEIGHBOURS, PROTOTYPES = 20_000, 1_000, 1_000
"""Training inputs that are looked at, those whose distances set the unit, and those kept to measure distances to."""

NEIGHBOUR = 5
"""Which neighbour's distance is typical."""

NEAREST, KNOWN = 1e-3, 1e-6
"""Smallest squared distance and smallest r that count: below, one input is as well known as another."""

FARTHEST = 9.0
"""Largest prior variance, in units of the target's."""


class Doubt(NamedTuple):
    """What is not known about the answer to each query."""

    variance: Tensor  # (..., ), V, of the mean
    least: Tensor  # (..., outputs), logarithm of the smallest deviation of the noise


class Novelty(nn.Module):
    r"""Variance of the mean by how new an input is, without a weight to learn.

    The posterior variance of a Gaussian process, of which only the inputs of training are needed, as a share of what
    it is where nothing is known:

    $$r(x) = \varphi^T S\,\varphi \Big/ \tfrac1R \mathrm{tr}\,S, \qquad S = \big(I + \Phi^T\Phi/\sigma^2\big)^{-1},
    \qquad \varphi(x) = \sqrt{2/R}\,\cos(\Omega z + b), \qquad z = W(x - m),$$

    with R random features of a Gaussian kernel, $\Phi$ those of the training inputs, and W the map that makes them
    white; of S only the largest eigenvalues are kept, and far away r is 1 on average. The variance follows r and the
    squared distance d to the nearest of the training inputs, in units of their own distance $\ell$:

    $$V(x) = P\,\frac{a u}{1 + a u}, \qquad u = r\,\frac{d^2}{\ell^2}, \qquad
    P = \min\big(\tfrac12 (1 + |z|^2/D), 9\big) .$$

    Near the data V is proportional to the amplitude a. Far away it is P whatever a is: the variance of a standardised
    target, 1, among the training inputs, and larger outside, as for a straight line that was not seen there. How
    noisy the answer is, is not known there either: the variance of the noise is at least V/P times the usual one. All
    is closed form: one sweep over the training inputs.

    Args:
        inputs: numbers that describe an input, D.
        outputs: numbers that are predicted.
        seed: fixes the random features.
    """

    centre: Tensor
    whiten: Tensor
    frequency: Tensor
    phase: Tensor
    factor: Tensor
    kept: Tensor
    scale: Tensor
    log_amplitude: Tensor
    usual: Tensor

    def __init__(self, inputs: int, outputs: int, seed: int = 0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.register_buffer("centre", torch.zeros(inputs))
        self.register_buffer("whiten", torch.eye(inputs))
        self.register_buffer("frequency", torch.randn(inputs, FEATURES, generator=generator))
        self.register_buffer("phase", 2 * math.pi * torch.rand(FEATURES, generator=generator))
        self.register_buffer("factor", torch.eye(FEATURES)[:, :KEPT].clone())
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("kept", torch.zeros(PROTOTYPES, inputs))
        self.register_buffer("log_amplitude", torch.tensor(-math.inf))  # not set yet
        self.register_buffer("usual", torch.ones(outputs))  # variance of the noise

    @torch.no_grad()
    def fit(self, known: Tensor, seed: int = 0) -> None:
        """Learn what is known: (rows, queries, inputs), descriptions of the training inputs."""
        generator = torch.Generator().manual_seed(seed)
        rows, queries, _ = known.shape
        apart = known[torch.arange(rows), torch.arange(rows) % queries]  # queries of one row are close in any case
        apart = apart[torch.randperm(rows, generator=generator)[:NEIGHBOURS]].double()
        known = known.flatten(0, 1)
        known = known[torch.randperm(len(known), generator=generator)[:ROWS]].double()
        std, centre = torch.std_mean(known, 0, correction=0)
        std = torch.where(std > 1e-9, std, 1.0)
        scaled = (known - centre) / std
        variances, axes = torch.linalg.eigh(scaled.T @ scaled / len(scaled))
        few = known.shape[1] / (known.shape[1] + rows)  # with fewer rows than inputs, variances say little
        whiten = axes / ((1 - few) * variances.clamp(min=0) + max(few, SHRINKAGE)).sqrt() / std[:, None]
        unit = _typical_distance((apart - centre) @ whiten)
        whiten = whiten / unit  # distances are in that unit from here on
        self.scale = unit.to(self.scale)
        self.centre, self.whiten = centre.to(self.centre), whiten.to(self.whiten).contiguous()  # as when it is loaded
        self.kept = self._white(known[torch.arange(PROTOTYPES) % len(known)].to(self.centre)).contiguous()
        features = self._features(self._white(known.to(self.centre))).double()
        precision, axes = torch.linalg.eigh(features.T @ features / NOISE)  # in ascending order
        left = 1 / (1 + precision[:KEPT].clamp(min=0))
        self.factor = (axes[:, :KEPT] * (left / left.sum() * FEATURES).sqrt()).contiguous().to(self.factor)

    def forward(self, described: Tensor) -> tuple[Tensor, Tensor]:
        """How new, u, and prior variance, both (...), of inputs (..., inputs)."""
        white = self._white(described)
        flat = white.flatten(0, -2)  # |a - b|^2 as |a|^2 + |b|^2 - 2 a b: what that cancels is below `NEAREST`
        least = torch.addmm(self.kept.square().sum(-1), flat, self.kept.T, alpha=-2).amin(-1)
        nearest = (flat.square().sum(-1) + least).view(white.shape[:-1])
        newness = (self._features(white) @ self.factor).square().sum(-1)
        u = newness.clamp(min=KNOWN) * nearest.clamp(min=NEAREST)
        size = white.square().mean(-1) * self.scale**2  # of an average training input: 1
        return u, ((1 + size) / 2).clamp(max=FARTHEST)

    def variance(self, new: Tensor, prior: Tensor) -> Tensor:
        """V, of what `forward` gives."""
        return prior * torch.sigmoid(self.log_amplitude + new.log())

    def doubt(self, described: Tensor) -> Doubt:
        """What is not known about inputs (..., inputs)."""
        new, prior = self(described)
        log_share = logsigmoid(self.log_amplitude + new.log())
        return Doubt(prior * log_share.exp(), (log_share.unsqueeze(-1) + self.usual.log()) / 2)

    def set_amplitude(self, new: Tensor, prior: Tensor, enough: Callable[[Tensor], bool]) -> None:
        """Largest amplitude whose V over some inputs is not `enough`, by bisection: `enough` must be monotone."""
        low, high = -40.0, 40.0
        for _ in range(40):
            middle = (low + high) / 2
            self.log_amplitude.fill_(middle)
            low, high = (low, middle) if enough(self.variance(new, prior)) else (middle, high)

    def _white(self, described: Tensor) -> Tensor:
        return (described - self.centre) @ self.whiten

    def _features(self, white: Tensor) -> Tensor:
        angle = torch.addmm(self.phase, white.flatten(0, -2) / LENGTH, self.frequency).unflatten(0, white.shape[:-1])
        return math.sqrt(2 / FEATURES) * angle.cos()


def _typical_distance(points: Tensor) -> Tensor:
    """Median distance to the fifth nearest other point: repeated measurements may lie on top of each other."""
    distance = torch.cdist(points, points)
    order = min(NEIGHBOUR, len(points) - 1)
    nearest = distance.kthvalue(order + 1, dim=1).values  # the first is the point itself
    nearest = nearest[nearest > 1e-6]
    return nearest.median() if len(nearest) else points.new_ones(())
