"""Times of tokens and of queries: relative to the first valid token, as features, and as internal time of a head."""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

TimeMode = Literal["elapsed", "absolute", "none"]

CYCLES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Cycles per `time_scale` of the time features: the slowest does not repeat in a window, the fastest has 8 periods."""
POSITION_SCALE = 64.0  # steps per `time_scale` when no times are given; periods of the features are then 8 to 256 steps
T_MIN = 1e-6  # smallest internal time; at 0 the variance of the logit is 0, the derivative of its square root infinite


class Times(NamedTuple):
    """Times of the tokens or of the queries of a batch."""

    features: Tensor | None = None  # (B, T, F), Fourier features; None in a layer without times
    clock: Tensor | None = None  # (B, T), input of the internal clock; None: no times were given
    order: Tensor | None = None  # (B, T) or (T,), positions that `causal` compares

    def take(self, index: Tensor | None) -> "Times":
        """The times of one token per row, (B, 1): that of `index`, (B,), or the last."""
        order = None if self.order is None or self.order.ndim == 1 else self.order  # without times no token is later
        return Times(*[None if z is None else last_token(z, index) for z in (self.features, self.clock, order)])


class Clock(nn.Module):
    r"""Maps the sample's time to each head's internal time in (0, 1): $t = \mathrm{sigmoid}(-t_a\,t_{sample} + t_b)$.

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


def encode_times(
    x: Tensor, times: Tensor | None, mask: Tensor | None, query_times: Tensor | None, mode: TimeMode, time_scale: float
) -> tuple[Times, Times]:
    """Times of the tokens `x`, (B, T, ...), and of the queries (all None if there are no `query_times`).

    The result is invariant to shifts of all times and does not depend on later tokens.
    """
    order = torch.arange(x.shape[1], device=x.device) if times is None else times.expand(x.shape[0], -1)
    if mode == "none":
        return Times(order=order), Times(order=query_times)
    raw, scale = raw_times(x, times, time_scale)
    first = first_valid(raw, mask)

    def encode(raw: Tensor, order: Tensor) -> Times:
        features = time_features((raw - first) / scale).to(x.dtype)
        clock = None if times is None else ((raw - first if mode == "elapsed" else raw) / scale).to(x.dtype)
        return Times(features, clock, order)

    tokens = encode(raw if mask is None else torch.where(mask, first, raw), order)
    return tokens, Times() if query_times is None else encode(query_times.expand(x.shape[0], -1), query_times)


def raw_times(x: Tensor, times: Tensor | None, time_scale: float) -> tuple[Tensor, float]:
    """Times of the tokens, (B, T), and their scale; positions if there are no times."""
    if times is not None:
        return times.expand(x.shape[0], -1), time_scale
    wide = torch.promote_types(x.dtype, torch.float32)  # half precision cannot represent every position
    return torch.arange(x.shape[1], device=x.device, dtype=wide).expand(x.shape[0], -1), POSITION_SCALE


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
    same = others is None or times is None or times.dtype == others.dtype
    if times is None or (same and times.is_floating_point()):
        return times, others
    return times.double(), None if others is None else others.double()


def last_token(z: Tensor, index: Tensor | None) -> Tensor:
    """One token per row, (B, T, ...) -> (B, 1, ...): that of `index`, (B,), or the last."""
    if index is None:
        return z[:, -1:]
    return z.gather(1, index.view(-1, *(1,) * (z.ndim - 1)).expand(-1, 1, *z.shape[2:]))
