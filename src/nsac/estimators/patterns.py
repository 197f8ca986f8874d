"""Which values of a row are missing: patterns whose rows are calibrated by themselves."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nsac.models.encoder import Batch

MIN_CLASS_ROWS = 50  # calibration rows from which on a pattern, or a number of missing values, has margins of its own
MAX_PATTERNS = 64  # patterns that have margins of their own, the most frequent


@dataclass(frozen=True)
class MissingPatterns:
    """Classes of rows by their missing values, for conformal intervals that are valid in each class.

    Every frequent pattern is a class. Rows with a rare one are classified by the number of their missing values, from
    each of `counts` up to the next. The last class, without calibration rows, is that of all other rows. Only columns
    count that had missing values in training: elsewhere values are imputed.
    """

    learned: Tensor  # (columns,), whether a column had missing values in training
    frequent: Tensor  # (patterns, columns), whether a value is missing; False where not learned
    counts: Tensor  # (classes,), least number of missing values, ascending

    @classmethod
    def fit(cls, columns: Batch) -> "MissingPatterns | None":
        """From calibration rows: numbers `x`, NaN = missing, and categories `c`, 0 = missing; None if none is."""
        missing = _missing(columns)
        if not missing.any():
            return None
        found, index, rows = missing.unique(dim=0, return_inverse=True, return_counts=True)
        order = rows.argsort(descending=True, stable=True)[:MAX_PATTERNS]
        order = order[rows[order] >= MIN_CLASS_ROWS]
        rare = ~torch.isin(index, order)
        return cls(missing.any(0), found[order], _count_edges(missing[rare].sum(1)))

    @property
    def n_classes(self) -> int:
        """Number of classes that have calibration rows."""
        return len(self.frequent) + len(self.counts)

    def classify(self, columns: Batch) -> Tensor:
        """Class of each row, (n,), from 0 to `n_classes`; in operations that can be traced."""
        missing = (_missing(columns) & self.learned).double()
        frequent, number = self.frequent.double(), missing.sum(1, keepdim=True)
        same = number + frequent.sum(1) - 2 * missing @ frequent.T == 0  # no value is missing in one of them alone
        by_number = len(self.frequent) - 1 + (number >= self.counts).sum(1)
        by_number = by_number.masked_fill(by_number < len(self.frequent), self.n_classes)
        if not len(self.frequent):
            return by_number
        return torch.where(same.any(1), same.long().argmax(1), by_number)

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        return {"learned": self.learned, "frequent": self.frequent, "counts": self.counts}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], columns: int) -> "MissingPatterns":
        """Inverse of `to_tensors`, for a number of columns."""
        patterns = cls(tensors["learned"], tensors["frequent"], tensors["counts"])
        learned, frequent, counts = patterns.learned, patterns.frequent, patterns.counts
        if learned.shape != (columns,) or frequent.ndim != 2 or frequent.shape[1] != columns or counts.ndim != 1:
            raise ValueError(f"Patterns of missing values must have {columns} columns.")
        if learned.dtype != torch.bool or frequent.dtype != torch.bool or counts.dtype != torch.int64:
            raise ValueError("Patterns of missing values must be truth values, and their counts integers.")
        if (frequent & ~learned).any() or (counts.diff() <= 0).any():
            raise ValueError("Patterns must be of columns with missing values, and counts must ascend.")
        return patterns


def _missing(columns: Batch) -> Tensor:
    missing = torch.isnan(columns["x"])
    return torch.cat([missing, columns["c"] == 0], 1) if "c" in columns else missing


def _count_edges(numbers: Tensor) -> Tensor:
    """Least number of each class, ascending, so that every class has enough rows; if all are too few, one class."""
    values, rows = numbers.unique(return_counts=True)
    edges, size = [], MIN_CLASS_ROWS
    for value, count in zip(values.tolist(), rows.tolist(), strict=True):
        if size >= MIN_CLASS_ROWS and int((numbers >= value).sum()) >= min(MIN_CLASS_ROWS, len(numbers)):
            edges.append(value)
            size = 0
        size += count
    return torch.tensor(edges, dtype=torch.int64)
