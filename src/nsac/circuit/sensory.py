"""Sensory neurons: from input features, and from when they were seen, to the model's neurons."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from nsac.circuit.synapses import Synapses
from nsac.circuit.wiring import sensory_wiring


class Sensory(nn.Module):
    """Sparse affine map of features and time features. No recurrence, no loop over time.

    Args:
        inputs: number of features.
        time_inputs: number of time features, 0 for none.
        neurons: number of sensory neurons.
        sparsity: share of synapses left out.
        rng: draws the wiring.
        generator: draws the weights.
        like: another organ with as many time features and neurons, whose time synapses this one starts with.
    """

    def __init__(
        self,
        inputs: int,
        time_inputs: int,
        neurons: int,
        sparsity: float,
        rng: np.random.Generator,
        generator: torch.Generator,
        like: "Sensory | None" = None,
    ):
        super().__init__()
        self.inputs = inputs
        wiring = [sensory_wiring(inputs, neurons, sparsity, rng)]
        if like is not None:
            wiring.append(like.synapses.adjacency()[like.inputs :])
        elif time_inputs:
            wiring.append(sensory_wiring(time_inputs, neurons, sparsity, rng))
        self.synapses = Synapses(np.concatenate(wiring), generator)
        if like is not None:
            with torch.no_grad():
                theirs = like.synapses.weight[like.synapses.index >= like.inputs * neurons]
                self.synapses.weight[self.synapses.index >= inputs * neurons] = theirs


def sense(x: Tensor | None, time: Tensor | None, *organs: Sensory) -> tuple[Tensor, ...]:
    """Potentials of organs that see the same input, in one matrix product.

    Args:
        x: features, (B, T, F), or None for a query that is only a time.
        time: time features, (B, T, G), or None for tokens without a time.
        *organs: the sensory neurons.

    Returns:
        (B, T, neurons) for each organ.
    """
    parts = [part for part in (x, time) if part is not None]
    inputs = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
    seen = slice(0 if x is not None else organs[0].inputs, None if time is not None else organs[0].inputs)
    weight = torch.cat([organ.synapses.matrix()[seen].mT for organ in organs])
    bias = torch.cat([organ.synapses.bias for organ in organs])
    return linear(inputs, weight, bias).chunk(len(organs), -1)
