"""Tables and figures of a report, as plain values."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class Spread(NamedTuple):
    """Mean and standard deviation over seeds or passes; None where there is one value."""

    mean: float | None
    std: float | None


Cell = str | int | float | Spread | None


class Sheet(NamedTuple):
    """A table of the report."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str


class Image(NamedTuple):
    """A rendered figure."""

    name: str  # file name without the extension
    caption: str
    content: bytes


class Section(NamedTuple):
    """A section of the report."""

    anchor: str  # on the page
    title: str
    text: str
    sheets: Sequence[Sheet]
    images: Sequence[Image] = ()


def spread(values: Iterable[float | None]) -> Spread:
    """Mean and standard deviation; no mean if a value is not finite."""
    numbers = list(values)
    if not numbers or any(value is None for value in numbers):
        return Spread(None, None)
    array = np.array(numbers, dtype=float)
    return Spread(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else None)
