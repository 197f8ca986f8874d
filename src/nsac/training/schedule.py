"""Functions of the step: learning rate, decay of the averaged weights, seeds, data order.

They have no state, so a checkpoint does not contain them.
"""

import hashlib
import math

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


class Order:
    """Rows of each process in each step: a permutation per epoch that depends on (seed, epoch) alone.

    `batch_size` counts the rows of all processes; `batches` is the number of steps per epoch.
    """

    def __init__(self, n_rows: int, batch_size: int, seed: int, rank: int = 0, processes: int = 1):
        self.n_rows, self.seed, self.rank, self.processes = n_rows, seed, rank, processes
        self.batch_size = min(batch_size, n_rows - n_rows % processes)
        if not self.batch_size:
            rule = f"`train_data` must have at least one row per process ({processes})."
            raise ValueError(f"{rule} Got {n_rows} instead.")
        self.batches = n_rows // self.batch_size
        self._epoch, self._shuffled = -1, torch.empty(0)

    def rows(self, step: int) -> Tensor:
        """Rows of this process in step number `step` = 0, 1, ..."""
        epoch, position = divmod(step, self.batches)
        if self._epoch != epoch:
            generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", epoch))
            self._epoch, self._shuffled = epoch, torch.randperm(self.n_rows, generator=generator)
        rows_per_process = self.batch_size // self.processes
        start = position * self.batch_size + self.rank * rows_per_process
        return self._shuffled[start : start + rows_per_process].clone()  # a copy that the caller may change


def _cosine(start: float, end: float, fraction: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * fraction))
