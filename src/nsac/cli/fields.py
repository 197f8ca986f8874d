"""Fields of a file: their delimiter, missing values, and text among numbers."""

import csv
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

DELIMITERS = (",", ";", "\t", "|")
"""Ties are resolved in this order."""
SNIFFED_ROWS = 20
"""Rows that a delimiter should split like the header."""
MIN_NUMERIC_FRACTION = 0.5
"""A text column with at least this fraction of numbers is taken for a numeric column with errors."""
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""Texts that are missing values, in columns that are read."""


class TableError(ValueError):
    """A file cannot be read as a table. The message explains how to fix it."""


def find_delimiter(lines: list[str]) -> str:
    """The one that splits most rows like the header; among those the most frequent one in the header."""
    names, rank = re.sub('"[^"]*"', "", lines[0]), {}
    for delimiter in DELIMITERS:
        header, *below = [len(row) for row in split_rows(lines[: SNIFFED_ROWS + 1], delimiter)]
        agreeing = sum(fields == header for fields in below) / max(1, len(below))
        rank[delimiter] = (agreeing if header > 1 else 0.0, names.count(delimiter))
    return max(DELIMITERS, key=rank.__getitem__)


def split_rows(lines: list[str], delimiter: str) -> Iterator[list[str]]:
    """Fields of each row that is not empty."""
    text = io.StringIO("\n".join(lines), newline="")
    return (row for row in csv.reader(text, delimiter=delimiter, skipinitialspace=True) if row)


def without_blanks(column: Any, text: bool) -> Any:
    """The column with missing values where a field has spaces around nothing, or around a text of `MISSING`."""
    import pandas as pd

    if not (pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column)):
        return column
    missing = column.map(lambda value: isinstance(value, str) and value.strip() in MISSING).astype(bool)
    if not missing.any():
        return column
    column = column.mask(missing)
    numbers: Any = pd.to_numeric(column, errors="coerce")
    return column if text or (numbers.isna() & column.notna()).any() else numbers


def check_mixed(frame: "DataFrame", name: str, path: Path) -> None:
    """Refuse text in a numeric column: it is an error, or a code for missing values that pandas does not know."""
    import numpy as np
    import pandas as pd

    from nsac.estimators.cells import find_decimal

    column = frame.loc[:, name]
    if not (pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column)):
        return
    rows = np.flatnonzero(column.notna())
    values = [str(value) for value in column.iloc[rows]]
    is_text = np.isnan(np.asarray(pd.to_numeric(pd.Series(values, dtype=object), errors="coerce"), dtype=float))
    if not is_text.any() or is_text.mean() > 1 - MIN_NUMERIC_FRACTION or find_decimal(column) is not None:
        return
    first = int(is_text.argmax())
    raise TableError(
        f"{path}: column {name!r} is numeric, but row {rows[first] + 1} contains {values[first][:40]!r}. Correct it, "
        "leave the field empty if the value is missing, or if the column is categorical pass "
        f"`--category {shlex.quote(name)}`."
    )


def is_number(text: str) -> bool:
    """Whether Python reads a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
