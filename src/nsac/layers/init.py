"""Initial weights that depend on a seed alone, and leave the global generator in peace."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


def seeded(make: Callable[[], M], seed: int) -> M:
    """Build a module; weights are N(0, 1 / fan-in), embeddings N(0, 1), vectors (biases) 0.

    Args:
        make: builds it, for instance `lambda: nn.Linear(3, 4)`.
        seed: fixes the weights.
    """
    with torch.device("meta"):  # no storage, hence no initialisation by torch
        module = make()
    module = module.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    looked_up = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    for parameter in module.parameters():
        if parameter.ndim > 1:
            std = 1.0 if id(parameter) in looked_up else max(1, parameter[0].numel()) ** -0.5
            nn.init.normal_(parameter, std=std, generator=generator)
        else:
            nn.init.zeros_(parameter)
    return module


def seeded_linear(inputs: int, outputs: int, seed: int) -> nn.Linear:
    """`nn.Linear`, seeded."""
    return seeded(lambda: nn.Linear(inputs, outputs), seed)


def seeded_mlp(inputs: int, hidden: int, outputs: int, seed: int) -> nn.Sequential:
    """Two linear layers with a GELU between them, seeded."""
    return seeded(lambda: nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, outputs)), seed)
