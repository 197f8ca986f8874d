"""Encoder, attention, trunk and head: the modules that all neural methods share."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from nsac.core import matched_normal
from nsac.layers import Attention, Draws
from nsac.layers.attention import Project
from nsac.layers.init import seeded_linear
from nsac.layers.loss import gaussian_nll
from nsac.layers.reader import LOG_STD_RANGE, join_queries
from nsac.layers.tails import spread_scales, tail_width, tailed_nll
from nsac.models.encoder import AbstractEncoder, Batch, Encoded


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of a network."""

    d_model: int = 64  # sensory neurons of each kind, over all heads
    num_heads: int = 4  # attention heads
    topk: int = 8  # keys each query attends to
    sparsity: float = 0.5  # fraction of absent synapses
    circuit_units: int = 32  # neurons of the circuit that gates the logits
    hidden: int = 64  # neurons of the hidden layers between attention and outputs


class Network(nn.Module):
    """Encoder and attention with the given `dynamics`; the seed fixes wiring and initial weights."""

    def __init__(self, encoder: AbstractEncoder, config: NetworkConfig, dynamics: Literal["ou", "ode"], seed: int = 0):
        super().__init__()
        self.encoder, self.config = encoder, config
        self.attention = Attention(
            encoder.token_dim, config.d_model, config.num_heads, config.topk, config.sparsity,
            dynamics=dynamics, query_dim=encoder.query_dim, time=encoder.time, time_scale=encoder.time_scale,
            circuit_units=config.circuit_units, seed=seed,
        )  # fmt: skip

    def attend(self, encoded: Encoded, noise: Tensor | None = None, project: Project | None = None) -> Tensor:
        """Attended values, (N, B, Q, d_model), or their projection; see `Attention.attend`."""
        return self.attention(encoded.inputs, noise, project)

    def noise(self, encoded: Encoded, num_samples: int, generator: torch.Generator | None, shared: bool) -> Tensor:
        """Standard normal noise, (N, topk, B, H, Q); if `shared`, B is 1: all rows have the same noise."""
        topk, batch, heads, queries = self.attention.noise_shape(encoded.inputs)
        like = {"dtype": encoded.tokens.dtype, "device": encoded.tokens.device}
        if shared and self.encoder.shared_query_noise:
            noise = matched_normal(num_samples, 1, topk, heads, generator=generator, **like)
            return noise.permute(0, 2, 3, 1).unsqueeze(2).expand(-1, -1, -1, -1, queries)
        if shared:  # little noise, so matched moments are affordable; the noise of one query is contiguous
            noise = matched_normal(num_samples, queries, topk, heads, generator=generator, **like)
            return noise.permute(0, 2, 3, 1).unsqueeze(2)
        return torch.randn((num_samples, topk, batch, heads, queries), generator=generator, **like)


class Features(NamedTuple):
    """Inputs of a head."""

    hidden: Tensor  # (N, B, Q, hidden)
    skip: Tensor | None  # (B, Q, skip_dim)


class Trunk(nn.Module):
    """Deterministic attention, and a hidden layer on attended values and query: features for a head."""

    def __init__(self, encoder: AbstractEncoder, config: NetworkConfig, seed: int = 0):
        super().__init__()
        self.network = Network(encoder, config, "ode", seed)
        self.linear = seeded_linear(config.d_model + encoder.query_dim, config.hidden, seed + 1)

    def forward(self, batch: Batch) -> Features:
        """Features, (1, B, Q, hidden)."""
        encoded = self.network.encoder(batch)
        attended = torch.cat([self.network.attend(encoded), encoded.query.unsqueeze(0)], -1)
        return Features(gelu(self.linear(attended)), encoded.skip)


class Head(nn.Module):
    """Linear read-out of `params_per_output` of a distribution; the first also depends linearly on the skip."""

    def __init__(self, trunk: Trunk, output_dim: int, params_per_output: int, seed: int = 0):
        super().__init__()
        encoder = trunk.network.encoder
        self.params_per_output, self.per_query = params_per_output, encoder.per_query
        outputs_per_query = output_dim // encoder.queries_per_row
        self.linear = seeded_linear(trunk.network.config.hidden, params_per_output * outputs_per_query, seed)
        self.skip = seeded_linear(encoder.skip_dim, outputs_per_query, seed + 1) if encoder.skip_dim else None
        if self.skip is not None and encoder.skip_weight is not None:
            nn.init.constant_(self.skip.weight, encoder.skip_weight)

    def forward(self, features: Features) -> tuple[Tensor, ...]:
        """One tensor per parameter, (N, B, outputs), or (N, B, Q, outputs) if every query has its own outputs."""
        parameters = list(self.linear(features.hidden).chunk(self.params_per_output, -1))
        if self.skip is not None and features.skip is not None:
            parameters[0] = parameters[0] + self.skip(features.skip)
        return tuple(parameter if self.per_query else join_queries(parameter) for parameter in parameters)

    def normal(self, features: Features, num_samples: int = 1) -> Draws:
        """Mean and log standard deviation of a Gaussian read-out; the latter is clamped to its range.

        With heavy tails the draws differ in their standard deviation; a single one becomes `num_samples` of them.
        """
        mean, log_std, *tail = self(features)
        log_std = log_std.clamp(*LOG_STD_RANGE)
        return Draws(*spread_scales(mean, log_std, tail_width(tail[0]), num_samples)) if tail else Draws(mean, log_std)

    def nll(self, features: Features, y: Tensor, beta: float = 0.0) -> Tensor:
        """Negative log-likelihood of a Gaussian read-out, weighted with `beta`, or of one with heavy tails."""
        mean, log_std, *tail = self(features)
        log_std = log_std.clamp(*LOG_STD_RANGE)
        return tailed_nll(mean, log_std, tail_width(tail[0]), y) if tail else gaussian_nll(mean, log_std, y, beta)
