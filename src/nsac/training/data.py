"""Rows that are read batch by batch: the interface, rows in memory, subsets, and the order of the rows."""

import hashlib
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


class Data(Protocol):
    """Rows that are converted to tensors batch by batch."""

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The rows with these indices (a LongTensor on the CPU), as named tensors; `"y"` is the target."""
        ...


class TensorData:
    """Named tensors with the rows as their first axis, for instance `TensorData(x=x, y=y)`."""

    def __init__(self, **columns: Tensor):
        lengths = {name: len(column) for name, column in columns.items()}
        if "y" not in columns or len(set(lengths.values())) != 1:
            raise ValueError(
                f"`columns` must contain 'y' and have equal numbers of rows. Got {lengths} instead. "
                "Expand values that are the same for all rows."
            )
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns["y"])

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The rows with these indices."""
        return {name: column[rows] for name, column in self.columns.items()}


class Subset:
    """Some rows of another data set."""

    def __init__(self, data: Data, rows: np.ndarray):
        self.data, self.rows = data, torch.as_tensor(rows, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The rows with these indices within the subset."""
        return self.data.batch(self.rows[rows])


def batches(data: Data, size: int = 4096) -> Iterator[dict[str, Tensor]]:
    """All rows in order, `size` at a time."""
    for start in range(0, len(data), size):
        yield data.batch(torch.arange(start, min(start + size, len(data))))


def check_rows(train_data: Data, validation_data: Data) -> None:
    """Both have a row."""
    if not len(train_data) or not len(validation_data):
        got = f"Got {len(train_data)} and {len(validation_data)} instead."
        raise ValueError(f"`train_data` and `validation_data` must have at least one row. {got}")


def derive_seed(*words: int | str) -> int:
    """A seed per purpose, so that random streams are independent."""
    digest = hashlib.sha256("/".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:4], "big")  # torch's CPU generator uses 32 bits


BUCKET_BATCHES = 8  # batches whose rows are sorted by size together


class Order:
    """Rows of each process in each step, of `batches` per epoch: permutations that depend on (seed, epoch) alone.

    Rows with `sizes` are sorted by size within a few batches, whose order is then random: a batch has little padding.
    """

    def __init__(
        self, n_rows: int, batch_size: int, seed: int, rank: int = 0, processes: int = 1, sizes: Tensor | None = None
    ):
        self.n_rows, self.seed, self.rank, self.processes, self.sizes = n_rows, seed, rank, processes, sizes
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
            if self.sizes is not None:
                self._shuffled = self._bucket(self._shuffled, self.sizes, generator)
        rows_per_process = self.batch_size // self.processes
        start = position * self.batch_size + self.rank * rows_per_process
        return self._shuffled[start : start + rows_per_process].clone()  # a copy that the caller may change

    def _bucket(self, shuffled: Tensor, sizes: Tensor, generator: torch.Generator) -> Tensor:
        """The same rows; each batch has rows of similar size."""
        ordered = []
        for rows in shuffled[: self.batches * self.batch_size].split(BUCKET_BATCHES * self.batch_size):
            batches = rows[sizes[rows].argsort(stable=True)].view(-1, self.batch_size)
            ordered.append(batches[torch.randperm(len(batches), generator=generator)].flatten())
        return torch.cat(ordered)
