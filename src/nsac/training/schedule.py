r"""Numbers that follow from the step alone: learning rate, decay of the averaged weights, seeds, data order.

None of them has a state, so none needs to be saved.
"""

import hashlib
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

ONE_CYCLE_START, ONE_CYCLE_END = 1 / 25, 1e-4 / 25
"""Shares of the peak rate at both ends of `"one-cycle"`: those of `torch.optim.lr_scheduler.OneCycleLR`."""


def rate_share(step: int, steps: int, warmup: float, schedule: str) -> float:
    """Share of the peak learning rate in step number `step` = 0, ..., `steps` - 1."""
    if schedule == "one-cycle":
        top = warmup * steps - 1
        if step < top:
            return _cosine(ONE_CYCLE_START, 1.0, step / top)
        return _cosine(1.0, ONE_CYCLE_END, (step - top) / (steps - 1 - top))
    rise = warmup * steps
    return (step + 1) / (rise + 1) if step < rise else _cosine(1.0, 0.0, (step - rise) / (steps - rise))


def ema_decay(decay: float, updates: int) -> float:
    """Decay of the averaged weights after `updates` updates: it grows, or they would remember the initial weights."""
    return min(decay, (1 + updates) / (10 + updates)) if updates else 0.0


def derive_seed(*words: int | str) -> int:
    """A seed for each purpose, so that no two streams of random numbers are the same."""
    digest = hashlib.sha256("/".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:4], "big")  # torch's CPU generator uses 32 bits


@dataclass
class Order:
    """Which rows a process sees in which step: a new permutation every epoch, from (seed, epoch) alone."""

    n_rows: int
    batch_size: int
    """rows per step over all processes"""
    seed: int
    rank: int = 0
    processes: int = 1
    _shuffled: tuple[int, Tensor] = field(default=(-1, torch.empty(0)), repr=False)

    def __post_init__(self):
        most = self.n_rows - self.n_rows % self.processes
        self.batch_size = min(self.batch_size, most)
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
        share = self.batch_size // self.processes
        start = position * self.batch_size + self.rank * share
        return self._shuffled[1][start : start + share].clone()  # theirs to change


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))
