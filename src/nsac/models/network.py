"""Encoder and attention, and the two ways to read them; what every neural method shares."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from nsac.core import matched_normal
from nsac.layers import Attention, Draws
from nsac.layers.attention import Project
from nsac.layers.init import seeded_linear
from nsac.layers.reader import LOG_STD_RANGE, join_queries
from nsac.models.encoder import AbstractEncoder, Batch, Encoded


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
    hidden: int = 64
    """neurons between attention or query and the outputs"""


class Network(nn.Module):
    """From a batch to what was attended to.

    Args:
        encoder: one of `nsac.models.encoders`.
        config: sizes.
        dynamics: `"ou"`, stochastic logits, or `"ode"`, deterministic ones.
        seed: fixes wiring and initial weights.
    """

    def __init__(self, encoder: AbstractEncoder, config: NetworkConfig, dynamics: Literal["ou", "ode"], seed: int = 0):
        super().__init__()
        self.encoder, self.config = encoder, config
        self.attention = Attention(
            encoder.token_dim, config.d_model, config.num_heads, config.topk, config.sparsity,
            dynamics=dynamics, query_dim=encoder.query_dim, time=encoder.time, time_scale=encoder.time_scale,
            circuit_units=config.circuit_units, seed=seed,
        )  # fmt: skip

    def attend(self, encoded: Encoded, noise: Tensor | None = None, project: Project | None = None) -> Tensor:
        """Attended values, (N, B, Q, d_model), or the few functions of them that `project` makes."""
        return self.attention(encoded.inputs, noise, project)

    def noise(self, encoded: Encoded, num_samples: int, generator: torch.Generator | None, shared: bool) -> Tensor:
        """Standard normal numbers for `num_samples` draws, (N, topk, B, H, Q), or B = 1: the same for every row."""
        topk, batch, heads, queries = self.attention.noise_shape(encoded.inputs)
        like = {"dtype": encoded.tokens.dtype, "device": encoded.tokens.device}
        if shared:  # few numbers, so matched moments are affordable; (N, Q, topk, H) keeps those of a query together
            noise = matched_normal(num_samples, queries, topk, heads, generator=generator, **like)
            return noise.permute(0, 2, 3, 1).unsqueeze(2)
        return torch.randn((num_samples, topk, batch, heads, queries), generator=generator, **like)


class Features(NamedTuple):
    """What a head reads."""

    hidden: Tensor  # (N, B, Q, hidden)
    skip: Tensor | None  # (B, Q, skip_dim)


class Trunk(nn.Module):
    """Deterministic attention and a hidden layer on what was attended to and who asked: features for a head.

    The arguments are those of `Network`.
    """

    def __init__(self, encoder: AbstractEncoder, config: NetworkConfig, seed: int = 0):
        super().__init__()
        self.network = Network(encoder, config, "ode", seed)
        self.linear = seeded_linear(config.d_model + encoder.query_dim, config.hidden, seed + 1)

    def forward(self, batch: Batch) -> Features:
        """Features, (1, B, Q, hidden)."""
        seen = self.network.encoder(batch)
        attended = torch.cat([self.network.attend(seen), seen.query.unsqueeze(0)], -1)
        return Features(gelu(self.linear(attended)), seen.skip)


class Head(nn.Module):
    """Linear read-out of several kinds of numbers per output; the first kind also sees the skip, linearly.

    Args:
        trunk: whose features it reads.
        outputs: numbers to predict.
        kinds: numbers per output, for instance mean and log standard deviation.
        seed: fixes the initial weights.
    """

    def __init__(self, trunk: Trunk, outputs: int, kinds: int, seed: int = 0):
        super().__init__()
        encoder = trunk.network.encoder
        self.kinds, self.per_query, outputs = kinds, encoder.per_query, outputs // encoder.queries_per_row
        self.linear = seeded_linear(trunk.network.config.hidden, kinds * outputs, seed)
        self.skip = seeded_linear(encoder.skip_dim, outputs, seed + 1) if encoder.skip_dim else None

    def forward(self, features: Features) -> tuple[Tensor, ...]:
        """One tensor per kind, (N, B, outputs), or (N, B, Q, outputs) where every query has its own."""
        first, *others = self.linear(features.hidden).chunk(self.kinds, -1)
        if self.skip is not None and features.skip is not None:
            first = first + self.skip(features.skip)
        return tuple(kind if self.per_query else join_queries(kind) for kind in (first, *others))

    def normal(self, features: Features) -> Draws:
        """Mean and log standard deviation, the two kinds of a Gaussian read-out; deviations in their range."""
        mean, log_std = self(features)
        return Draws(mean, log_std.clamp(*LOG_STD_RANGE))
