"""Encoder and attention, and the two ways to read them; what every neural method shares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from nsac._checks import warn_single_key
from nsac.core import matched_normal
from nsac.layers import Attention, Draws
from nsac.layers.attention import Project
from nsac.layers.init import seeded_linear, seeded_mlp
from nsac.models.encoder import AbstractEncoder, Batch, Encoded
from nsac.models.novelty import Doubt


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

    def attend(self, seen: Encoded, noise: Tensor | None = None, project: Project | None = None) -> Tensor:
        """Attended values, (N, B, Q, d_model), or the few functions of them that `project` makes."""
        return self.attention(
            seen.tokens, seen.times, seen.mask, seen.query, seen.query_times, noise=noise, project=project
        )

    def noise(self, seen: Encoded, num_samples: int, generator: torch.Generator | None, shared: bool) -> Tensor:
        """Standard normal numbers for `num_samples` draws, (N, topk, B, H, Q), or B = 1: the same for every row."""
        topk, batch, heads, queries = self.attention.noise_shape(seen.tokens, seen.query, None)
        kind = {"dtype": seen.tokens.dtype, "device": seen.tokens.device}
        if shared:  # the few numbers of all rows are worth the trouble; (N, Q, topk, H) keeps those of a query together
            noise = matched_normal(num_samples, queries, topk, heads, generator=generator, **kind)
            return noise.permute(0, 2, 3, 1).unsqueeze(2)
        return torch.randn((num_samples, topk, batch, heads, queries), generator=generator, **kind)


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


LOG_STD = (-10.0, 3.0)
"""Range of the logarithm of a deviation; far from the data a linear read-out would leave every scale behind."""


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
        self.kinds, self.per_query, outputs = kinds, encoder.per_query, outputs // encoder.asking
        self.linear = seeded_linear(trunk.network.config.hidden, kinds * outputs, seed)
        self.skip = seeded_linear(encoder.skip_dim, outputs, seed + 1) if encoder.skip_dim else None

    def forward(self, features: Features) -> tuple[Tensor, ...]:
        """One tensor per kind, (N, B, outputs), or (N, B, Q, outputs) where every query has its own."""
        first, *others = self.linear(features.hidden).chunk(self.kinds, -1)
        if self.skip is not None and features.skip is not None:
            first = first + self.skip(features.skip)
        return tuple(kind if self.per_query else _row(kind) for kind in (first, *others))

    def normal(self, features: Features) -> Draws:
        """Mean and log standard deviation, the two kinds of a Gaussian read-out; deviations in their range."""
        mean, log_std = self(features)
        return Draws(mean, log_std.clamp(*LOG_STD))


def _row(asked: Tensor) -> Tensor:  # n b q o -> n b (o q)
    """Outputs of all queries as one row."""
    return asked.mT.flatten(-2)


SILENCE = 1e-6
"""Deviation of the mean below which draws do not differ: no noise in the logits can say anything there."""


class LinearReader(nn.Module):
    r"""Stochastic attention, read linearly: mean and log standard deviation of each draw.

    $o_n = W\,(g \odot a_n) + V h$, with the attended values $a_n$ of draw n, hidden layers $h(q, \bar a)$ on the query
    and on what it gets without noise, and a gate $g = 1 + G h$. What is nonlinear is the same for all draws, and is
    computed once; and as the rest is linear in $a_n$, W can be applied to the values before they are weighed. A draw
    then costs a softmax and a few sums.

    Args:
        network: with stochastic logits.
        outputs: numbers to predict.
        seed: fixes the initial weights.
    """

    def __init__(self, network: Network, outputs: int, seed: int = 0):
        super().__init__()
        config, encoder = network.config, network.encoder
        self.heads, self.per_query, outputs = config.num_heads, encoder.per_query, outputs // encoder.asking
        self.hidden = seeded_mlp(encoder.query_dim + config.d_model, config.hidden, config.hidden, seed)
        self.gate = seeded_linear(config.hidden, config.d_model, seed + 1)
        self.attended = seeded_linear(config.d_model, 2 * outputs, seed + 2)
        self.direct = seeded_linear(config.hidden, 2 * outputs, seed + 3)
        self.skip = seeded_linear(encoder.skip_dim, outputs, seed + 4) if encoder.skip_dim else None
        with torch.no_grad():  # start with deviations near 1, the spread of a standardised target
            for part in (self.attended, self.direct):
                part.weight[outputs:] *= 0.1

    def forward(
        self,
        network: Network,
        batch: Batch,
        num_samples: int,
        generator: torch.Generator | None,
        shared: bool,
        doubt: Callable[[], Doubt] | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Draws of mean and log standard deviation, (N, B, outputs), or (N, B, Q, outputs).

        With `doubt`, of (B, Q), the mean varies by that over draws, on average over outputs, and deviations have a
        lower limit. `noise`, as `network.noise` draws it, takes the place of a generator.
        """
        seen = network.encoder(batch)
        warn_single_key(seen.tokens.shape[1], network.config.topk, None)
        noise = network.noise(seen, num_samples, generator, shared) if noise is None else noise
        query = seen.query.expand(seen.tokens.shape[0], -1, -1)
        weight = self.attended.weight.unflatten(-1, (self.heads, -1))  # c h d
        narrow, hidden = weight.shape[0] <= weight.shape[2], []

        def project(values: Tensor, usual: Tensor, rows: slice) -> Tensor:
            known = torch.cat([query[:, rows], usual.permute(1, 3, 2, 0).flatten(-2)], -1)  # b q (e + h d)
            hidden.append(gelu(self.hidden(known)))
            gate = 1 + self.gate(hidden[-1]).unflatten(-1, (self.heads, -1)).permute(3, 0, 2, 1).unsqueeze(1)
            gated = values * gate  # d k b h q
            return torch.einsum("chd,dkbhq->ckbhq", weight, gated) if narrow else gated

        out = network.attend(seen, noise, project)
        if narrow:  # what is left is the sum over heads, as a product because that is fastest
            out = linear(
                out,
                torch.eye(len(weight), dtype=out.dtype, device=out.device).repeat(1, self.heads),
                self.attended.bias,
            )
        else:
            out = self.attended(out)
        mean, log_std = (out + self.direct(torch.cat(hidden, 1))).chunk(2, -1)
        straight = self.skip(seen.skip) if self.skip is not None and seen.skip is not None else None
        if not self.per_query:  # the rest is done for a row as a whole
            mean, log_std = (_row(each).unsqueeze(-2) for each in (mean, log_std))
            straight = straight if straight is None else _row(straight).unsqueeze(-2)
        low, high = LOG_STD
        if doubt is None:
            log_std = log_std.clamp(low, high)
        else:
            variance, least = doubt()
            mean = _vary(mean, variance.unsqueeze(-1), noise[:, 0, :, 0, : mean.shape[-2]].unsqueeze(-1))
            log_std = torch.maximum(log_std, least.clamp(min=low)).clamp(max=high)
        mean = mean if straight is None else mean + straight
        return (mean, log_std) if self.per_query else (mean.squeeze(-2), log_std.squeeze(-2))


def _vary(mean: Tensor, doubt: Tensor, noise: Tensor) -> Tensor:  # n b q o, b q 1, n b q 1 -> n b q o
    """Scale draws about their mean so that their variance is `doubt`, on average over outputs.

    To first order a draw differs from the mean in proportion to psi, so this is to scale psi, query by query. Beyond,
    where softmax would saturate, it is exact; and the mean stays what it was. Where draws do not differ, since a query
    has one key or none, the noise itself takes their place.
    """
    centre = mean.mean(0)
    away = torch.add(mean - centre, noise, alpha=SILENCE)
    spread = away.square().mean((0, -1)).unsqueeze(-1)
    return torch.addcmul(centre, away, (doubt / spread.clamp(min=SILENCE**4)).sqrt())
