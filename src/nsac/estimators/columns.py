"""Columns of a table: numbers and categories, arrays or frames, and what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

STRAIGHT = 2.0
"""Deviations from the mean within which a number is taken as it is."""
MOST_LEVELS = 1000
"""Levels of a category that are told apart: the most frequent ones."""
EXAMPLES = 20
"""Training rows that are kept, to stand in for values that were never missing in training."""


@dataclass(frozen=True)
class Columns:
    """How columns become standardised numbers (NaN = missing) and codes of categories (0 = missing or unknown)."""

    names: tuple[str, ...]
    """for messages: a frame's, or positions"""
    levels: dict[int, tuple[str, ...]]
    """position of a categorical column to its levels, as text"""
    centre: np.ndarray
    """(numbers,)"""
    scale: np.ndarray
    """(numbers,)"""

    @classmethod
    def fit(cls, table: Any, names: Sequence[str], categorical: Sequence[int]) -> "Columns":
        """From training rows, an array or a frame; `categorical` are positions besides those that hold text."""
        columns = _columns(table)
        chosen = [i for i, column in enumerate(columns) if i in set(categorical) or _is_text(column)]
        levels = {i: _levels(columns[i], names[i]) for i in chosen}
        kept = [i for i in range(len(columns)) if i not in levels]
        x = _matrix([_number(columns[i], names[i]) for i in kept], len(table))
        for j in np.flatnonzero(np.isnan(x).all(0)):
            raise ValueError(
                f"Column {names[kept[j]]!r} must have a value in at least one row. All are missing. Leave it out."
            )
        unit = np.nanmax(np.abs(x), 0, initial=0.0) + np.finfo(float).tiny  # squares of large numbers would overflow
        centre, scale = np.nanmean(x / unit, 0) * unit, np.nanstd(x / unit, 0) * unit
        flat = scale <= 1e-12 * np.abs(centre)  # constant, but for rounding
        return cls(tuple(names), levels, centre, np.where(flat | (scale == 0), 1.0, scale))

    def tensors(self, table: Any) -> dict[str, Tensor]:
        """`x`, float32, (n, numbers), and if there are categories `c`, int64, (n, categories)."""
        columns = _columns(table)
        kept = [i for i in range(len(columns)) if i not in self.levels]
        x = _matrix([_number(columns[i], self.names[i]) for i in kept], len(table))
        x = squash((x / self.scale) - self.centre / self.scale)  # a difference of huge numbers may overflow
        parts = {"x": torch.as_tensor(x, dtype=torch.float32)}
        if self.levels:
            codes = [_codes(columns[i], levels) for i, levels in self.levels.items()]
            parts["c"] = torch.as_tensor(np.stack(codes, 1))
        return parts

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        levels = {str(i): list(each) for i, each in self.levels.items()}
        return {"names": list(self.names), "levels": levels}

    @classmethod
    def from_json(cls, values: dict[str, Any], centre: Tensor, scale: Tensor) -> "Columns":
        """From what `to_json` gave."""
        levels = {int(i): tuple(each) for i, each in values["levels"].items()}
        names = tuple(values["names"])
        numbers = len(names) - len(levels)
        if set(values) != {"names", "levels"} or not all(
            isinstance(text, str) for group in (names, *levels.values()) for text in group
        ):
            raise ValueError("Names and levels must be text.")
        if not (centre.shape == scale.shape == (numbers,)) or not set(levels) <= set(range(len(names))):
            raise ValueError("`columns` do not fit their scales.")
        return cls(names, levels, centre.double().numpy(), scale.double().numpy())


def squash(z: np.ndarray) -> np.ndarray:
    """A line up to two deviations, a logarithm beyond: no outlier outweighs all others, and far stays farther."""
    beyond = np.maximum(np.abs(z) - STRAIGHT, 0)
    return np.sign(z) * (np.minimum(np.abs(z), STRAIGHT) + np.log1p(beyond))


