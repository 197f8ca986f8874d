"""Tables from files: CSV, compressed or not, and Parquet. What is wrong with a file is said in one line."""

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
"""Tried in this order; the one that the header has most of is taken."""

HEAD = 1 << 16
"""Bytes that are looked at before a file is read."""

NUMERIC_SHARE = 0.5
"""A column of which at least this share is numbers was meant to be one of numbers."""


class TableError(ValueError):
    """A file that is not a table we can read; the message says what to do."""


def read_table(path: Path, text: Iterable[str] = (), note: Callable[[str], None] = lambda _: None) -> "DataFrame":
    """A table with unique, named columns and at least one row.

    The kind of file is told by its first bytes, the delimiter by its header. Columns without a name, as an index that
    was written along has none, are left out.

    Args:
        path: CSV, CSV.gz or Parquet.
        text: columns to read as text, whatever they look like.
        note: told what was left out.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError as err:
        raise TableError(f"{path} cannot be read: {err.strerror}. Give the path of a CSV or Parquet file.") from None
    if not start:
        raise TableError(f"{path} is empty. It needs a header line with the names of the columns, and rows.")
    frame = _read_parquet(path) if start == b"PAR1" else _read_csv(path, list(text), start[:2] == b"\x1f\x8b")
    return _checked(frame, path, set(text), note)


def find_columns(frame: "DataFrame", names: Iterable[str], path: Path) -> None:
    """Refuse a name that is no column, and suggest one that is."""
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
                frame.iloc[:, i].tolist()  # text is decoded when it is looked at, and may be damaged too
        return frame
    except ImportError:
        raise TableError(
            f"{path} is Parquet, which needs pyarrow. Run `pip install 'nsac[parquet]'`, or save the file as CSV."
        ) from None
    except Exception as err:  # pyarrow has many kinds of errors, and a damaged file may meet any
        raise TableError(f"{path} is not a whole Parquet file ({_first_line(err)}). Write it again.") from None


def _read_csv(path: Path, text: list[str], packed: bool) -> "DataFrame":
    import pandas as pd

    try:
        with gzip.open(path, "rb") if packed else open(path, "rb") as file:
            head = file.read(HEAD)
        header, delimiter, decimal = _look(head, path)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header would lose numbers
            frame = pd.read_csv(
                path,
                sep=delimiter,
                decimal=decimal,
                encoding="utf-8-sig",
                compression="gzip" if packed else None,
                skiprows=_blank(head),
                header=0,
                names=range(len(header)),  # pandas would rename doubles
                dtype={header.index(name): str for name in text if name in header},
                index_col=False,
                skipinitialspace=True,
                low_memory=False,
            )
        return frame.rename(columns=dict(enumerate(header)))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TableError(f"{path} is not a whole gzip file. Compress or copy it again.") from None
    except UnicodeDecodeError:
        raise TableError(f"{path} is not text in UTF-8. Save it as CSV in UTF-8.") from None
    except pd.errors.ParserWarning:
        raise TableError(f"{path} has rows with more fields than its header. Name every column in line 1.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error, OverflowError) as err:
        where = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(err))
        told = f"line {where[2]} has {where[3]} fields, the header {where[1]}" if where else _first_line(err)
        raise TableError(f"{path} is not a table: {told}. Correct that line, or put text in quotes.") from None
    except TableError:
        raise
    except (OSError, ValueError) as err:
        raise TableError(f"{path} cannot be read: {_first_line(err)}.") from None


def _look(head: bytes, path: Path) -> tuple[list[str], str, str]:
    """Names of the columns, delimiter and decimal point, from the first bytes."""
    if b"\0" in head:
        raise TableError(f"{path} is not a CSV file: it holds binary data. Give a CSV, CSV.gz or Parquet file.")
    lines = head.decode("utf-8-sig", errors="ignore" if len(head) == HEAD else "strict").splitlines()[_blank(head) :]
    if not lines:
        raise TableError(f"{path} is empty. It needs a header line with the names of the columns, and rows.")
    delimiter = max(DELIMITERS, key=lines[0].count)
    if len(head) == HEAD and len(lines) < 2:
        raise TableError(f"{path} is not a table: its first line has more than {HEAD} bytes. Is it a CSV file?")
    header = [name.strip() for name in next(csv.reader(io.StringIO(lines[0], newline=""), delimiter=delimiter))]
    comma = delimiter in ";\t" and any(re.search(rf"(^|{delimiter})-?\d+,\d+({delimiter}|$)", row) for row in lines[1:])
    return header, delimiter, "," if comma else "."


def _blank(head: bytes) -> int:
    """Empty lines before the header."""
    lines = head.decode("utf-8-sig", errors="ignore").splitlines()
    return next((i for i, line in enumerate(lines) if line.strip()), len(lines))


def _checked(frame: "DataFrame", path: Path, text: set[str], note: Callable[[str], None]) -> "DataFrame":
    frame.columns = [str(name) for name in frame.columns]
    unnamed = [i for i, name in enumerate(frame.columns) if not name.strip()]
    if unnamed:
        note(f"{path}: left out column {', '.join(str(i + 1) for i in unnamed)}, which has no name.")
        frame = frame.iloc[:, [i for i in range(frame.shape[1]) if i not in unnamed]]
    double = [name for name, count in Counter(frame.columns).items() if count > 1]
    if double:
        raise TableError(f"{path} has more than one column {double[0]!r}. Give every column a name of its own.")
    if frame.shape[1] and all(_is_number(name) for name in frame.columns):
        raise TableError(f"{path} has numbers in its first line. Put a line with the names of the columns above.")
    if frame.empty:
        raise TableError(f"{path} has no rows. It needs at least one line after the header.")
    for name in frame.columns:
        if name not in text:
            _check_mixed(cast("Series", frame[name]), name, path)
    return frame


def _check_mixed(column: "Series", name: str, path: Path) -> None:
    """A word among numbers is a mistake, or a way to say missing that we do not know."""
    import numpy as np
    import pandas as pd

    if not (pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column)):
        return
    rows = np.flatnonzero(column.notna())
    values = [str(value) for value in column.iloc[rows]]
    words = np.isnan(np.asarray(pd.to_numeric(pd.Series(values, dtype=object), errors="coerce"), dtype=float))
    if not words.any() or words.mean() > 1 - NUMERIC_SHARE:
        return
    place = int(words.argmax())
    raise TableError(
        f"{path}: column {name!r} holds numbers, but {values[place][:40]!r} in row {rows[place] + 1}. Correct it, "
        f"leave the field empty if it is missing, or pass `--category {name}` if it is a name."
    )


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _listed(columns: list[str], most: int = 20) -> str:
    return ", ".join(columns[:most]) + (f", ... ({len(columns)} in all)" if len(columns) > most else "")


def _first_line(err: BaseException) -> str:
    return (str(err).strip().splitlines() or [type(err).__name__])[0][:200].rstrip(".")
