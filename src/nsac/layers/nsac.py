"""NSAC: attention with Ornstein-Uhlenbeck logits, and draws of mean and log standard deviation on top."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from nsac._checks import check_int, check_shape, warn_single_key
from nsac.layers.attention import Attention, Readout, Selection
from nsac.layers.clock import TimeMode
from nsac.layers.init import seeded_linear
from nsac.uncertainty import Prediction


class Draws(NamedTuple):
    """Gaussian predictions, one per draw of the noise."""

    mean: Tensor  # (N, batch, ..., output)
    log_std: Tensor  # logarithm of the standard deviation


class NSAC(nn.Module):
    r"""Neuronal Stochastic Attention Circuit.

    Every logit follows $da = \kappa(\phi - a)\,dt + \psi\,dW$ from 0, with gates computed by a sparse circuit from the
    query-key pair, so it is Gaussian in closed form. N draws of the logits share one computation of the gates.

    Args:
        input_dim: features of a token.
        output_dim: numbers to predict.
        d_model: sensory neurons of each kind (query, key, value), over all heads.
        num_heads: heads; must divide `d_model`.
        topk: keys each query looks at.
        sparsity: share of synapses left out, 0.1 to 0.9.
        readout: who asks. `"last"` valid token, `"all"` tokens, or a number of learned queries.
        time: `"elapsed"`: the clock sees the time between query and key, so shifting all times changes nothing;
            `"absolute"`: the query's own time; `"none"`: tokens are a set, without times or order.
        time_scale: how much time is long, about the length of a window.
        circuit_units: neurons of the circuit that gates the logits.
        unfolds: recurrent steps of its command neurons.
        selection: `"exact"`, `"sqrt"`, or `"auto"`: exact while that is cheaper.
        seed: fixes wiring and initial weights.

    Example:
        >>> layer = NSAC(input_dim=3, output_dim=2)
        >>> draws = layer(torch.randn(8, 50, 3), num_samples=5)
        >>> draws.mean.shape
        torch.Size([5, 8, 2])
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        d_model: int = 64,
        num_heads: int = 16,
        topk: int = 8,
        sparsity: float = 0.5,
        readout: Readout = "last",
        *,
        time: TimeMode = "elapsed",
        time_scale: float = 1.0,
        circuit_units: int = 32,
        unfolds: int = 1,
        selection: Selection = "auto",
        seed: int = 0,
    ):
        super().__init__()
        check_int("output_dim", output_dim)
        self.output_dim = output_dim
        self.attention = Attention(
            input_dim, d_model, num_heads, topk, sparsity, readout,
            dynamics="ou", time=time, time_scale=time_scale,
            circuit_units=circuit_units, unfolds=unfolds, selection=selection, seed=seed,
        )  # fmt: skip
        self.streams = seeded_linear(d_model, 2 * d_model, seed)
        self.mean = seeded_linear(d_model, output_dim, seed + 1)
        self.log_std = seeded_linear(d_model, output_dim, seed + 2)

    def forward(
        self,
        x: Tensor,
        times: Tensor | None = None,
        mask: Tensor | None = None,
        query: Tensor | None = None,
        query_times: Tensor | None = None,
        causal: bool = False,
        num_samples: int = 5,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
    ) -> Draws:
        """Draws of the prediction.

        Args:
            x: tokens, (B, T, input_dim).
            times: when they were observed, (B, T) or (T,). None: regular steps.
            mask: (B, T), True = ignore, as in `torch.nn.MultiheadAttention`.
            query: tokens that ask, (B, Q, input_dim), instead of the read-out.
            query_times: when to predict, (B, Q) or (Q,), inside or beyond the window.
            causal: no query sees a later token.
            num_samples: draws N; 0 for the noise-free pass, which counts as one draw.
            generator: source of the noise.
            noise: standard normal numbers of shape (N, topk, B, num_heads, Q) in place of `num_samples` and
                `generator`, for exported graphs and for the same noise twice.

        Returns:
            mean, log_std: (N, B, output_dim) for `"last"`, otherwise (N, B, Q, output_dim).
        """
        self.attention.check(x, times, mask, query, query_times, causal)
        warn_single_key(x.shape[1], self.attention.topk, mask)
        check_int("num_samples", num_samples, minimum=0)
        shape = self.attention.noise_shape(x, query, query_times)
        if noise is not None:
            check_shape("noise", noise, "(draws, topk, batch, heads, queries)", (-1, *shape))
        elif num_samples:
            noise = torch.randn((num_samples, *shape), generator=generator, dtype=x.dtype, device=x.device)
        attended = self.attention(x, times, mask, query, query_times, causal, noise)
        mean, log_std = self.streams(attended).chunk(2, -1)
        draws = Draws(self.mean(mean), self.log_std(log_std))
        single = self.attention.readout == "last" and query is None and query_times is None
        return Draws(*(d.squeeze(-2) for d in draws)) if single else draws

    @torch.no_grad()
    def predict(self, x: Tensor, *args, num_samples: int = 20, **kwargs) -> Prediction:
        """The mixture of the draws as a distribution. Takes what `forward` takes; no gradient is kept."""
        return Prediction(*self(x, *args, num_samples=num_samples, **kwargs))

    @torch.no_grad()
    def trace(self, x, times=None, mask=None, query=None, query_times=None, causal=False) -> dict[str, Tensor]:
        """Potentials of every cell in the noise-free pass, to look inside.

        Returns:
            q, k, v: (B, H, Q or T, D), sensory neurons.
            inter, command: (B, H, Q, K, neurons), the circuit of each query-key pair.
            kappa, phi, psi: (B, H, Q, K), motor neurons, that is gates.
            t, mu, sigma, weights: (B, H, Q, K), internal time, moments of the logit, attention weight.
            index: (B, H, Q, K), which key each entry is about.
        """
        self.attention.check(x, times, mask, query, query_times, causal)
        return self.attention.trace(x, times, mask, query, query_times, causal)

    def extra_repr(self) -> str:  # noqa: D102
        return f"output_dim={self.output_dim}"
