"""Columns of a table, from arrays or frames: standardised numbers, coded categories, and targets."""

import hashlib
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_array
from torch import Tensor

LINEAR_RANGE = 2.0  # standard deviations from the mean within which `standardise` is linear
MAX_CATEGORIES = 1000  # categories of a column that have codes of their own: the most frequent ones
ALL_MISSING = "Column {!r} must have a value in at least one row. All are missing. Leave it out."


@dataclass(frozen=True)
class Columns:
    """Transforms columns to standardised numbers (NaN = missing) and codes of categories (0 = missing or unknown)."""

    names: tuple[str, ...]  # of a frame, or positions; for messages
    categories: dict[int, tuple[str, ...]]  # position of a categorical column to its categories, as text
    centre: np.ndarray  # (numbers,)
    scale: np.ndarray  # (numbers,)

    @classmethod
    def fit(cls, table: Any, names: Sequence[str], categorical: Sequence[int]) -> "Columns":
        """From training rows, an array or a frame; `categorical` are positions besides those of text columns."""
        columns = _columns(table)
        chosen = [i for i, column in enumerate(columns) if i in categorical or _is_text(column)]
        categories = {i: _categories(columns[i], names[i]) for i in chosen}
        x = _numbers(columns, names, chosen, len(table))
        kept = [name for i, name in enumerate(names) if i not in chosen]
        for j in np.flatnonzero(np.isnan(x).all(0)):
            raise ValueError(ALL_MISSING.format(kept[j]))
        unit = np.nanmax(np.abs(x), 0, initial=0.0) + np.finfo(float).tiny  # squares of large numbers would overflow
        centre, scale = np.nanmean(x / unit, 0) * unit, np.nanstd(x / unit, 0) * unit
        flat = scale <= 1e-12 * np.abs(centre)  # constant, but for rounding
        return cls(tuple(names), categories, centre, np.where(flat | (scale == 0), 1.0, scale))

    def tensors(self, table: Any) -> dict[str, Tensor]:
        """`x`, float32, (n, numbers), and if there are categories `c`, int64, (n, categories)."""
        columns = _columns(table)
        x = _numbers(columns, self.names, self.categories, len(table))
        tensors = {"x": torch.as_tensor(standardise(x, self.centre, self.scale), dtype=torch.float32)}
        if self.categories:
            codes = [_codes(columns[i], categories) for i, categories in self.categories.items()]
            tensors["c"] = torch.as_tensor(np.stack(codes, 1))
        return tensors

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `levels` is the name of the categories in model folders. Centre and scale are not included."""
        return {"names": list(self.names), "levels": {str(i): list(each) for i, each in self.categories.items()}}

    @classmethod
    def from_dict(cls, values: dict[str, Any], centre: Tensor, scale: Tensor) -> "Columns":
        """Inverse of `to_dict`."""
        categories, names = {int(i): tuple(each) for i, each in values["levels"].items()}, tuple(values["names"])
        texts = [text for group in (names, *categories.values()) for text in group]
        if set(values) != {"names", "levels"} or not all(isinstance(text, str) for text in texts):
            raise ValueError("Names and categories must be text.")
        shape, known = (len(names) - len(categories),), set(range(len(names)))
        if not (centre.shape == scale.shape == shape) or not set(categories) <= known:
            raise ValueError("`columns` do not fit their scales.")
        return cls(names, categories, centre.double().numpy(), scale.double().numpy())


def categorical_positions(categorical: Sequence[str | int], known: Sequence[Any], names: Sequence[str]) -> list[int]:
    """Positions of columns that are given by position or by a `known` name; `names` are all of them, in messages."""
    positions = []
    for each in categorical:
        position = known.index(each) if each in known else each
        if isinstance(position, str) or not 0 <= position < len(names):
            raise ValueError(f"`categorical` must name columns of X: {', '.join(names)}. Got {each!r} instead.")
        positions.append(int(position))
    return positions


def digest_of(tensors: dict[str, Tensor]) -> str:
    """Hexadecimal sha256 of rows: identifies the training data of a model."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(tensors[name].contiguous().numpy().data)
    return digest.hexdigest()


def standardise(x: Any, centre: Any, scale: Any, xp: ModuleType = np) -> Any:
    """Standard deviations from the centre, logarithmic beyond two: outliers stay ordered and do not dominate.

    `xp` is numpy, or torch for tensors.
    """
    z = x / scale - centre / scale  # a difference of huge numbers may overflow
    size = xp.abs(z)
    return xp.sign(z) * (xp.clip(size, None, LINEAR_RANGE) + xp.log1p(xp.clip(size - LINEAR_RANGE, 0, None)))


