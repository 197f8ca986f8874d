"""NAC: deterministic attention."""

import torch
from torch import Tensor, nn

from nsac.layers.attention import Attention, Readout, Selection
from nsac.layers.clock import TimeMode
from nsac.layers.init import seeded_linear
from nsac.layers.inputs import Inputs


class NAC(nn.Module):
    r"""Neuronal Attention Circuit: attention whose logits solve $da/dt = \gamma - \omega a$ in closed form.

    It has no noise and no draws; other uncertainty methods use it as their penultimate layer. The arguments are those
    of `Attention`.
    """

    def __init__(
        self,
        input_dim: int,
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
        self.attention = Attention(
            input_dim, d_model, num_heads, topk, sparsity, readout,
            dynamics="ode", time=time, time_scale=time_scale,
            circuit_units=circuit_units, unfolds=unfolds, selection=selection, seed=seed,
        )  # fmt: skip
        self.output = seeded_linear(d_model, d_model, seed)

    def forward(
        self,
        x: Tensor,
        times: Tensor | None = None,
        mask: Tensor | None = None,
        query: Tensor | None = None,
        query_times: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """Features, (B, d_model) for `"last"`, otherwise (B, Q, d_model). The arguments are those of `NSAC`."""
        inputs = Inputs(x, times, mask, query, query_times, causal)
        self.attention.check(inputs)
        features = self.output(self.attention(inputs)[0])
        single = self.attention.readout == "last" and query is None and query_times is None
        return features.squeeze(-2) if single else features

    @torch.no_grad()
    def trace(
        self,
        x: Tensor,
        times: Tensor | None = None,
        mask: Tensor | None = None,
        query: Tensor | None = None,
        query_times: Tensor | None = None,
        causal: bool = False,
    ) -> dict[str, Tensor]:
        """Every cell's potential; see `NSAC.trace`, with gates gamma and omega and without sigma."""
        inputs = Inputs(x, times, mask, query, query_times, causal)
        self.attention.check(inputs)
        return self.attention.trace(self.attention.select(inputs))
