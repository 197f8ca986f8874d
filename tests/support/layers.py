"""Small layers and series for tests."""

import torch

from nsac import NSAC

SMALL = {"d_model": 16, "num_heads": 4, "topk": 4, "circuit_units": 12}


def make(readout="last", **more):
    return NSAC(3, 2, readout=readout, **{**SMALL, **more})


def series(batch=2, length=9, generator=None):
    x = torch.randn(batch, length, 3, generator=generator)
    return x, torch.rand(batch, length, generator=generator).cumsum(-1) / length


def drawn(layer, *args, seed=0, **kwargs):
    return layer(*args, generator=torch.Generator().manual_seed(seed), **kwargs)
