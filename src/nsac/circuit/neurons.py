"""Neurons along a wiring, with one parameter per synapse: sensory layers, and the circuit that gates a logit."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from nsac.circuit.wiring import Wiring


class Synapses(nn.Module):
    """Weights W, (from, to), zero outside the adjacency, and bias; only existing synapses are parameters.

    Initial weights are N(0, 1 / fan-in), with each neuron's own fan-in, so that the signal keeps its scale.
    """

    index: Tensor
    bias: Tensor

    def __init__(self, adjacency: np.ndarray, generator: torch.Generator, bias: bool = True):
        super().__init__()
        self.shape, self.biased = adjacency.shape, bias
        source, target = np.nonzero(adjacency)
        self.register_buffer("index", torch.from_numpy(source * adjacency.shape[1] + target))
        scale = torch.from_numpy(adjacency.sum(0)[target] ** -0.5).to(torch.get_default_dtype())
        self.weight = nn.Parameter(torch.randn(len(source), generator=generator) * scale)
        if bias:
            self.bias = nn.Parameter(0.1 * torch.randn(adjacency.shape[1], generator=generator))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take the wiring from the file: with another seed the number of synapses may differ."""
        index = state_dict.get(f"{prefix}index")
        if index is not None and index.shape != self.index.shape:
            self.index = torch.empty_like(index, device=self.index.device)
            self.weight = nn.Parameter(self.weight.new_empty(len(index)))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def matrix(self) -> Tensor:
        """The dense (from, to) matrix."""
        if self.weight.ndim == 2:
            return self.weight
        size = self.shape[0] * self.shape[1]
        return self.weight.new_zeros(size).scatter(0, self.index, self.weight).view(self.shape)

    @torch.no_grad()
    def densify(self) -> None:
        """Store absent synapses too, with weight 0: layers of any wiring then have tensors of the same shapes."""
        self.weight = nn.Parameter(self.matrix())
        self.index = torch.arange(self.weight.numel(), device=self.index.device)

    def extra_repr(self) -> str:  # noqa: D102
        return f"{self.shape[0]} -> {self.shape[1]}, {len(self.index)} synapses"


class Sensory(nn.Module):
    """Sparse affine map of features and of time features, each with its wiring. No recurrence, no loop over time."""

    def __init__(self, wiring: np.ndarray, time_wiring: np.ndarray, generator: torch.Generator):
        super().__init__()
        self.input_dim = len(wiring)
        self.synapses = Synapses(np.concatenate([wiring, time_wiring]), generator)

    @torch.no_grad()
    def copy_time_weights(self, other: "Sensory") -> None:
        """Take the weights of the time synapses from a layer with the same time wiring."""
        ours, theirs = [s.synapses.index >= s.input_dim * s.synapses.shape[1] for s in (self, other)]
        self.synapses.weight[ours] = other.synapses.weight[theirs]


def sense(x: Tensor | None, time: Tensor | None, *layers: Sensory) -> tuple[Tensor, ...]:
    """Potentials, (B, T, neurons), of each of the sensory layers that share an input, in one matrix product.

    Features `x` are (B, T, F), or None for a query that is only a time; time features are (B, T, G), or None for tokens
    without a time.
    """
    given = [features for features in (x, time) if features is not None]
    inputs = given[0] if len(given) == 1 else torch.cat(given, -1)
    input_dim = layers[0].input_dim
    used = slice(0 if x is not None else input_dim, None if time is not None else input_dim)
    weight = torch.cat([layer.synapses.matrix()[used].mT for layer in layers])
    bias = torch.cat([layer.synapses.bias for layer in layers])
    return linear(inputs, weight, bias).chunk(len(layers), -1)


class Potentials(NamedTuple):
    """Cell potentials of the circuit, one circuit per query-key pair."""

    inter: Tensor  # (inter, ...), as (1 + tanh) / 2
    command: Tensor  # (command, ...), as (1 + tanh) / 2
    motor: Tensor  # (motor, ...), before the gates' nonlinearities


class Backbone(nn.Module):
    r"""`u = [q; k] -> inter -> command -> motor` along a wiring, with tanh cells. Neurons are the first axis.

    The first layer is linear in u, so $W u = W_q q + W_k k$: the caller multiplies by the two `halves` separately,
    once per query and once per key, and adds the products per pair. Recurrent command synapses act `unfolds` times:
    $c_0 = \tanh(W_{ic} i + b)$, $c_{s+1} = \tanh(W_{ic} i + W_{cc} c_s + b)$.

    A cell is computed as $\sigma(2z) = (1 + \tanh z)/2$, because the logistic function is vectorised and takes a sixth
    of the time. The factor 2 of z and the conversion back to tanh are part of the small matrices before and after it.
    """

    def __init__(self, wiring: Wiring, unfolds: int, generator: torch.Generator):
        super().__init__()
        self.unfolds = unfolds
        self.sensory = Synapses(wiring.sensory, generator)
        self.inter = Synapses(wiring.inter, generator)
        self.recurrent = Synapses(wiring.recurrent, generator, bias=False) if unfolds else None
        self.motor = Synapses(wiring.motor, generator)

    def halves(self, dim: int) -> tuple[Tensor, Tensor, Tensor]:
        """Twice W_q and W_k, transposed to (inter, dim), and twice the bias, (inter, 1)."""
        w_q, w_k = (2 * self.sensory.matrix().mT).split(dim, 1)
        return w_q, w_k, 2 * self.sensory.bias[:, None]

    def forward(self, from_query: Tensor, from_key: Tensor) -> Potentials:
        """Potentials of each pair, from the products of `halves` with query (plus bias) and with key, (inter, ...)."""
        inter = torch.sigmoid(from_query + from_key)
        drive = _through(self.inter, inter, gain=2)
        command = torch.sigmoid(drive)
        if self.recurrent is not None:
            for _ in range(self.unfolds):
                command = torch.sigmoid(drive + _through(self.recurrent, command, gain=2))
        return Potentials(inter, command, _through(self.motor, command, gain=1))


def _through(synapses: Synapses, cells: Tensor, gain: float) -> Tensor:
    r"""The gain times $(W^T\tanh z + b)$, given $s = (1 + \tanh z)/2$: that is gain $(2 W^T s + b - W^T 1)$."""
    weight = synapses.matrix().mT
    total = weight.sum(1, keepdim=True)
    shift = synapses.bias[:, None] - total if synapses.biased else -total
    out = torch.addmm(shift, weight, cells.flatten(1), beta=gain, alpha=2 * gain)
    return out.unflatten(1, cells.shape[1:])
