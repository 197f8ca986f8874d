"""Fixed descriptions of the input of a query: what novelty is measured on. No weight can make two inputs alike."""

import math

import torch
from torch import Tensor

from nsac.layers.clock import POSITION_SCALE, first_valid, same_precision
from nsac.layers.inputs import Inputs
from nsac.layers.times import last_token

ROUGHNESS_FLOOR = 1e-2
"""Added to standard deviations before their logarithm, in units of a standardised input."""

RESOLUTIONS = (0.02, 0.1, 1.0)
"""Widths, over the time scale, at which the observations around a query are described."""


def description_dim(features: int) -> int:
    """Length of a description of tokens with so many features."""
    return 1 + features + len(RESOLUTIONS) * (3 + 2 * features)


def describe_queries(inputs: Inputs, readout: str | int, time_scale: float | None) -> Tensor:
    """Each query, and the observations around its time at several resolutions, (B, Q, D).

    Args:
        inputs: of the layer.
        readout: the layer's.
        time_scale: the layer's; None for tokens without times or order.
    """
    hidden = inputs.hidden
    x = inputs.x.masked_fill(hidden[..., None], 0)
    times, at, query = _query_times(inputs, x, readout, time_scale)
    hidden = hidden[:, None]
    if inputs.causal:
        hidden = hidden | (times[:, None] > at[..., None])
    around = [local_statistics(x, times, hidden, at, width) for width in RESOLUTIONS]
    return torch.cat([at.unsqueeze(-1), query, *around], -1)


def _query_times(
    inputs: Inputs, x: Tensor, readout: str | int, time_scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Times of tokens, (B, T), and of queries, (B, Q), over the time scale, and features of the queries, (B, Q, F)."""
    batch, length, features = x.shape
    raw, query_times = same_precision(inputs.times, inputs.query_times)
    scale = time_scale or 1.0
    if raw is None:
        wide = torch.promote_types(x.dtype, torch.float32)  # half precision cannot count to 1000
        raw, scale = torch.arange(length, device=x.device, dtype=wide), POSITION_SCALE
        raw = raw if time_scale else torch.zeros_like(raw)
    raw = raw.expand(batch, -1).masked_fill(inputs.hidden, 0)
    first = first_valid(raw, inputs.hidden)
    times = ((raw - first) / scale).to(x.dtype).masked_fill(inputs.hidden, 0)
    if inputs.query is None and query_times is None and readout == "all":
        return times, times, x
    at, query = last_token(times, inputs.latest), last_token(x, inputs.latest)
    assert at is not None and query is not None
    if query_times is not None:
        at = ((query_times.expand(batch, -1) - first) / scale).to(x.dtype)
        query = x.new_zeros(batch, at.shape[1], features)  # a query that is only a time has no features
    elif inputs.query is None and isinstance(readout, int):  # learned queries have neither time nor features
        at, query = at.expand(-1, readout), x.new_zeros(batch, readout, features)
    if inputs.query is not None:
        query = inputs.query.expand(batch, -1, -1)
        at = at.expand(-1, query.shape[1])
    return times, at, query


def local_statistics(x: Tensor, times: Tensor, hidden: Tensor, at: Tensor, width: float) -> Tensor:
    """A line fitted to the observations around each time, (B, Q, 3 + 2 F).

    Their number and mean distance in time, offset and slope of the line, and the scatter around it; weights decay
    exponentially with the distance in time. `hidden` is (B, 1 or Q, T), True = ignore.
    """
    apart = times[:, None] - at[..., None]  # b q t
    closeness = (-apart.abs() / width).masked_fill(hidden, -math.inf)
    count = closeness.logsumexp(-1, keepdim=True).clamp(min=-1e3)  # no observation at all: a very small number
    w = (closeness - count).exp()
    mean, off = w @ x, (w * apart).sum(-1, keepdim=True)
    about = (apart - off).masked_fill(hidden, 0)
    ridge = (0.1 * width) ** 2  # a slope between observations that are closer than that is noise
    spread = (w * about.square()).sum(-1, keepdim=True) + ridge
    slope = ((w * about) @ x) / spread
    left = w @ x.square() - mean.square() - slope.square() * (spread + ridge)
    scatter = left.clamp(min=0).mean(-1, keepdim=True).sqrt()
    return torch.cat([count, mean, off / width, slope * width, (scatter + ROUGHNESS_FLOOR).log()], -1)
