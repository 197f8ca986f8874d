"""Cells of a table as numbers: plain ones, and texts with separators such as "1,100"."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from nsac._checks import row_name
from nsac.estimators.observations import MAX_ABSOLUTE_VALUE

SEPARATORS = "' \u00a0\u202f"  # between thousands, besides the comma or point that is not the decimal separator


def check_cells(column: Any, name: str) -> None:
    """Refuse lists and other objects in cells."""
    import pandas as pd

    if column.dtype != object:
        return
    for row, value in enumerate(column):
        if not pd.api.types.is_scalar(value):
            raise TypeError(
                f"Column {name!r}: argument must be a string or a number in every row. Got {value!r} in "
                f"{row_name(column, row)}. Make a column of each of its entries, or leave the column out."
            )


def is_text(column: Any) -> bool:
    """Whether a column holds categories: by its dtype, or because most of its known values are not numbers."""
    if hasattr(column, "cat"):
        return True
    if column.dtype.kind in "biufcmM":
        return False
    read, known = read_numbers(column)
    return bool(known.any()) and np.isnan(read[known]).mean() > 0.5


def find_decimal(column: Any) -> str | None:
    """The decimal separator of a column of text whose numbers have separators, as in "1,100"; otherwise None."""
    if hasattr(column, "cat") or column.dtype.kind in "biufcmM":
        return None
    read, known = read_numbers(column)
    if not np.isnan(read[known]).any():
        return None
    return decimal_separator(np.asarray(column, dtype=object)[known].tolist())


def read_numbers(column: Any, decimal: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, NaN where a value is no number, and whether a value is known; `decimal` is that of `find_decimal`."""
    import pandas as pd

    column = pd.Series(np.asarray(column, dtype=object))
    if decimal is not None:
        column = column.map(lambda value: remove_separators(value, decimal) if isinstance(value, str) else value)
    known = column.notna().to_numpy()
    numbers: Any = pd.to_numeric(column, errors="coerce")
    return numbers.to_numpy(dtype=float, na_value=np.nan), known


def to_numbers(column: Any, name: str, decimal: str | None = None) -> np.ndarray:
    """Numbers, NaN where one is missing; any other value is an error. `decimal` is that of `find_decimal`."""
    kind = column.dtype.kind
    if kind in "mM":
        holds = "dates, but none in training" if kind == "M" else "durations"
        raise ValueError(f"Column {name!r} must hold numbers. It holds {holds}. Convert them, for instance to days.")
    if kind in "biuf" and isinstance(column, np.ndarray):
        values = column.astype(float)
    elif kind in "biuf":
        values = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        values, known = read_numbers(column, decimal)
        bad = np.flatnonzero(known & np.isnan(values))
        if len(bad):
            value = np.asarray(column, dtype=object)[bad[0]]
            raise ValueError(
                f"Column {name!r} must hold numbers. Got {value!r} in {row_name(column, bad[0])} ({len(bad)} such "
                "values) instead. Clean them, replace them by NaN, or name the column in `categorical`."
            )
    bad = np.flatnonzero(np.abs(values) > MAX_ABSOLUTE_VALUE)
    if len(bad):
        row = bad[0]
        value, rule = f"{values[row]:g}", f"numbers of at most {MAX_ABSOLUTE_VALUE:g}"
        if np.isinf(values[row]):
            value, rule = "infinity", "finite numbers"
        raise ValueError(
            f"Column {name!r} must hold {rule}, or NaN where one is missing. Got {value} in "
            f"{row_name(column, row)} ({len(bad)} such values) instead. Replace them by NaN, or choose another unit."
        )
    return values


def decimal_separator(texts: Sequence[Any]) -> str | None:
    """The decimal separator of numbers of which some have separators, as in "1,100"; None if these are no such texts.

    All must be numbers with the same one. If only thousands have separators, as in "1,100", that is a point.
    """
    if not all(isinstance(text, str) for text in texts):
        return None
    for decimal in (".", ","):
        if all(is_number(text, decimal) for text in texts):
            return decimal
    return None


def is_number(text: str, decimal: str) -> bool:
    """Whether a text is a number with this decimal separator, with or without separators between thousands."""
    thousands = "," if decimal == "." else "."
    whole = rf"(?:\d+|\d{{1,3}}(?:[{thousands}{SEPARATORS}]\d{{3}})+)"
    return re.fullmatch(rf"\s*[+-]?{whole}(?:\{decimal}\d*)?(?:[eE][+-]?\d+)?\s*", text) is not None


def remove_separators(text: str, decimal: str) -> str:
    """The text of a number as Python reads it."""
    for separator in SEPARATORS + ("," if decimal == "." else "."):
        text = text.strip().replace(separator, "")
    return text.replace(decimal, ".")
