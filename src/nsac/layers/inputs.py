"""The inputs of a layer as one object, and fixed descriptions of them, without trained weights, for novelty."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nsac.layers.times import first_valid, last_token, raw_times, same_precision

ROUGHNESS_FLOOR = 1e-2  # added to standard deviations before their logarithm, in units of a standardised input
RESOLUTIONS = (0.02, 0.1, 1.0)  # widths, over the time scale, at which the observations around a query are described


class Inputs(NamedTuple):
    """A batch of sequences and its queries."""

    x: Tensor  # tokens, (B, T, features)
    times: Tensor | None = None  # observation times, (B, T) or (T,)
    mask: Tensor | None = None  # (B, T), True = ignore
    query: Tensor | None = None  # query tokens, (B, Q, features)
    query_times: Tensor | None = None  # (B, Q) or (Q,)
    causal: bool = False  # no query attends to a later token

    @property
    def hidden(self) -> Tensor:
        """The mask, (B, T); all False if none was given."""
        return self.x.new_zeros(self.x.shape[:2], dtype=torch.bool) if self.mask is None else self.mask

    @property
    def latest(self) -> Tensor | None:
        """Index of the last valid token of each row, (B,); None without a mask: the last token."""
        if self.mask is None:
            return None
        return (torch.arange(self.x.shape[1], device=self.x.device) * ~self.mask).amax(-1)


def take_rows(values: Mapping[str, Any], rows: Tensor) -> dict[str, Any]:
    """Some rows of every tensor of two or more axes, whose first is the batch; other values stay as they are."""
    return {n: v[rows] if isinstance(v, Tensor) and v.ndim > 1 else v for n, v in values.items()}


def description_dim(input_dim: int) -> int:
    """Length of the description of tokens with `input_dim` features."""
    return 1 + input_dim + len(RESOLUTIONS) * (3 + 2 * input_dim)


def describe_queries(inputs: Inputs, readout: str | int, time_scale: float | None) -> Tensor:
    """Each query, and the observations around its time at several resolutions, (B, Q, D).

    The `time_scale` is that of the layer; None for tokens without times or order.
    """
    batch, input_dim, hidden = inputs.x.shape[0], inputs.x.shape[2], inputs.hidden
    x = inputs.x.masked_fill(hidden[..., None], 0)
    times, query_times = same_precision(inputs.times, inputs.query_times)
    raw, scale = raw_times(x, times, time_scale or 1.0)
    raw = (raw if time_scale else torch.zeros_like(raw)).masked_fill(hidden, 0)
    first = first_valid(raw, hidden)
    times = ((raw - first) / scale).to(x.dtype).masked_fill(hidden, 0)
    at, query = last_token(times, inputs.latest), last_token(x, inputs.latest)
    if query_times is not None:
        at = ((query_times.expand(batch, -1) - first) / scale).to(x.dtype)
        query = x.new_zeros(batch, at.shape[1], input_dim)  # a query that is only a time has no features
    elif inputs.query is None and readout == "all":
        at, query = times, x
    elif inputs.query is None and isinstance(readout, int):  # learned queries have neither time nor features
        at, query = at.expand(-1, readout), x.new_zeros(batch, readout, input_dim)
    if inputs.query is not None:
        query = inputs.query.expand(batch, -1, -1)
        at = at.expand(-1, query.shape[1])
    hidden = hidden[:, None]
    if inputs.causal:
        hidden = hidden | (times[:, None] > at[..., None])
    around = [local_statistics(x, times, hidden, at, width) for width in RESOLUTIONS]
    return torch.cat([at.unsqueeze(-1), query, *around], -1)


def local_statistics(x: Tensor, times: Tensor, hidden: Tensor, at: Tensor, width: float) -> Tensor:
    """Weighted linear regression on the observations around each time, (B, Q, 3 + 2 F).

    The statistics are the logarithm of the total weight, the weighted mean and its time, the slope, and the logarithm
    of the residual standard deviation; weights decay exponentially with the distance in time. `hidden` is
    (B, 1 or Q, T), True = ignore.
    """
    lag = times[:, None] - at[..., None]  # b q t
    log_weight = (-lag.abs() / width).masked_fill(hidden, -math.inf)
    log_total = log_weight.logsumexp(-1, keepdim=True).clamp(min=-1e3)  # finite without any observation
    w = (log_weight - log_total).exp()
    mean, mean_lag = w @ x, (w * lag).sum(-1, keepdim=True)
    centred_lag = (lag - mean_lag).masked_fill(hidden, 0)
    ridge = (0.1 * width) ** 2  # slopes between observations that are closer in time than this are noise
    lag_variance = (w * centred_lag.square()).sum(-1, keepdim=True) + ridge
    slope = ((w * centred_lag) @ x) / lag_variance
    residual_variance = w @ x.square() - mean.square() - slope.square() * (lag_variance + ridge)
    residual_std = residual_variance.clamp(min=0).mean(-1, keepdim=True).sqrt()
    return torch.cat([log_total, mean, mean_lag / width, slope * width, (residual_std + ROUGHNESS_FLOOR).log()], -1)
