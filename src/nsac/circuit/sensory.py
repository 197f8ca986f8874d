"""Sensory layers: from input features and their times to neurons."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from nsac.circuit.synapses import Synapses
from nsac.circuit.wiring import sensory_wiring


class Sensory(nn.Module):
    """Sparse affine map of features and time features. No recurrence, no loop over time.

    Args:
        input_dim: number of features.
        time_dim: number of time features, 0 for none.
        neurons: number of sensory neurons.
        sparsity: fraction of absent synapses.
        wiring_generator: draws the wiring.
        generator: draws the weights.
        like: a sensory layer of equal `time_dim` and `neurons`, whose time synapses are copied.
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
        wiring = [sensory_wiring(input_dim, neurons, sparsity, wiring_generator)]
        if like is not None:
            wiring.append(like.synapses.adjacency()[like.input_dim :])
        elif time_dim:
            wiring.append(sensory_wiring(time_dim, neurons, sparsity, wiring_generator))
        self.synapses = Synapses(np.concatenate(wiring), generator)
        if like is not None:
            with torch.no_grad():
                time_weight = like.synapses.weight[like.synapses.index >= like.input_dim * neurons]
                self.synapses.weight[self.synapses.index >= input_dim * neurons] = time_weight


def sense(x: Tensor | None, time: Tensor | None, *layers: Sensory) -> tuple[Tensor, ...]:
    """Potentials of sensory layers that share an input, in one matrix product.

    Args:
        x: features, (B, T, F), or None for a query that is only a time.
        time: time features, (B, T, G), or None for tokens without a time.
        *layers: the sensory layers.

    Returns:
        (B, T, neurons) for each layer.
    """
    given = [features for features in (x, time) if features is not None]
    inputs = given[0] if len(given) == 1 else torch.cat(given, -1)
    input_dim = layers[0].input_dim
    used = slice(0 if x is not None else input_dim, None if time is not None else input_dim)
    weight = torch.cat([layer.synapses.matrix()[used].mT for layer in layers])
    bias = torch.cat([layer.synapses.bias for layer in layers])
    return linear(inputs, weight, bias).chunk(len(layers), -1)
