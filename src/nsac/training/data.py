"""Rows that are in memory already."""

from torch import Tensor


class TensorData:
    """Named tensors with the rows as their first axis, for instance `TensorData(x=x, y=y)`."""

    def __init__(self, **columns: Tensor):
        lengths = {name: len(column) for name, column in columns.items()}
        if "y" not in columns or len(set(lengths.values())) != 1:
            raise ValueError(
                f"`columns` must hold 'y' and have equal numbers of rows. Got {lengths} instead. "
                "What is the same for all rows must be expanded."
            )
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns["y"])

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The rows with these numbers."""
        return {name: column[rows] for name, column in self.columns.items()}
