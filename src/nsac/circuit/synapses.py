"""Sparse weights with one parameter per synapse."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class Synapses(nn.Module):
    """Weights W, (from, to), zero outside the adjacency, and bias; only existing synapses are parameters.

    Initial weights are N(0, 1 / fan-in), with each neuron's own fan-in, so that the signal keeps its scale.
    """

    index: Tensor
    bias: Tensor

    def __init__(self, adjacency: np.ndarray, generator: torch.Generator, bias: bool = True):
        super().__init__()
        self.shape = adjacency.shape
        source, target = np.nonzero(adjacency)
        self.register_buffer("index", torch.from_numpy(source * adjacency.shape[1] + target))
        scale = torch.from_numpy(adjacency.sum(0)[target] ** -0.5).to(torch.get_default_dtype())
        self.weight = nn.Parameter(torch.randn(len(source), generator=generator) * scale)
        self.biased = bias
        if bias:
            self.bias = nn.Parameter(0.1 * torch.randn(adjacency.shape[1], generator=generator))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take the wiring from the file: with another seed the number of synapses may differ."""
        index = state_dict.get(f"{prefix}index")
        if index is not None and index.shape != self.index.shape:
            self.index = torch.empty_like(index, device=self.index.device)
            self.weight = nn.Parameter(self.weight.new_empty(len(index)))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def adjacency(self) -> np.ndarray:
        """Which synapses exist, boolean (from, to)."""
        flat = np.zeros(self.shape[0] * self.shape[1], dtype=bool)
        flat[self.index.cpu().numpy()] = True
        return flat.reshape(self.shape)

    def matrix(self) -> Tensor:
        """The dense (from, to) matrix."""
        size = self.shape[0] * self.shape[1]
        return self.weight.new_zeros(size).scatter(0, self.index, self.weight).view(self.shape)

    def extra_repr(self) -> str:  # noqa: D102
        return f"{self.shape[0]} -> {self.shape[1]}, {len(self.index)} synapses"
