"""Reading CSV, CSV.gz and Parquet files. Every error message is one line that explains how to fix the file."""

import csv
import gzip
import io
import re
import shlex
import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsac.cli.common import note, status

if TYPE_CHECKING:
    from pandas import DataFrame

SNIFFED_BYTES = 1 << 16
"""Bytes from which delimiter, header and decimal separator are detected."""
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""First bytes of a text in this encoding."""
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


def read_file(
    path: Path, text: Sequence[str], encoding: str | None, needed: Collection[str] | None = None
) -> "DataFrame":
    """`read_table`, with a spinner."""
    with status(f"reading {path}"):
        return read_table(path, text, encoding, needed)


def read_table(
    path: Path, text: Sequence[str] = (), encoding: str | None = None, needed: Collection[str] | None = None
) -> "DataFrame":
    """Read a table with unique, named columns and at least one row; the columns `text` are read as text.

    The columns that are not `needed` (None: all are) stay as they are in the file, so that they can be written again.

    The file format is detected from the first bytes, the delimiter from the header. Columns without a name, such as
    the index that `DataFrame.to_csv` writes, are dropped, with a note.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError as err:
        raise TableError(f"{path} cannot be read: {err.strerror}. Give the path of a CSV or Parquet file.") from None
    if not start:
        raise TableError(f"{path} is empty. It needs a header line with the column names, and at least one row.")
    if start == b"PAR1":
        frame, decimal = _read_parquet(path, needed), "."
    else:
        frame, decimal = _read_csv(path, list(text), needed, start[:2] == b"\x1f\x8b", encoding or "utf-8-sig")
    frame.columns = [str(name) for name in frame.columns]
    unnamed = [i for i, name in enumerate(frame.columns) if not name.strip()]
    if unnamed:
        note(f"{path}: dropped column {', '.join(str(i + 1) for i in unnamed)}, which has no name.")
        frame = frame.iloc[:, [i for i in range(frame.shape[1]) if i not in unnamed]]
    duplicates = [name for name, count in Counter(frame.columns).items() if count > 1]
    if duplicates:
        raise TableError(f"{path} has more than one column {duplicates[0]!r}. Give every column a unique name.")
    if frame.shape[1] and all(is_number(name) for name in frame.columns):
        raise TableError(f"{path} has numbers in its first line. Add a header line with the column names.")
    if frame.empty:
        raise TableError(f"{path} has no rows. It needs at least one row after the header.")
    import pandas as pd

    from nsac._checks import FILE_ROWS

    frame.index = pd.RangeIndex(1, len(frame) + 1, name=FILE_ROWS)
    for name in frame.columns:
        if needed is None or name in needed:
            frame[name] = without_blanks(frame[name], name in text)
            if name not in text:
                if decimal == ",":
                    frame[name] = with_decimal_commas(frame[name])
                check_mixed(frame, name, path, decimal)
    return frame


def _read_parquet(path: Path, needed: Collection[str] | None) -> "DataFrame":
    import pandas as pd

    try:
        frame = pd.read_parquet(path, engine="pyarrow")
        others = [name for name in frame.columns if needed is not None and name not in needed]
        if others:  # whole numbers with missing values would become floats
            frame[others] = pd.read_parquet(path, engine="pyarrow", columns=others, dtype_backend="numpy_nullable")
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


