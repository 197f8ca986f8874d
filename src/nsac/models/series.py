"""The encoder of irregularly sampled series."""

import math
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from nsac._checks import check_dtype, check_sequence, check_shape
from nsac.layers.clock import CYCLES, TimeMode, first_valid, same_precision, time_features
from nsac.layers.init import seeded_mlp
from nsac.models.encoder import ROUGHNESS_FLOOR, AbstractEncoder, Batch, Encoded

NEAR, WHOLE = (0.02, 0.1), 0.05
"""Resolutions at which observations about the time asked, and about the window, are described, over `time_scale`."""

PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Where in the window its description looks; shares of its length."""


class SeriesEncoder(AbstractEncoder):
    """Observations at irregular times (`x`, `times`, `mask`) to one token each; `query_times` ask.

    Args:
        features: numbers per observation.
        time_scale: about the length of the observed window.
        width: size of tokens and queries.
        seed: fixes the initial weights.
    """

    time: ClassVar[TimeMode] = "elapsed"
    per_query: ClassVar[bool] = True

    def __init__(self, features: int, time_scale: float = 1.0, width: int = 64, seed: int = 0):
        super().__init__()
        self.features, self.time_scale, self.skip_dim = features, time_scale, 0
        self.token_dim = self.query_dim = width
        stamp = 1 + 2 * len(CYCLES)
        self.token = seeded_mlp(features + stamp, width, width, seed)
        self.query = seeded_mlp(stamp, width, width, seed + 1)
        self.described = 1 + len(NEAR) * (3 + 2 * features) + len(PLACES) * (3 + 2 * features)

    @override
    def describe(self, batch: Batch) -> Tensor:
        """What was observed about the time asked, at two resolutions, and about a few times of the observed window."""
        x, mask, scale = batch["x"], batch.get("mask"), self.time_scale
        times, asked = (batch[name].expand(len(x), -1) for name in ("times", "query_times"))
        times, asked = same_precision(times, asked)
        assert times is not None and asked is not None
        hidden = torch.zeros_like(times, dtype=torch.bool) if mask is None else mask
        first = first_valid(times, hidden)
        times, asked = (((t - first) / scale).to(x.dtype) for t in (times, asked))  # first, then in the precision of x
        x, times = x.masked_fill(hidden[..., None], 0), times.masked_fill(hidden, 0)
        places = times.new_tensor(PLACES) * times.amax(-1, keepdim=True)
        near = [_local(x, times, hidden, asked, width) for width in NEAR]
        whole = _local(x, times, hidden, places, WHOLE).flatten(1).unsqueeze(1).expand(-1, asked.shape[1], -1)
        return torch.cat([asked.unsqueeze(-1), *near, whole], -1)

    @override
    def forward(self, batch: Batch) -> Encoded:
        x, mask = batch["x"], batch.get("mask")
        check_shape("x", x, "(batch, time, features)", (-1, -1, self.features))
        for name in ("times", "query_times"):
            if name not in batch:
                raise ValueError(f"A batch of series must hold {name!r}. Got {sorted(batch)} instead.")
        sizes = {"input_dim": self.features, "query_dim": self.features, "takes_times": True}
        check_sequence(x, batch["times"], mask, None, batch["query_times"], causal=False, **sizes)
        check_dtype("x", x, self.token[0].weight.dtype)  # pyright: ignore[reportArgumentType]
        times, asked = (batch[name].expand(len(x), -1) for name in ("times", "query_times"))
        times, asked = same_precision(times, asked)
        assert times is not None and asked is not None
        first = first_valid(times, mask)
        tau, ask = (((t - first) / self.time_scale).to(x.dtype) for t in (times, asked))
        if mask is not None:  # what is behind the mask must not reach the token network either
            x, tau = x.masked_fill(mask[..., None], 0), tau.masked_fill(mask, 0)
        tokens = self.token(torch.cat([x, _stamp(tau)], -1))
        return Encoded(tokens, self.query(_stamp(ask)), times, asked, mask)


def _local(x: Tensor, times: Tensor, mask: Tensor, at: Tensor, width: float) -> Tensor:
    """A line fitted to the observations about each time, (B, Q, 3 + 2 F).

    How many there are and how far off they lie, level and slope, and how much they scatter; weights fall off
    exponentially with the time between.
    """
    apart = times[:, None] - at[..., None]  # b q t
    closeness = (-apart.abs() / width).masked_fill(mask[:, None], -math.inf)
    count = closeness.logsumexp(-1, keepdim=True).clamp(min=-1e3)  # nothing observed at all: as far off as can be
    w = (closeness - count).exp()
    mean, off = w @ x, (w * apart).sum(-1, keepdim=True)
    about = (apart - off).masked_fill(mask[:, None], 0)
    ridge = (0.1 * width) ** 2  # a slope between observations that are closer than that is noise
    spread = (w * about.square()).sum(-1, keepdim=True) + ridge
    slope = ((w * about) @ x) / spread
    left = w @ x.square() - mean.square() - slope.square() * (spread + ridge)
    scatter = left.clamp(min=0).mean(-1, keepdim=True).sqrt()
    return torch.cat([count, mean, off / width, slope * width, (scatter + ROUGHNESS_FLOOR).log()], -1)


def _stamp(tau: Tensor) -> Tensor:
    return torch.cat([tau[..., None], time_features(tau)], -1)
