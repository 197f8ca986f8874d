"""Irregular series: observations as tokens, prediction at any time by cross-attention from query times."""

import torch
from torch import Tensor, nn

from nsac.layers import Attention, Draws
from nsac.layers.clock import CYCLES, time_features
from nsac.layers.linear import seeded_linear


class SeriesModel(nn.Module):
    """Token and query networks, stochastic attention, and a head that reads what was attended and who asked.

    Args:
        input_dim: numbers per observation.
        output_dim: numbers to predict per query time.
        d_model, num_heads, topk, sparsity: of the attention.
        time_scale: about the length of the observed window.
        seed: fixes wiring and initial weights.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        d_model: int = 64,
        num_heads: int = 4,
        topk: int = 8,
        sparsity: float = 0.5,
        time_scale: float = 1.0,
        seed: int = 0,
    ):
        super().__init__()
        self.time_scale = time_scale
        stamp = 1 + 2 * len(CYCLES)
        self.token = _mlp(input_dim + stamp, d_model, d_model, seed)
        self.query = _mlp(stamp, d_model, d_model, seed + 2)
        self.attention = Attention(d_model, d_model, num_heads, topk, sparsity, time_scale=time_scale, seed=seed)
        self.head = _mlp(2 * d_model, d_model, 2 * output_dim, seed + 4)

    def forward(
        self,
        x: Tensor,
        times: Tensor,
        query_times: Tensor,
        mask: Tensor | None = None,
        num_samples: int = 5,
        generator: torch.Generator | None = None,
    ) -> Draws:
        """Draws of mean and log standard deviation at the query times, (N, B, Q, output_dim)."""
        first = times[:, :1]
        tau, asked = ((t - first) / self.time_scale for t in (times, query_times.expand(len(x), -1)))
        tokens = self.token(torch.cat([x, _stamp(tau)], -1))
        query = self.query(_stamp(asked))
        noise = None
        if num_samples:
            shape = (num_samples, *self.attention.noise_shape(tokens, query, None))
            noise = torch.randn(shape, generator=generator, dtype=x.dtype, device=x.device)
        attended = self.attention(tokens, times, mask, query, query_times, noise=noise)
        return Draws(*self.head(torch.cat([attended, query.expand_as(attended)], -1)).chunk(2, -1))


def _stamp(tau: Tensor) -> Tensor:
    return torch.cat([tau[..., None], time_features(tau)], -1)


def _mlp(inputs: int, hidden: int, outputs: int, seed: int) -> nn.Sequential:
    return nn.Sequential(seeded_linear(inputs, hidden, seed), nn.GELU(), seeded_linear(hidden, outputs, seed + 1))