def _read_csv(
    path: Path, text: list[str], needed: Collection[str] | None, gzipped: bool, encoding: str
) -> tuple["DataFrame", str]:
    """The frame, and the decimal separator of the file."""
    import pandas as pd

    try:
        "a".encode(encoding)
    except LookupError:
        raise TableError(f"`--encoding` must be one of Python, such as latin-1. Got {encoding!r} instead.") from None
    try:
        with gzip.open(path, "rb") if gzipped else open(path, "rb") as file:
            header, delimiter, decimal, blank = _sniff(file.read(SNIFFED_BYTES), path, encoding)
        read = [i for i, name in enumerate(header) if needed is None or name in needed]
        as_text = [i for i, name in enumerate(header) if i not in read or name in text]
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # pandas drops fields of rows that are too long
            frame = pd.read_csv(
                path,
                sep=delimiter,
                decimal=decimal,
                encoding=encoding,
                compression="gzip" if gzipped else None,
                skiprows=blank,
                header=0,
                names=range(len(header)),  # pandas would rename duplicates
                dtype=dict.fromkeys(as_text, str),
                keep_default_na=False,
                na_values=dict.fromkeys(read, MISSING),
                index_col=False,
                skipinitialspace=True,
                low_memory=False,
            )
        return frame.rename(columns=dict(enumerate(header))), decimal
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TableError(f"{path} is not a complete gzip file. Compress or copy it again.") from None
    except UnicodeError:
        name = "UTF-8" if encoding == "utf-8-sig" else encoding
        remedy = "Pass its encoding, for instance `--encoding latin-1`, or save it as CSV in UTF-8."
        raise TableError(f"{path} is not {name} text. {remedy}") from None
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


def _sniff(head: bytes, path: Path, encoding: str) -> tuple[list[str], str, str, int]:
    """Column names, delimiter, decimal separator and number of empty lines before the header."""
    if b"\0" in head and encoding == "utf-8-sig":
        remedy = "Pass `--encoding utf-16`" if head[:2] in UTF_16 else "Give a CSV, CSV.gz or Parquet file"
        raise TableError(f"{path} is not a CSV file: it contains binary data. {remedy}.")
    cut = len(head) == SNIFFED_BYTES  # the last character may be incomplete
    lines = head.decode(encoding, errors="ignore" if cut else "strict").splitlines()
    blank = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    if not (lines := lines[blank:]):
        raise TableError(f"{path} is empty. It needs a header line with the column names, and at least one row.")
    if cut and len(lines) < 2:
        raise TableError(
            f"{path} is not a table: its first line is longer than {SNIFFED_BYTES} bytes. Is it a CSV file?"
        )
    delimiter = find_delimiter(lines)
    header = next(split_rows(lines, delimiter))
    number = rf"(^|{delimiter})\s*[+-]?\d+,\d+\s*({delimiter}|$)"
    example = next((row for row in lines[1:] if delimiter in ";\t" and re.search(number, row)), None)
    if example is not None:
        note(f"{path}: commas in numbers are read as decimal commas.")
    return [" ".join(name.split()) for name in header], delimiter, "." if example is None else ",", blank


def _first_line(err: BaseException) -> str:
    return (str(err).strip().splitlines() or [type(err).__name__])[0][:200].rstrip(".")


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


def with_decimal_commas(column: Any) -> Any:
    """The column as numbers if all of its texts are such as "1.234,5" or "1.500", which pandas does not read."""
    from nsac.estimators.cells import is_number, read_numbers

    known = [value for value in column if isinstance(value, str)]
    if not known or not all(is_number(value, ",") for value in known):
        return column
    return read_numbers(column, ",")[0]


def check_mixed(frame: "DataFrame", name: str, path: Path, decimal: str = ".") -> None:
    """Refuse text in a numeric column: it is an error, or a code for missing values that pandas does not know."""
    import numpy as np
    import pandas as pd

    from nsac._checks import row_name
    from nsac.estimators import cells

    column = frame.loc[:, name]
    if not (pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column)):
        return
    rows = np.flatnonzero(column.notna())
    values = [str(value) for value in column.iloc[rows]]
    is_text = np.isnan(cells.read_numbers(values)[0])
    if decimal == "," and is_text.any():
        by_commas = np.array([not cells.is_number(value, decimal) for value in values])
        is_text = by_commas if by_commas.sum() < is_text.sum() else is_text
    if not is_text.any() or is_text.mean() > 1 - MIN_NUMERIC_FRACTION or cells.find_decimal(column) is not None:
        return
    first = int(is_text.argmax())
    raise TableError(
        f"{path}: column {name!r} is numeric, but {row_name(frame, rows[first])} contains "
        f"{values[first][:40]!r}. Correct it, leave the field empty if the value is missing, or call `nsac fit` "
        f"with `--drop {shlex.quote(name)}`, or with `--category {shlex.quote(name)}` if it is categorical in a table."
    )


def is_number(text: str) -> bool:
    """Whether Python reads a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