def target_values(y: Any, estimator: str) -> np.ndarray:
    """Targets, (n,) or (n, outputs), finite, in double precision; `estimator` is its name in messages."""
    if y is None:
        raise ValueError(f"{estimator} requires y to be passed, but the target y is None.")
    try:
        values: Any = check_array(y, ensure_2d=False, dtype="float64", ensure_all_finite=False, input_name="y")
    except ValueError as err:
        names = ", ".join(f"column {name!r}" for name in target_names(y)) or "y"
        raise ValueError(f"Input y must hold numbers, (n,) or (n, outputs), in {names}: {err}") from None
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, *column = bad[0]
        kind = "NaN" if np.isnan(values[*bad[0]]) else "infinity"
        raise ValueError(
            f"Input y contains {kind}: {_label(y, column[0] if column else 0)}, row {row} ({len(bad)} such values). "
            "Leave out rows without a target."
        )
    return values


def target_names(y: Any) -> list[str]:
    """Names of the targets; empty if `y` has none."""
    if hasattr(y, "columns"):
        return [str(name) for name in y.columns]
    return [] if getattr(y, "name", None) is None else [str(y.name)]


def target_std(values: np.ndarray, y: Any) -> np.ndarray:
    """Standard deviation of each column of `values`, (n, outputs), which must vary; `y` has the names."""
    std = values.std(0)
    for i in np.flatnonzero(std <= 1e-12 * np.abs(values.mean(0))):
        raise ValueError(
            f"The target ({_label(y, int(i))}) must vary. It is {values[0, i]:g} in all training rows. Check the data."
        )
    return std


def _columns(table: Any) -> list[Any]:
    return [table.iloc[:, i] for i in range(table.shape[1])] if hasattr(table, "iloc") else list(table.T)


def _is_text(column: Any) -> bool:
    """Whether a column holds categories: by its dtype, or because most of its known values are not numbers."""
    if hasattr(column, "cat"):
        return True
    if column.dtype.kind in "biufcmM":
        return False
    read, known = _read(column)
    return bool(known.any()) and np.isnan(read[known]).mean() > 0.5


def _read(column: Any) -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd

    column = pd.Series(np.asarray(column, dtype=object))
    known = column.notna().to_numpy()
    numbers: Any = pd.to_numeric(column, errors="coerce")
    return numbers.to_numpy(dtype=float, na_value=np.nan), known  # NaN where a value is no number


def _numbers(columns: list[Any], names: Sequence[str], categories: Container[int], rows: int) -> np.ndarray:
    kept = [_number(column, names[i]) for i, column in enumerate(columns) if i not in categories]
    return np.stack(kept, 1) if kept else np.zeros((rows, 0))


def _number(column: Any, name: str) -> np.ndarray:
    kind = column.dtype.kind
    if kind in "mM":
        raise ValueError(
            f"Column {name!r} must hold numbers or text. It holds times. Convert them to numbers, for instance "
            "days since the first, or use NSACForecaster."
        )
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
                "Clean them, replace them by NaN, or name the column in `categorical`."
            )
    bad = np.flatnonzero(np.isinf(values))
    if len(bad):
        raise ValueError(
            f"Column {name!r} must hold finite numbers, or NaN where one is missing. Got infinity in row {bad[0]} "
            f"({len(bad)} such values) instead. Replace them by NaN, or clip them."
        )
    return values


def _factorize(column: Any) -> tuple[np.ndarray, list[str]]:
    """Index of the category of each row (-1 = missing), and categories as text: 1, 1.0 and True are the same."""
    import pandas as pd

    codes, unique = pd.factorize(np.asarray(column, dtype=object), use_na_sentinel=True)
    return codes, [str(float(value) if isinstance(value, (int, float)) else value) for value in unique.tolist()]


def _categories(column: Any, name: str) -> tuple[str, ...]:
    codes, text = _factorize(column)
    counts = Counter(text[code] for code in codes.tolist() if code >= 0)
    if not counts:
        raise ValueError(ALL_MISSING.format(name))
    repeated = sorted((-count, category) for category, count in counts.items() if count > 1)
    if not repeated:
        raise ValueError(
            f"Column {name!r} must have categories that repeat. All {len(counts)} are different. Leave it out: nothing "
            "can be learned from unique names."
        )
    return tuple(category for _, category in repeated[:MAX_CATEGORIES])


def _codes(column: Any, categories: tuple[str, ...]) -> np.ndarray:
    index, text = _factorize(column)
    code = {category: i + 1 for i, category in enumerate(categories)}
    codes = [code.get(category, 0) for category in text]
    return np.array([*codes, 0], dtype=np.int64)[index]  # the last is for -1, missing


def _label(y: Any, i: int) -> str:
    names = target_names(y)
    if names:
        return f"column {names[i]!r}"
    return f"column {i} of y" if len(getattr(y, "shape", (0,))) > 1 else "y"
