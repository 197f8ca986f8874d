"""NAC: deterministic attention."""

from torch import Tensor

from nsac.layers.attention import AbstractLayer, Attention, Readout, Selection
from nsac.layers.init import seeded_linear
from nsac.layers.inputs import Inputs
from nsac.layers.times import TimeMode


class NAC(AbstractLayer):
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
        inputs = self.attention.checked(Inputs(x, times, mask, query, query_times, causal))
        return self._one_per_row(self.output(self.attention(inputs)[0]), inputs)
