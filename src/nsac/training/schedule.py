"""Functions of the step: learning rate, decay of the averaged weights, seeds, data order.

They have no state, so a checkpoint does not contain them.
"""

import hashlib
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

ONE_CYCLE_START, ONE_CYCLE_END = 1 / 25, 1e-4 / 25
"""Learning rate at both ends of `"one-cycle"` over its peak, as in `torch.optim.lr_scheduler.OneCycleLR`."""


def learning_rate_factor(step: int, steps: int, warmup: float, schedule: str) -> float:
    """Learning rate over its peak in step number `step` = 0, ..., `steps` - 1."""
    if schedule == "one-cycle":
        peak = warmup * steps - 1
        if step < peak:
            return _cosine(ONE_CYCLE_START, 1.0, step / peak)
        return _cosine(1.0, ONE_CYCLE_END, (step - peak) / (steps - 1 - peak))
    warmup_steps = warmup * steps
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    return _cosine(1.0, 0.0, (step - warmup_steps) / (steps - warmup_steps))


def ema_decay(decay: float, updates: int) -> float:
    """Decay of the averaged weights after `updates` updates: it grows, so that initial weights are forgotten."""
    return min(decay, (1 + updates) / (10 + updates)) if updates else 0.0


def derive_seed(*words: int | str) -> int:
    """A seed per purpose, so that random streams are independent."""
    digest = hashlib.sha256("/".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:4], "big")  # torch's CPU generator uses 32 bits


@dataclass
class Order:
    """Rows of each process in each step: a permutation per epoch that depends on (seed, epoch) alone."""

    n_rows: int
    batch_size: int
    """rows per step over all processes"""
    seed: int
    rank: int = 0
    processes: int = 1
    _shuffled: tuple[int, Tensor] = field(default=(-1, torch.empty(0)), repr=False)

    def __post_init__(self):
        max_batch_size = self.n_rows - self.n_rows % self.processes
        self.batch_size = min(self.batch_size, max_batch_size)
        if not self.batch_size:
            raise ValueError(
                f"`train_data` must have at least one row per process ({self.processes}). Got {self.n_rows} instead."
            )

    @property
    def batches(self) -> int:
        """Steps per epoch."""
        return self.n_rows // self.batch_size

    def rows(self, step: int) -> Tensor:
        """Rows of this process in step number `step` = 0, 1, ..."""
        epoch, position = divmod(step, self.batches)
        if self._shuffled[0] != epoch:
            generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", epoch))
            self._shuffled = epoch, torch.randperm(self.n_rows, generator=generator)
        rows_per_process = self.batch_size // self.processes
        start = position * self.batch_size + self.rank * rows_per_process
        return self._shuffled[1][start : start + rows_per_process].clone()  # a copy that the caller may change


def _cosine(start: float, end: float, fraction: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * fraction))
