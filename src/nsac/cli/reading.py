"""Read tables from CSV, CSV.gz and Parquet files. Every error message is one line that explains how to fix the file."""

import csv
import difflib
import gzip
import io
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pandas import DataFrame, Series

DELIMITERS = (",", ";", "\t", "|")
"""The most frequent one in the header line is used; ties are resolved in this order."""

SNIFFED_BYTES = 1 << 16
"""Bytes from which delimiter, header and decimal separator are detected."""

MIN_NUMERIC_FRACTION = 0.5
"""A text column with at least this fraction of numbers is taken for a numeric column with errors."""


class TableError(ValueError):
    """A file cannot be read as a table. The message explains how to fix it."""


def read_table(path: Path, text: Iterable[str] = (), note: Callable[[str], None] = lambda _: None) -> "DataFrame":
    """Read a table with unique, named columns and at least one row.

    The file format is detected from the first bytes, the delimiter from the header. Columns without a name, such as
    the index that `DataFrame.to_csv` writes, are dropped.

    Args:
        path: CSV, CSV.gz or Parquet file.
        text: columns to read as text even if their values are numbers.
        note: called with a message for every dropped column.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError as err:
        raise TableError(f"{path} cannot be read: {err.strerror}. Give the path of a CSV or Parquet file.") from None
    if not start:
        raise TableError(f"{path} is empty. It needs a header line with the column names, and at least one row.")
    frame = _read_parquet(path) if start == b"PAR1" else _read_csv(path, list(text), start[:2] == b"\x1f\x8b")
    return _checked(frame, path, set(text), note)


def find_columns(frame: "DataFrame", names: Iterable[str], path: Path) -> None:
    """Raise an error for a name that is not a column, and suggest the closest one."""
    columns = [str(column) for column in frame.columns]
    for name in names:
        if name not in columns:
            lower = {column.casefold().strip(): column for column in columns}
            near = difflib.get_close_matches(name.casefold().strip(), lower, 1, 0.5)
            hint = f" Did you mean {lower[near[0]]!r}?" if near else ""
            raise TableError(f"{path} has no column {name!r}.{hint} Its columns are: {_listed(columns)}.")


def _read_parquet(path: Path) -> "DataFrame":
    import pandas as pd

    try:
        frame = pd.read_parquet(path, engine="pyarrow")
        for i in range(frame.shape[1]):
            if pd.api.types.is_string_dtype(frame.iloc[:, i]):
                frame.iloc[:, i].tolist()  # text is decoded on access, and may be damaged too
        return frame
    except ImportError:
        raise TableError(
            f"{path} is Parquet, which needs pyarrow. Run `pip install 'nsac[parquet]'`, or save the file as CSV."
        ) from None
    except Exception as err:  # a damaged file can raise many different errors of pyarrow
        raise TableError(f"{path} is not a complete Parquet file ({_first_line(err)}). Write the file again.") from None


def _read_csv(path: Path, text: list[str], gzipped: bool) -> "DataFrame":
    import pandas as pd

    try:
        with gzip.open(path, "rb") if gzipped else open(path, "rb") as file:
            head = file.read(SNIFFED_BYTES)
        header, delimiter, decimal = _sniff(head, path)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # pandas drops fields of rows that are too long
            frame = pd.read_csv(
                path,
                sep=delimiter,
                decimal=decimal,
                encoding="utf-8-sig",
                compression="gzip" if gzipped else None,
                skiprows=_blank(head),
                header=0,
                names=range(len(header)),  # pandas would rename duplicates
                dtype={header.index(name): str for name in text if name in header},
                index_col=False,
                skipinitialspace=True,
                low_memory=False,
            )
        return frame.rename(columns=dict(enumerate(header)))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TableError(f"{path} is not a complete gzip file. Compress or copy it again.") from None
    except UnicodeDecodeError:
        raise TableError(f"{path} is not UTF-8 text. Save it as CSV in UTF-8.") from None
    except pd.errors.ParserWarning:
        raise TableError(f"{path} has rows with more fields than its header. Name all columns in line 1.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error, OverflowError) as err:
        where = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(err))
        problem = _first_line(err)
        if where:
            problem = f"line {where[2]} has {where[3]} fields, the header has {where[1]}"
        raise TableError(f"{path} is not a table: {problem}. Correct that line, or put text in quotes.") from None
    except TableError:
        raise
    except (OSError, ValueError) as err:
        raise TableError(f"{path} cannot be read: {_first_line(err)}.") from None


def _sniff(head: bytes, path: Path) -> tuple[list[str], str, str]:
    """Column names, delimiter and decimal separator, detected from the first bytes."""
    if b"\0" in head:
        raise TableError(f"{path} is not a CSV file: it contains binary data. Give a CSV, CSV.gz or Parquet file.")
    cut = len(head) == SNIFFED_BYTES  # the last character may be incomplete
    lines = head.decode("utf-8-sig", errors="ignore" if cut else "strict").splitlines()[_blank(head) :]
    if not lines:
        raise TableError(f"{path} is empty. It needs a header line with the column names, and at least one row.")
    delimiter = max(DELIMITERS, key=lines[0].count)
    if cut and len(lines) < 2:
        raise TableError(
            f"{path} is not a table: its first line is longer than {SNIFFED_BYTES} bytes. Is it a CSV file?"
        )
    header = [name.strip() for name in next(csv.reader(io.StringIO(lines[0], newline=""), delimiter=delimiter))]
    comma = delimiter in ";\t" and any(re.search(rf"(^|{delimiter})-?\d+,\d+({delimiter}|$)", row) for row in lines[1:])
    return header, delimiter, "," if comma else "."


def _blank(head: bytes) -> int:
    """Number of empty lines before the header."""
    lines = head.decode("utf-8-sig", errors="ignore").splitlines()
    return next((i for i, line in enumerate(lines) if line.strip()), len(lines))


def _checked(frame: "DataFrame", path: Path, text: set[str], note: Callable[[str], None]) -> "DataFrame":
    frame.columns = [str(name) for name in frame.columns]
    unnamed = [i for i, name in enumerate(frame.columns) if not name.strip()]
    if unnamed:
        note(f"{path}: dropped column {', '.join(str(i + 1) for i in unnamed)}, which has no name.")
        frame = frame.iloc[:, [i for i in range(frame.shape[1]) if i not in unnamed]]
    duplicates = [name for name, count in Counter(frame.columns).items() if count > 1]
    if duplicates:
        raise TableError(f"{path} has more than one column {duplicates[0]!r}. Give every column a unique name.")
    if frame.shape[1] and all(_is_number(name) for name in frame.columns):
        raise TableError(f"{path} has numbers in its first line. Add a header line with the column names.")
    if frame.empty:
        raise TableError(f"{path} has no rows. It needs at least one row after the header.")
    for name in frame.columns:
        if name not in text:
            _check_mixed(cast("Series", frame[name]), name, path)
    return frame


def _check_mixed(column: "Series", name: str, path: Path) -> None:
    """Refuse text in a numeric column: it is an error, or a code for missing values that pandas does not know."""
    import numpy as np
    import pandas as pd

    if not (pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column)):
        return
    rows = np.flatnonzero(column.notna())
    values = [str(value) for value in column.iloc[rows]]
    is_text = np.isnan(np.asarray(pd.to_numeric(pd.Series(values, dtype=object), errors="coerce"), dtype=float))
    if not is_text.any() or is_text.mean() > 1 - MIN_NUMERIC_FRACTION:
        return
    first = int(is_text.argmax())
    raise TableError(
        f"{path}: column {name!r} is numeric, but row {rows[first] + 1} contains {values[first][:40]!r}. Correct it, "
        f"leave the field empty if the value is missing, or pass `--category {name}` if the column is categorical."
    )


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _listed(columns: list[str], limit: int = 20) -> str:
    return ", ".join(columns[:limit]) + (f", ... ({len(columns)} in all)" if len(columns) > limit else "")


def _first_line(err: BaseException) -> str:
    return (str(err).strip().splitlines() or [type(err).__name__])[0][:200].rstrip(".")
