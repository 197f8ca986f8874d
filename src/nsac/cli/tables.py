"""Tables in CSV, CSV.gz and Parquet files: read them; fit, predict and evaluate their rows.

Every error message is one line that explains how to fix the file.
"""

import csv
import difflib
import gzip
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsac.cli.common import errors, note
from nsac.cli.fields import MISSING, TableError, check_mixed, find_delimiter, is_number, split_rows, without_blanks

if TYPE_CHECKING:
    from pandas import DataFrame

    from nsac.estimators.evaluation import Evaluation
    from nsac.estimators.regressor import NSACRegressor

SNIFFED_BYTES = 1 << 16
"""Bytes from which delimiter, header and decimal separator are detected."""
MIN_SIMILARITY = 0.65
"""Similarity from which on a column name is suggested instead of another."""
CHUNK_ROWS = 20_000
"""Rows predicted between two updates of the progress bar."""


def read_table(path: Path, text: Sequence[str] = (), needed: Collection[str] | None = None) -> "DataFrame":
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
        frame = _read_parquet(path, needed)
    else:
        frame = _read_csv(path, list(text), needed, start[:2] == b"\x1f\x8b")
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
    for name in frame.columns:
        if needed is None or name in needed:
            frame[name] = without_blanks(frame[name], name in text)
            if name not in text:
                check_mixed(frame, name, path)
    return frame


def find_columns(frame: "DataFrame", names: Iterable[str], path: Path) -> None:
    """Raise an error for a name that is not a column, and suggest the closest one."""
    columns = [str(column) for column in frame.columns]
    for name in names:
        if name not in columns:
            lower = {column.casefold().strip(): column for column in columns}
            near = difflib.get_close_matches(name.casefold().strip(), lower, 1, MIN_SIMILARITY)
            hint = f" Did you mean {lower[near[0]]!r}?" if near else ""
            raise TableError(f"{path} has no column {name!r}.{hint} {_list_columns(columns)}")


def _list_columns(columns: Sequence[str]) -> str:
    more = f", ... ({len(columns)} in all)" if len(columns) > 20 else ""
    return f"Its columns are: {', '.join(columns[:20])}{more}."


def fit(frame: "DataFrame", path: Path, targets: list[str], settings: dict[str, Any]) -> tuple["NSACRegressor", int]:
    """A fitted regressor, and the number of rows it was fitted on: those whose targets are known."""
    import numpy as np

    from nsac.estimators.regressor import NSACRegressor

    known = np.asarray(frame[targets].notna()).all(axis=1)
    if not known.all():
        note(f"{path}: left out {(~known).sum()} rows without a target.")
    frame = frame.iloc[np.flatnonzero(known)]
    if not len(frame):
        raise TableError(f"{path} has no row with a known target. Name another column with `--target`.")
    if frame.shape[1] == len(targets):
        raise TableError(f"{path} has no columns but the target. Add columns to predict it from.")
    y, X = frame[targets[0]] if len(targets) == 1 else frame[targets], frame.drop(columns=targets)
    _note_columns(X, path, settings.get("categorical") or ())
    return NSACRegressor(**settings).fit(X, y), len(frame)


def _note_columns(X: "DataFrame", path: Path, categorical: Collection[str]) -> None:
    """Print which columns are categories and which are dates; dates as text and separators are warned of in `fit`."""
    from nsac.estimators.cells import find_decimal, is_text
    from nsac.estimators.dates import holds_dates

    categories, dates = [], []
    for name in X.columns:
        column = X[name]
        if name not in categorical and column.dtype.kind == "M":
            dates.append(name)
        elif name in categorical or (is_text(column) and not holds_dates(column) and find_decimal(column) is None):
            categories.append(f"{name} ({column.nunique()})")
    if categories:
        note(f"{path}: categorical columns, with their number of categories: {', '.join(categories)}.")
    if dates:
        note(f"{path}: columns of dates, whose features are year, month, day, weekday and days: {', '.join(dates)}.")


def text_columns(estimator: Any) -> list[str]:
    """Columns that `fit` has read as text: categories, and numbers with separators.

    Categories that were numbers have Python's text of a float.
    """
    columns = estimator.columns_
    categories = getattr(columns, "categories", {})  # a forecaster has none
    texts = [i for i, each in categories.items() if not all(is_number(t) and repr(float(t)) == t for t in each)]
    return [columns.names[i] for i in [*texts, *getattr(columns, "decimals", {})]]


