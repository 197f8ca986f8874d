"""Columns of a table, from arrays or frames: standardised numbers, coded categories, dates, and targets."""

import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_array
from torch import Tensor

from nsac._checks import row_name
from nsac.estimators.cells import check_cells, find_decimal, is_text, read_numbers, to_numbers
from nsac.estimators.dates import DateColumn, holds_dates, warn_of_dayfirst
from nsac.estimators.observations import MAX_ABSOLUTE_VALUE, MIN_RANGE

LINEAR_RANGE = 2.0  # standard deviations from the mean within which `standardise` is linear
MAX_CATEGORIES = 1000  # categories of a column that have codes of their own: the most frequent ones
WHOLE = re.compile(r"-?(0|[1-9]\d*)(\.0)?")  # whole numbers, as categories
ALL_MISSING = "Column {!r} must have a value in at least one row. All are missing. Leave it out."


@dataclass(frozen=True)
class Columns:
    """Transforms columns to standardised numbers (NaN = missing) and codes of categories (0 = missing or unknown)."""

    names: tuple[str, ...]  # of a frame, or positions; for messages
    categories: dict[int, tuple[str, ...]]  # position of a categorical column to its categories, as text
    centre: np.ndarray  # (numbers,)
    scale: np.ndarray  # (numbers,)
    dates: dict[int, DateColumn] = field(default_factory=dict)  # position to how its dates become several numbers
    decimals: dict[int, str] = field(default_factory=dict)  # position of numbers such as "1,100" to their decimal point

    @classmethod
    def fit(
        cls, table: Any, names: Sequence[str], categorical: Sequence[int], dayfirst: bool | None = None
    ) -> "Columns":
        """From training rows, an array or a frame; `categorical` are positions besides those of text columns.

        `dayfirst` is the order of day and month in dates such as 01/02/2024; None if the rows decide it.
        """
        columns, names = _columns(table), tuple(names)
        categories, dates, decimals = {}, {}, {}
        for i, (column, name) in enumerate(zip(columns, names, strict=True)):
            check_cells(column, name)
            decimal = find_decimal(column)
            if i in categorical:
                categories[i] = _categories(column, name)
            elif holds_dates(column):
                dates[i] = DateColumn.fit(column, name, dayfirst)
            elif decimal is not None:
                decimals[i] = decimal
            elif is_text(column):
                categories[i] = _categories(column, name)
        fitted = cls(names, categories, np.zeros(0), np.ones(0), dates, decimals)
        fitted._warn_of_text(columns)
        warn_of_dayfirst(dayfirst, [columns[i] for i in dates])
        x = fitted._numbers(columns, len(table))
        kept = [name for i, name in enumerate(names) if i not in categories for _ in range(fitted._width(i))]
        for j in np.flatnonzero(np.isnan(x).all(0)):
            raise ValueError(ALL_MISSING.format(kept[j]))
        unit = np.nanmax(np.abs(x), 0, initial=0.0) + np.finfo(float).tiny  # squares of large numbers would overflow
        centre, scale = np.nanmean(x / unit, 0) * unit, np.nanstd(x / unit, 0) * unit
        flat = scale <= 1e-12 * np.abs(centre)  # constant, but for rounding
        return replace(fitted, centre=centre, scale=np.where(flat | (scale == 0), 1.0, scale))

    def tensors(self, table: Any) -> dict[str, Tensor]:
        """`x`, float32, (n, numbers), and if there are categories `c`, int64, (n, categories)."""
        columns = _columns(table)
        for i, column in enumerate(columns):
            check_cells(column, self.names[i])
        x = self._numbers(columns, len(table))
        tensors = {"x": torch.as_tensor(standardise(x, self.centre, self.scale), dtype=torch.float32)}
        if self.categories:
            codes = [_codes(columns[i], categories) for i, categories in self.categories.items()]
            tensors["c"] = torch.as_tensor(np.stack(codes, 1))
        return tensors

    def numbers(self, table: Any) -> np.ndarray:
        """Numbers in their own unit, (n, numbers), before they are standardised; NaN = missing."""
        return self._numbers(_columns(table), len(table))

    def _numbers(self, columns: list[Any], rows: int) -> np.ndarray:
        """(rows, numbers), in the order of the columns; a date is several numbers."""
        blocks = [np.zeros((rows, 0))]
        for i, (column, name) in enumerate(zip(columns, self.names, strict=True)):
            if i in self.dates:
                blocks.append(self.dates[i].features(column, name))
            elif i not in self.categories:
                blocks.append(to_numbers(column, name, self.decimals.get(i))[:, None])
        return np.concatenate(blocks, 1)

    def _width(self, i: int) -> int:
        return len(self.dates[i].names) if i in self.dates else 1

    def _warn_of_text(self, columns: list[Any]) -> None:
        """Warn where text is read as dates, or as numbers with separators."""
        for i, column in enumerate(columns):
            values, name = np.asarray(column, dtype=object), self.names[i]
            numbers, known = read_numbers(column)
            example = values[int(np.argmax(known & np.isnan(numbers)))]
            if i in self.dates and isinstance(example, str):
                features = ", ".join(self.dates[i].names).replace("days", f"days since {self.dates[i].first}")
                warnings.warn(
                    f"Column {name!r} holds dates such as {example!r}. Its features: {features}.", stacklevel=4
                )
            if i in self.decimals:
                number = read_numbers(values[known & np.isnan(numbers)][:1], self.decimals[i])[0].item()
                problem = f"Column {name!r} holds numbers with separators: {example!r} is read as {number:.15g}."
                warnings.warn(problem, stacklevel=4)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `levels` is the name of the categories in model folders. Centre and scale are not included."""
        values = {"names": list(self.names), "levels": {str(i): list(each) for i, each in self.categories.items()}}
        if self.dates:
            values["dates"] = {str(i): date.to_dict() for i, date in self.dates.items()}
        if self.decimals:
            values["decimals"] = {str(i): decimal for i, decimal in self.decimals.items()}
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any], centre: Tensor, scale: Tensor) -> "Columns":
        """Inverse of `to_dict`."""
        categories, names = {int(i): tuple(each) for i, each in values["levels"].items()}, tuple(values["names"])
        texts = [text for group in (names, *categories.values()) for text in group]
        if not {"names", "levels"} <= set(values) <= {"names", "levels", "dates", "decimals"}:
            raise ValueError("Columns must have names and categories.")
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("Names and categories must be text.")
        dates = {int(i): DateColumn(**each) for i, each in values.get("dates", {}).items()}
        decimals = {int(i): decimal for i, decimal in values.get("decimals", {}).items()}
        columns = cls(names, categories, centre.double().numpy(), scale.double().numpy(), dates, decimals)
        shape = (sum(columns._width(i) for i in range(len(names)) if i not in categories),)
        if not (centre.shape == scale.shape == shape) or not {*categories, *dates, *decimals} <= set(range(len(names))):
            raise ValueError("`columns` do not fit their scales.")
        return columns


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
    y_numbers = _target_numbers(y)
    try:
        values: Any = check_array(y_numbers, ensure_2d=False, dtype="float64", ensure_all_finite=False)
    except ValueError as err:
        names = ", ".join(f"column {name!r}" for name in target_names(y)) or "y"
        raise ValueError(f"Input y must hold numbers, (n,) or (n, outputs), in {names}: {err}") from None
    for bad, problem, remedy in (
        (np.isnan(values), "NaN", "Leave out rows without a target."),
        (np.isinf(values), "infinity", "Leave out these rows."),
        (np.abs(values) > MAX_ABSOLUTE_VALUE, f"a number above {MAX_ABSOLUTE_VALUE:g}", "Choose another unit."),
    ):
        if bad.any():
            row, *column = np.argwhere(bad)[0]
            where = f"{_label(y, column[0] if column else 0)}, {row_name(y, row)} ({bad.sum()} such values)"
            raise ValueError(f"Input y contains {problem}: {where}. {remedy}")
    return values if values.flags.writeable else values.copy()  # torch warns of a column of pandas, which is read-only


def _target_numbers(y: Any) -> Any:
    """The targets, with text read as numbers; dates and other text are refused."""
    frame, array = hasattr(y, "iloc"), np.asarray(y)
    if array.dtype.kind not in "OSUTMm" or array.ndim not in (1, 2) or not array.size:
        return y
    columns = _columns(y if frame and array.ndim == 2 else array.reshape(len(array), -1))
    read = []
    for i, column in enumerate(columns):
        if holds_dates(column) or column.dtype.kind == "m":
            raise ValueError(
                f"The target ({_label(y, i)}) must hold numbers. It holds dates or durations. Convert them, for "
                "instance to days since the first."
            )
        decimal = find_decimal(column)
        numbers, known = read_numbers(column, decimal)
        bad = np.flatnonzero(known & np.isnan(numbers))
        if len(bad):
            remedy = "Correct it, or leave out the row."
            if is_text(column):
                remedy = "Classification is not supported: name a column of numbers as the target."
            raise ValueError(
                f"The target ({_label(y, i)}) must hold numbers. Got {np.asarray(column, dtype=object)[bad[0]]!r} in "
                f"{row_name(y, bad[0])} ({len(bad)} such values). {remedy}"
            )
        read.append(numbers)
    return np.stack(read, 1).reshape(array.shape)


def target_names(y: Any) -> list[str]:
    """Names of the targets; empty if `y` has none."""
    if hasattr(y, "columns"):
        return [str(name) for name in y.columns]
    return [] if getattr(y, "name", None) is None else [str(y.name)]


def target_std(values: np.ndarray, y: Any) -> np.ndarray:
    """Standard deviation of each column of `values`, (n, outputs), which must vary; `y` has the names."""
    std, size = values.std(0), np.ptp(values, axis=0)
    for i in np.flatnonzero((size > 0) & (size < MIN_RANGE)):
        raise ValueError(
            f"The target ({_label(y, int(i))}) must vary by at least {MIN_RANGE:g}. Its largest number minus its "
            f"smallest is {size[i]:g}. Choose another unit."
        )
    for i in np.flatnonzero(std <= 1e-12 * np.abs(values.mean(0))):
        raise ValueError(
            f"The target ({_label(y, int(i))}) must vary. It is {values[0, i]:g} in all training rows. Check the data."
        )
    return std


def _columns(table: Any) -> list[Any]:
    return [table.iloc[:, i] for i in range(table.shape[1])] if hasattr(table, "iloc") else list(table.T)


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
    for category in categories:  # the text "7" and the number 7 are the same
        if WHOLE.fullmatch(category):
            code.setdefault(f"{category}.0", code[category])
            code.setdefault(category.removesuffix(".0"), code[category])
    codes = [code.get(category, 0) for category in text]
    return np.array([*codes, 0], dtype=np.int64)[index]  # the last is for -1, missing


def _label(y: Any, i: int) -> str:
    names = target_names(y)
    if names:
        return f"column {names[i]!r}"
    return f"column {i} of y" if len(getattr(y, "shape", (0,))) > 1 else "y"