def _matrix(columns: list[np.ndarray], rows: int) -> np.ndarray:
    return np.stack(columns, 1) if columns else np.zeros((rows, 0))


def _columns(table: Any) -> list[Any]:
    """Arrays or series, one per column."""
    if hasattr(table, "iloc"):
        return [table.iloc[:, i] for i in range(table.shape[1])]
    return list(table.T)


def _is_text(column: Any) -> bool:
    """Whether a column holds categories: pandas says so, or less than half of its known values read as numbers."""
    if column.dtype.kind in "biufcmM" and not hasattr(column, "cat"):
        return False
    if hasattr(column, "cat"):
        return True
    read, known = _read(column)
    return bool(known.any()) and np.isnan(read[known]).mean() > 0.5


def _read(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values as numbers, NaN where they are none, and which are known."""
    import pandas as pd

    column = pd.Series(np.asarray(column, dtype=object))
    known = column.notna().to_numpy()
    numbers: Any = pd.to_numeric(column, errors="coerce")
    return numbers.to_numpy(dtype=float, na_value=np.nan), known


def _number(column: Any, name: str) -> np.ndarray:
    kind = column.dtype.kind
    if kind in "mM":
        raise ValueError(
            f"Column {name!r} must hold numbers or text. It holds times. Make numbers of them, for instance days "
            "since the first, or use NSACForecaster."
        )
    if hasattr(column, "cat"):
        column = column.astype(object)
    if kind in "biuf" and isinstance(column, np.ndarray):
        values = column.astype(float)
    elif kind in "biuf":
        values = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        values, known = _read(column)
        bad = np.flatnonzero(known & np.isnan(values))
        if len(bad):
            value = np.asarray(column, dtype=object)[bad[0]]
            if not isinstance(value, str):
                raise TypeError(
                    f"Column {name!r}: argument must be a string or a number. Got {value!r} in row {bad[0]}."
                )
            raise ValueError(
                f"Column {name!r} must hold numbers. Got {value!r} in row {bad[0]} ({len(bad)} such values) instead. "
                "Clean them, make them missing, or name the column in `categorical`."
            )
    bad = np.flatnonzero(np.isinf(values))
    if len(bad):
        raise ValueError(
            f"Column {name!r} must hold finite numbers, or NaN where one is missing. Got infinity in row {bad[0]} "
            f"({len(bad)} such values) instead. Make them missing, or cut them off."
        )
    return values


def _factorize(column: Any) -> tuple[np.ndarray, list[str]]:
    """Number of the level of each row (-1 = missing), and levels as text: 1, 1.0 and True are one."""
    import pandas as pd

    codes, unique = pd.factorize(np.asarray(column, dtype=object), use_na_sentinel=True)
    text = [
        v if isinstance(v, str) else repr(float(v)) if isinstance(v, (int, float)) else str(v) for v in unique.tolist()
    ]
    return codes, text


def _levels(column: Any, name: str) -> tuple[str, ...]:
    codes, text = _factorize(column)
    counts: dict[str, int] = {}
    for level, count in zip(text, np.bincount(codes[codes >= 0], minlength=len(text)).tolist(), strict=True):
        counts[level] = counts.get(level, 0) + count
    if not counts:
        raise ValueError(f"Column {name!r} must have a value in at least one row. All are missing. Leave it out.")
    repeated = sorted(
        (level for level, count in counts.items() if count > 1), key=lambda level: (-counts[level], level)
    )
    if not repeated:
        raise ValueError(
            f"Column {name!r} must have levels that repeat, to be a category. All {len(counts)} are different. "
            "Leave it out: nothing can be learned from a name."
        )
    return tuple(repeated[:MOST_LEVELS])


def _codes(column: Any, levels: tuple[str, ...]) -> np.ndarray:
    codes, text = _factorize(column)
    number = {level: i + 1 for i, level in enumerate(levels)}
    return np.array([*(number.get(level, 0) for level in text), 0], dtype=np.int64)[codes]  # -1, missing, is the last
