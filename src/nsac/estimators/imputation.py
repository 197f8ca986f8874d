"""Hot-deck imputation: values of training rows replace those that were never missing in training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nsac.models.encoder import Batch
from nsac.uncertainty import Prediction

MAX_DONORS = 20  # training rows that are kept to impute from


@dataclass(frozen=True)
class HotDeck:
    """Imputation of values that are missing where none was missing in training, so that no model learned from it.

    Draw n of such a row is made with the values of donor n modulo the number of donors: the differences between donors
    become epistemic variance. Columns are those of a batch: numbers `x` (NaN = missing) and categories `c` (0).
    """

    donors: dict[str, Tensor]  # (donors, columns), training rows
    learned: dict[str, Tensor]  # (columns,), whether a column had missing values in training

    @classmethod
    def fit(cls, columns: Batch, train: np.ndarray, random_state: np.random.RandomState) -> "HotDeck":
        """Draw donors among the training rows."""
        chosen = torch.as_tensor(train[random_state.permutation(len(train))[:MAX_DONORS]])
        learned = {name: _missing(column[torch.as_tensor(train)]).any(0) for name, column in columns.items()}
        return cls({name: column[chosen] for name, column in columns.items()}, learned)

    def predict(self, columns: Batch, draws: Callable[[Batch], Prediction]) -> Prediction:
        """The prediction of rows, some imputed; `draws` predicts rows as they are."""
        absent = {name: _missing(columns[name]) & ~learned for name, learned in self.learned.items()}
        p = draws(self._imputed(columns, absent, 0))
        rows = torch.stack([each.any(1) for each in absent.values()]).any(0).nonzero()[:, 0]
        if not len(rows):
            return p
        columns = {name: column[rows] for name, column in columns.items()}
        absent = {name: each[rows] for name, each in absent.items()}
        for k in range(1, min(MAX_DONORS, len(p.mean_draws), len(self.donors["x"]))):
            other = draws(self._imputed(columns, absent, k))
            p.mean_draws[k::MAX_DONORS, rows] = other.mean_draws[k::MAX_DONORS]
            p.log_std_draws[k::MAX_DONORS, rows] = other.log_std_draws[k::MAX_DONORS]
        return p

    def _imputed(self, columns: Batch, absent: dict[str, Tensor], donor: int) -> Batch:
        return {name: torch.where(each, self.donors[name][donor], columns[name]) for name, each in absent.items()}

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        donors = {f"examples.{name}": rows for name, rows in self.donors.items()}
        return donors | {f"holes.{name}": learned for name, learned in self.learned.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], numbers: int, categories: Sequence[int]) -> "HotDeck":
        """Inverse of `to_tensors`, for a number of numeric columns and the numbers of categories of the others."""
        widths = {"x": numbers}
        if categories:
            widths["c"] = len(categories)
        donors = {name: tensors[f"examples.{name}"] for name in widths}
        learned = {name: tensors[f"holes.{name}"] for name in widths}
        rows = len(donors["x"])
        for name, width in widths.items():
            if donors[name].shape != (rows, width) or donors[name].is_floating_point() != (name == "x"):
                raise ValueError(f"Donors of {name!r} must have shape ({rows}, {width}).")
            if learned[name].shape != (width,) or learned[name].dtype != torch.bool:
                raise ValueError(f"Flags of {name!r} must be {width} truth values.")
            if (_missing(donors[name]) & ~learned[name]).any() or donors[name].isinf().any():
                raise ValueError(f"Donors of {name!r} must be known where no value was missing in training.")
        if categories and ((donors["c"] < 0) | (donors["c"] > torch.tensor(categories))).any():
            raise ValueError("Donors must have known categories.")
        return cls(donors, learned)


def _missing(column: Tensor) -> Tensor:
    return torch.isnan(column) if column.is_floating_point() else column == 0