def predict(
    estimator: "NSACRegressor", frame: "DataFrame", path: Path, targets: list[str], coverage: Sequence[float]
) -> "DataFrame":
    """Predictions, one row per row of the file, after those of its columns that are neither input nor target."""
    import pandas as pd
    from rich.progress import track

    X = _features(estimator, frame, path)
    others = frame[[name for name in frame.columns if name not in X.columns and name not in targets]]
    starts = range(0, len(X), CHUNK_ROWS)
    chunks = [
        estimator.predict_frame(X.iloc[start : start + CHUNK_ROWS], coverage)
        for start in track(starts, "predicting", console=errors, disable=len(starts) < 2)
    ]
    predictions = pd.concat(chunks, ignore_index=True)
    names: dict[str, str] = {}
    taken = {*others.columns, *predictions.columns}
    for name in others.columns.intersection(predictions.columns):
        names[name] = f"{name}_file"
        while names[name] in taken:
            names[name] += "_file"
        taken.add(names[name])
        note(f"{path}: column {name!r} is written as {names[name]!r}, because {name!r} is a column of the predictions.")
    others.columns = [names.get(name, name) for name in others.columns]
    return pd.concat([others.reset_index(drop=True), predictions], axis=1)


def evaluate(estimator: "NSACRegressor", frame: "DataFrame", path: Path, targets: list[str]) -> list["Evaluation"]:
    """One per target; the baseline is the mean and standard deviation of the training rows."""
    import torch

    from nsac.estimators.cells import find_decimal, to_numbers
    from nsac.estimators.evaluation import evaluate_rows
    from nsac.uncertainty import Prediction

    if len(targets) != len(estimator.centre_):
        raise TableError(f"The model predicts {len(estimator.centre_)} targets. Name them, in order, with `--target`.")
    X = _features(estimator, frame, path)
    for name in targets:
        if name not in frame.columns:
            problem = f"{path} has no column {name!r}, the target of the model, so there is nothing to compare with."
            raise TableError(f"{problem} Add it, or name another with `--target`. {_list_columns(list(frame.columns))}")
    p = estimator.predict_distribution(X)
    lower, upper = estimator.conformal_interval(p, 0.9)
    evaluations = []
    for i, name in enumerate(targets):
        column = frame[name]
        y = torch.tensor(to_numbers(column, name, find_decimal(column)))
        if y.isnan().any():
            note(f"{path}: left out {int(y.isnan().sum())} rows without a value of {name!r}.")
        mean, std = torch.full_like(y, float(estimator.centre_[i])), torch.full_like(y, float(estimator.scale_[i]))
        output = (slice(None), i) if len(p.shape) == 2 else (slice(None),)
        interval = (lower[output], upper[output])
        baseline = Prediction.gaussian(mean, std)
        evaluations.append(evaluate_rows(name, p[output], interval, y, baseline, "the training mean"))
    return evaluations


def _features(estimator: Any, frame: "DataFrame", path: Path) -> "DataFrame":
    names = list(getattr(estimator, "feature_names_in_", []))
    if not names:
        raise TableError(
            "The model was fitted to columns without names, so a file cannot be matched. Use it in Python."
        )
    find_columns(frame, names, path)
    return frame.loc[:, names]


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


def _read_csv(path: Path, text: list[str], needed: Collection[str] | None, gzipped: bool) -> "DataFrame":
    import pandas as pd

    try:
        with gzip.open(path, "rb") if gzipped else open(path, "rb") as file:
            header, delimiter, decimal, blank = _sniff(file.read(SNIFFED_BYTES), path)
        read = [i for i, name in enumerate(header) if needed is None or name in needed]
        as_text = [i for i, name in enumerate(header) if i not in read or name in text]
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # pandas drops fields of rows that are too long
            frame = pd.read_csv(
                path,
                sep=delimiter,
                decimal=decimal,
                encoding="utf-8-sig",
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


def _sniff(head: bytes, path: Path) -> tuple[list[str], str, str, int]:
    """Column names, delimiter, decimal separator and number of empty lines before the header."""
    if b"\0" in head:
        raise TableError(f"{path} is not a CSV file: it contains binary data. Give a CSV, CSV.gz or Parquet file.")
    cut = len(head) == SNIFFED_BYTES  # the last character may be incomplete
    lines = head.decode("utf-8-sig", errors="ignore" if cut else "strict").splitlines()
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
