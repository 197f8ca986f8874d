"""Encoder, attention and trunk; what every neural method shares, up to its own head."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from nsac.layers import Attention
from nsac.layers.init import seeded_linear
from nsac.models.encoders import AbstractEncoder, Batch


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of a network."""

    d_model: int = 64
    """sensory neurons of each kind, over all heads"""
    num_heads: int = 4
    """attention heads"""
    topk: int = 8
    """keys a query looks at"""
    sparsity: float = 0.5
    """share of synapses left out"""
    circuit_units: int = 32
    """neurons of the circuit that gates the logits"""
    queries: int = 4
    """learned queries, where the data brings none"""
    hidden: int = 64
    """neurons between attention and head"""


class Hidden(NamedTuple):
    """What a head reads."""

    features: Tensor  # (N, B, R, hidden); R is the number of queries, or 1
    skip: Tensor | None  # (B, skip_dim)


class Network(nn.Module):
    """From a batch to features: encoder, attention with the given dynamics, one hidden layer.

    Args:
        encoder: one of `nsac.models.encoders`.
        config: sizes.
        dynamics: `"ou"`, stochastic logits, or `"ode"`, deterministic ones.
        seed: fixes wiring and initial weights.
    """

    def __init__(self, encoder: AbstractEncoder, config: NetworkConfig, dynamics: Literal["ou", "ode"], seed: int = 0):
        super().__init__()
        self.encoder = encoder
        self.attention = Attention(
            encoder.token_dim, config.d_model, config.num_heads, config.topk, config.sparsity,
            config.queries if encoder.query_dim is None else "last",
            dynamics=dynamics, query_dim=encoder.query_dim, time=encoder.time,
            time_scale=encoder.time_scale, circuit_units=config.circuit_units, seed=seed,
        )  # fmt: skip
        attended = config.queries * config.d_model if encoder.query_dim is None else config.d_model
        self.trunk = seeded_linear(attended + (encoder.query_dim or 0), config.hidden, seed + 1)
        self.width = config.hidden

    def forward(self, batch: Batch, num_samples: int = 0, generator: torch.Generator | None = None) -> Hidden:
        """Features of `num_samples` draws of the logits; 0 for the noise-free pass, which counts as one."""
        seen = self.encoder(batch)
        noise = None
        if num_samples:
            shape = (num_samples, *self.attention.noise_shape(seen.tokens, seen.query, None))
            noise = torch.randn(shape, generator=generator, dtype=seen.tokens.dtype, device=seen.tokens.device)
        attended = self.attention(seen.tokens, seen.times, seen.mask, seen.query, seen.query_times, noise=noise)
        if seen.query is None:
            attended = attended.flatten(-2).unsqueeze(-2)  # all queries answer together
        else:
            attended = torch.cat([attended, seen.query.expand(len(attended), -1, -1, -1)], -1)
        return Hidden(gelu(self.trunk(attended)), seen.skip)


class Head(nn.Module):
    """Linear read-out of several kinds of numbers per output; the first kind also sees the skip, linearly.

    Args:
        network: whose features it reads.
        outputs: numbers to predict.
        kinds: numbers per output, for instance mean and log standard deviation.
        seed: fixes the initial weights.
    """

    def __init__(self, network: Network, outputs: int, kinds: int, seed: int = 0):
        super().__init__()
        self.kinds, self.per_query = kinds, network.encoder.per_query
        self.linear = seeded_linear(network.width, kinds * outputs, seed)
        skip = network.encoder.skip_dim
        self.skip = seeded_linear(skip, outputs, seed + 1) if skip else None

    def forward(self, hidden: Hidden) -> tuple[Tensor, ...]:
        """One tensor per kind, (N, B, outputs), or (N, B, Q, outputs) where every query has its own."""
        first, *others = self.linear(hidden.features).chunk(self.kinds, -1)
        if self.skip is not None and hidden.skip is not None:
            first = first + self.skip(hidden.skip).unsqueeze(-2)
        return tuple(kind if self.per_query else kind.squeeze(-2) for kind in (first, *others))
