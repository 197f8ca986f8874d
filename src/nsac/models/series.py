"""Irregular series: observations as tokens, prediction at any time by cross-attention from query times."""

import torch
from torch import Tensor, nn

from nsac._checks import check_sequence, warn_single_key
from nsac.layers import Attention, Draws
from nsac.layers.clock import CYCLES, first_valid, time_features
from nsac.layers.init import seeded_linear


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
        self.input_dim, self.time_scale = input_dim, time_scale
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
        """Draws of mean and log standard deviation at the query times, (N, B, Q, output_dim).

        Args:
            x: observations, (B, T, input_dim).
            times: when they were made, (B, T) or (T,).
            query_times: when to predict, (B, Q) or (Q,), inside or beyond the window.
            mask: (B, T), True = ignore.
            num_samples: draws N; 0 for the noise-free pass.
            generator: source of the noise.
        """
        check_sequence(
            x,
            times,
            mask,
            None,
            query_times,
            False,
            input_dim=self.input_dim,
            query_dim=self.input_dim,
            takes_times=True,
        )
        warn_single_key(x.shape[1], self.attention.topk, mask)
        times, query_times = times.expand(len(x), -1), query_times.expand(len(x), -1)
        first = first_valid(times, mask)
        tau, asked = (((t - first) / self.time_scale).to(x.dtype) for t in (times, query_times))
        if mask is not None:  # what is behind the mask must not reach the token network either
            x, tau = x.masked_fill(mask[..., None], 0), tau.masked_fill(mask, 0)
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
