"""Small models and data for tests of training, also in other processes."""

import math
import os
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn


class Table:
    """Rows of a linear problem; it remembers the rows of every batch."""

    def __init__(self, n=64, seed=0, noise=0.0):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 3, generator=g, dtype=torch.float64)
        y = self.x @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64)
        self.y = y + noise * torch.randn(n, 1, generator=g, dtype=torch.float64)
        self.requests: list[list[int]] = []

    def __len__(self):
        return len(self.x)

    def batch(self, rows):
        self.requests.append(rows.tolist())
        return {"x": self.x[rows], "y": self.y[rows]}


class Line(nn.Module):
    """Linear regression with noise on its inputs, so that the order of random numbers matters."""

    def __init__(self, jitter=0.01, dtype=torch.float64):
        super().__init__()
        self.jitter = jitter
        self.weight = nn.Parameter(torch.zeros(3, 1, dtype=dtype))
        self.bias = nn.Parameter(torch.ones(1, dtype=dtype))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.parts = {}

    def forward(self, x):
        return x @ self.weight + self.bias

    def loss(self, batch, generator):
        self.seen += len(batch["y"])
        x = batch["x"]
        if self.jitter:
            x = x + self.jitter * torch.randn(x.shape, generator=generator, dtype=x.dtype)
        square = (self(x) - batch["y"]).square().mean()
        self.parts = {"square": square.detach()}
        return square

    def validation(self, batch, generator):
        error = self(batch["x"]) - batch["y"]
        return 0.5 * (error.square() + math.log(2 * math.pi)).sum(), error.numel()


def run_module(name: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a module of tests/support in another process, where it is imported by the same name as here."""
    tests = str(Path(__file__).parents[1])
    paths = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"} | environment
    command = [sys.executable, "-W", "error", "-m", name, *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def bits(model):
    """Copies of parameters and buffers."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a, b):
    """Whether all tensors are equal, bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
