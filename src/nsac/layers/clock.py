r"""The internal time of a head, and time as features.

$t = \mathrm{sigmoid}(-t_a\,t_{sample} + t_b)$, with $t_a, t_b$ learned per head.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

TimeMode = Literal["elapsed", "absolute", "none"]

CYCLES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Cycles per `time_scale` of the time features: the slowest does not repeat in a window, the fastest has 8 periods."""

POSITION_SCALE = 64.0
"""Steps per `time_scale` when no times are given; periods of the features are then 8 to 256 steps."""

T_MIN = 1e-6
"""Smallest internal time. At 0 the variance of the logit is 0, and the derivative of its square root infinite."""


def time_features(tau: Tensor) -> Tensor:
    """Sine and cosine of scaled time at each of `CYCLES`: (...) -> (..., 2 * len(CYCLES))."""
    angle = tau.unsqueeze(-1) * tau.new_tensor([2 * math.pi * c for c in CYCLES])
    return torch.cat([angle.sin(), angle.cos()], -1)


def first_valid(times: Tensor, mask: Tensor | None) -> Tensor:
    """Earliest time of each row among tokens that are not masked, (B, 1); 0 where all are. Times are (B, T)."""
    if mask is None:
        return times.amin(-1, keepdim=True)
    first = times.masked_fill(mask, math.inf).amin(-1, keepdim=True)
    return first.masked_fill(mask.all(-1, keepdim=True), 0)


def same_precision(times: Tensor | None, others: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Times in one floating point type: integers, and pairs of different types, are converted to double precision."""
    if times is None:
        return times, others
    if others is None:
        return (times if times.is_floating_point() else times.double()), None
    if times.dtype == others.dtype and times.is_floating_point():
        return times, others
    return times.double(), others.double()


class Clock(nn.Module):
    """Maps the sample's time to each head's internal time in (0, 1).

    Initial slopes are spaced evenly between -1 and 1: for some heads internal time falls with elapsed time, for others
    it rises.
    """

    def __init__(self, num_heads: int):
        super().__init__()
        self.t_a = nn.Parameter(torch.linspace(-1.0, 1.0, num_heads) if num_heads > 1 else -torch.ones(1))
        self.t_b = nn.Parameter(torch.zeros(num_heads))

    def forward(self, t_sample: Tensor | None) -> Tensor:
        """(..., H or 1, Q) -> (..., H, Q); None means `t_sample` = 1 and gives (H, 1)."""
        t_a, t_b = self.t_a[:, None], self.t_b[:, None]
        return torch.sigmoid(t_b - t_a if t_sample is None else t_b - t_a * t_sample).clamp(min=T_MIN)
