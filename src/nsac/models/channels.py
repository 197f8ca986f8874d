"""Fixed statistics of each channel of irregular observations: they depend on no weight, and on no order of tokens."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from nsac._checks import check_finite, check_sequence, check_shape
from nsac.models.encoder import Batch

RECENT_WIDTHS = (0.02, 0.1, 0.5)
"""Widths, over `time_scale`, of the exponential weights of the recent means of a channel."""
SLOPE_RIDGE = 0.2  # distance in time, over the width, below which the slope between observations is noise
SPREAD_FLOOR = 0.05  # added to the standard deviation of a channel before its logarithm, in standardised units
AGE_RESOLUTION = 0.01  # age, over `time_scale`, up to which ages differ little
LINEAR_RANGE = 5.0  # standardised values up to this size are read as they are, larger ones through a logarithm


class Events(NamedTuple):
    """Tokens of a batch, in order of time, channel and value; masked tokens come last and are 0."""

    x: Tensor  # (B, T)
    channel: Tensor  # (B, T), the number of channels for a masked token
    tau: Tensor  # (B, T), time since the forecast origin, over `time_scale`
    mask: Tensor  # (B, T), True = ignore


class ChannelStatistics(NamedTuple):
    """Statistics of each channel, (B, C); 0 for a channel without observation."""

    count: Tensor
    last: Tensor  # latest value; the mean of several at the same time
    age: Tensor  # time from the latest value to the origin, over `time_scale`
    mean: Tensor
    std: Tensor
    recent: Tensor  # (B, C, len(RECENT_WIDTHS)), means with exponential weights
    slope: Tensor  # (B, C, len(RECENT_WIDTHS)), of regressions on time with these weights, per width
    low: Tensor
    high: Tensor

    @property
    def observed(self) -> Tensor:
        """Whether a channel has an observation."""
        return self.count > 0

    def features(self) -> Tensor:
        """All of them as inputs of a network, (B, C, FEATURES)."""
        seen = self.observed.to(self.last)
        spread = (self.std + SPREAD_FLOOR).log() - math.log(SPREAD_FLOOR)
        columns = [
            seen, self.count.log1p(), self.last, log_age(self.age), self.mean, spread, self.low, self.high
        ]  # fmt: skip
        return torch.cat([torch.stack(columns, -1), self.recent - self.last.unsqueeze(-1), self.slope], -1)


FEATURES = 8 + 2 * len(RECENT_WIDTHS)  # numbers of `ChannelStatistics.features`


def log_age(age: Tensor) -> Tensor:
    """Logarithm of an age over `time_scale`, 0 at age 0."""
    return (age / AGE_RESOLUTION).log1p()


def compress(x: Tensor) -> Tensor:
    r"""$x$ up to $|x| = c$ = `LINEAR_RANGE`, then $\pm c\,(1 + \log(|x| / c))$: smooth, odd and monotone.

    A single wrong entry (a pH of 735) would otherwise drive every prediction of its row far out of range.
    """
    c = LINEAR_RANGE
    return torch.where(x.abs() <= c, x, x.sign() * c * (1 + (x.abs() / c).clamp(min=1).log()))


def expand(z: Tensor) -> Tensor:
    """The inverse of `compress`."""
    c = LINEAR_RANGE
    return torch.where(z.abs() <= c, z, z.sign() * c * ((z.abs() / c).clamp(min=1) - 1).exp())


def read_events(batch: Batch, channels: int, time_scale: float) -> Events:
    """The checked tokens of a batch. The result does not depend on their order, nor on masked ones."""
    x, times, channel = batch["x"], batch["times"], batch["channel"]
    mask = batch.get("mask")
    check_shape("x", x, "(batch, observations)", (-1, -1))
    check_shape("channel", channel, "(batch, observations)", tuple(x.shape))
    sizes = {"input_dim": 1, "query_dim": 1, "time_scale": time_scale}
    check_sequence(x[..., None], times, mask, None, batch["query_times"], causal=False, **sizes)
    hidden = torch.zeros_like(x, dtype=torch.bool) if mask is None else mask
    late = times.masked_fill(hidden, 0) > 0
    if not torch.compiler.is_compiling() and late.any():
        raise ValueError(
            f"`times` must be at most 0, the forecast origin. Got {times[late].max().item()} instead. "
            "Observations after the origin are not known: leave them out, or mask them."
        )
    check_channel("channel", channel.masked_fill(hidden, 0), channels)
    channel = channel.masked_fill(hidden, channels)
    x = x.masked_fill(hidden, 0)
    times = times.masked_fill(hidden, math.inf)
    if x.shape[1] == 1:  # a layer warns of a single key
        x, channel = _pad(x, 0), _pad(channel, channels)
        times, hidden = _pad(times, math.inf), _pad(hidden, 1)
    order = x.argsort(stable=True)
    order = order.gather(1, channel.gather(1, order).argsort(stable=True))
    order = order.gather(1, times.gather(1, order).argsort(stable=True))
    x, channel, times, hidden = (each.gather(1, order) for each in (x, channel, times, hidden))
    tau = (times.masked_fill(hidden, 0) / time_scale).to(x.dtype)
    return Events(x, channel, tau, hidden)


def check_channel(name: str, channel: Tensor, channels: int) -> None:
    """Channels are whole numbers from 0 to `channels` - 1."""
    if channel.is_floating_point() or channel.dtype == torch.bool:
        raise ValueError(f"`{name}` must have an integer type. Got {channel.dtype} instead. Call `{name}.long()`.")
    if torch.compiler.is_compiling() or not channel.numel():
        return
    low, high = (int(end) for end in channel.aminmax())
    if low < 0 or high >= channels:
        raise ValueError(f"`{name}` must be from 0 to {channels - 1}. Got {low if low < 0 else high} instead.")


def channel_statistics(events: Events, channels: int) -> ChannelStatistics:
    """Statistics of each channel over the observed window."""
    x, channel, tau, hidden = events
    known = (~hidden).to(x)

    def total(values: Tensor) -> Tensor:  # b t -> b c
        return values.new_zeros(len(values), channels + 1).scatter_add(1, channel, values)

    def extreme(values: Tensor, kind: str) -> Tensor:
        start = values.new_zeros(len(values), channels + 1)
        return start.scatter_reduce(1, channel, values, kind, include_self=False)

    count = total(known)
    divisor = count.clamp(min=1)
    mean = total(x) / divisor
    std = (total((x - mean.gather(1, channel)).square() * known) / divisor).sqrt()
    latest = extreme(tau, "amax")
    lag = tau - latest.gather(1, channel)  # at most 0
    is_last = (lag == 0) * known
    last = total(x * is_last) / total(is_last).clamp(min=1)
    recent, slope = [], []
    for width in RECENT_WIDTHS:
        weight = (lag / width).exp() * known
        sum_weight = total(weight).clamp(min=1e-12)  # at least 1, the weight of the latest value, if there is one
        recent.append(total(weight * x) / sum_weight)
        centred = (lag - (total(weight * lag) / sum_weight).gather(1, channel)) / width
        variance = total(weight * centred.square()) / sum_weight + SLOPE_RIDGE**2
        slope.append(total(weight * centred * x) / sum_weight / variance)
    recent, slope = torch.stack(recent, -1), torch.stack(slope, -1)
    columns = [count, last, -latest, mean, std, recent, slope, extreme(x, "amin"), extreme(x, "amax")]
    return ChannelStatistics(*[column[:, :-1] for column in columns])


def fill_unknown(name: str, values: Tensor) -> Tensor:
    """Known numbers, compressed, 0 where one is unknown (NaN), and a flag for each: (..., S) -> (..., 2 S)."""
    unknown = values.isnan()
    filled = values.masked_fill(unknown, 0)
    check_finite(name, filled)
    return torch.cat([compress(filled), unknown.to(values.dtype)], -1)


def _pad(values: Tensor, value: float) -> Tensor:
    return torch.nn.functional.pad(values, (0, 1), value=value)
