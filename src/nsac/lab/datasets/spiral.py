"""Irregularly sampled spirals, generated: nothing to download."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Spirals:
    """A set of spirals, observed at irregular times of their first half."""

    x: Tensor  # (n, observed, 2), noisy observed positions
    times: Tensor  # (n, observed), observation times; a whole spiral takes time 0 to 1
    y: Tensor  # (n, points, 2), noisy positions at all times, the targets
    truth: Tensor  # (n, points, 2), positions without noise
    query_times: Tensor  # (points,), all times; those before 0.5 are interpolation, the others extrapolation


def make_spirals(
    n: int = 300,
    points: int = 150,
    observed: int = 50,
    variation: float = 0.2,
    noise: float = 0.02,
    both: bool = True,
    generator: torch.Generator | None = None,
) -> Spirals:
    r"""Archimedean spirals $r = a + b\theta$, $\theta \in [0, 6\pi]$.

    Args:
        n: number of spirals.
        points: equally spaced times per spiral.
        observed: number of observed points of the first half, chosen at random without replacement.
        variation: relative standard deviation of a and b between spirals.
        noise: standard deviation of the observation noise.
        both: whether the direction of rotation is random; otherwise it is the same for all spirals.
        generator: source of randomness.
    """
    time = torch.linspace(0, 1, points)
    theta = 6 * math.pi * time
    a = 0.2 * (1 + variation * torch.randn(n, 1, generator=generator))
    b = (1 + variation * torch.randn(n, 1, generator=generator)) / (6 * math.pi)
    turn = torch.randint(0, 2, (n, 1), generator=generator) * 2.0 - 1
    turn = turn if both else turn.abs()
    radius = a + b * theta
    truth = torch.stack([radius * theta.cos(), turn * radius * theta.sin()], -1)
    y = truth + noise * torch.randn(truth.shape, generator=generator)
    chosen = torch.rand(n, points // 2, generator=generator).argsort(-1)[:, :observed].sort(-1).values
    x = y.gather(1, chosen[..., None].expand(-1, -1, 2))
    return Spirals(x, time[chosen], y, truth, time)
