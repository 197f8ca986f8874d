"""Sensory layers: from input features and their times to neurons, by sparse weights with one parameter per synapse."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from nsac.circuit.wiring import sensory_wiring


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
        size = self.shape[0] * self.shape[1]
        return self.weight.new_zeros(size).scatter(0, self.index, self.weight).view(self.shape)

    def extra_repr(self) -> str:  # noqa: D102
        return f"{self.shape[0]} -> {self.shape[1]}, {len(self.index)} synapses"


class Sensory(nn.Module):
    """Sparse affine map of features and `time_dim` time features (0 for none). No recurrence, no loop over time.

    A fraction `sparsity` of synapses is absent. The two generators draw wiring and weights; the time synapses are
    copied from the layer `like`, of equal `time_dim` and `neurons`, if one is given.
    """

    def __init__(
        self,
        input_dim: int,
        time_dim: int,
        neurons: int,
        sparsity: float,
        wiring_generator: np.random.Generator,
        generator: torch.Generator,
        like: "Sensory | None" = None,
    ):
        super().__init__()
        self.input_dim = input_dim
        wiring = sensory_wiring(input_dim, neurons, sparsity, wiring_generator)
        if like is None:
            self.time_wiring = sensory_wiring(time_dim, neurons, sparsity, wiring_generator)
        else:
            self.time_wiring = like.time_wiring
        self.synapses = Synapses(np.concatenate([wiring, self.time_wiring]), generator)
        if like is not None:
            with torch.no_grad():
                time_weight = like.synapses.weight[like.synapses.index >= like.input_dim * neurons]
                self.synapses.weight[self.synapses.index >= input_dim * neurons] = time_weight


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
