"""Initial weights that depend on a seed alone; the global random state is not touched."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


def seeded(make: Callable[[], M], seed: int) -> M:
    """The module that `make` builds; weights are N(0, 1 / fan-in), embeddings N(0, 1), vectors (biases) 0."""
    with torch.device("meta"):  # no storage, so torch does not initialise the weights
        module = make()
    module.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    embeddings = {id(child.weight) for child in module.modules() if isinstance(child, nn.Embedding)}
    for parameter in module.parameters():
        if parameter.ndim > 1:
            std = 1.0 if id(parameter) in embeddings else max(1, parameter[0].numel()) ** -0.5
            nn.init.normal_(parameter, std=std, generator=generator)
        else:
            nn.init.zeros_(parameter)
    return module


def seeded_linear(input_dim: int, output_dim: int, seed: int) -> nn.Linear:
    """`nn.Linear` with seeded weights."""
    return seeded(lambda: nn.Linear(input_dim, output_dim), seed)


def seeded_mlp(input_dim: int, hidden: int, output_dim: int, seed: int) -> nn.Sequential:
    """Two linear layers with a GELU between them, with seeded weights."""
    return seeded(lambda: nn.Sequential(nn.Linear(input_dim, hidden), nn.GELU(), nn.Linear(hidden, output_dim)), seed)
