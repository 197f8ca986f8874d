"""Ranks with ties."""

from torch import Tensor


def average_ranks(values: Tensor) -> Tensor:
    """Ranks of a flat tensor, from 1 for the least; equal values have the mean of their ranks."""
    _, group, count = values.unique(return_inverse=True, return_counts=True)
    last = count.cumsum(0).double()
    return (last - (count.double() - 1) / 2)[group]
