"""Dense layers whose initial weights depend on a seed alone."""

import torch
from torch import nn


def seeded_linear(inputs: int, outputs: int, seed: int) -> nn.Linear:
    """`nn.Linear` with N(0, 1 / inputs) weights and zero bias."""
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")  # skips torch's own initialisation
    generator = torch.Generator().manual_seed(seed)
    nn.init.normal_(layer.weight, std=inputs**-0.5, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
