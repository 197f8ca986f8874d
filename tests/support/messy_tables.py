"""Random CSV files as people have them: encodings, delimiters, dates, decimal commas, extreme values, odd names."""

import csv
import io
from dataclasses import dataclass

import numpy as np

ENCODINGS = (*["utf-8"] * 8, "utf-8-sig", "utf-8-sig", "latin-1", "utf-16")
DELIMITERS = (",", ",", ";", "\t", "|")
DATE_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d %H:%M", "%d %b %Y", "%Y-%m-%dT%H:%M:%SZ", "%d/%m/%y")
NAMES = ("a", "price $x_{$", "größe", "température", "a b", "mean", "std", "lower_90", 'say "hi"', "x;y", "x,y", "[/b]")
NAMES += ("id", "1", "", "Ω", "日本", "<b>", "line\nbreak", "y_hat", "when", "\\alpha", "%s", "{0}")
EXTREMES = ("1e300", "-1e300", "inf", "-inf", "nan", "1e-300", "NaN", "1e99", "abc", "-", "#DIV/0!", "1e400", "0x10")
COMMON = ("number", "whole", "category", "date", "constant", "comma", "thousands", "truth", "gaps")
RARE = ("extreme", "empty", "unique", "mixed", "zip")  # most of these are refused


@dataclass(frozen=True)
class MessyTable:
    """The bytes of two files with the same columns, and the target."""

    train: bytes
    test: bytes
    target: str
    about: str  # for the message of a failing test


def messy_table(seed: int) -> MessyTable:
    """A table of this seed; most have a target that can be fitted."""
    rng = np.random.default_rng(seed)
    rows = int(rng.choice([0, 1, 4, 8, 20, 40], p=[0.04, 0.06, 0.05, 0.15, 0.4, 0.3]))
    kinds = [str(rng.choice(RARE if rng.random() < 0.12 else COMMON)) for _ in range(rng.integers(1, 5))]
    names = [str(name) for name in rng.choice(NAMES, len(kinds), replace=bool(rng.random() < 0.1))]
    target = str(rng.choice(["y", "y", "prix $€", "Größe"]))
    encoding, delimiter = str(rng.choice(ENCODINGS)), str(rng.choice(DELIMITERS))
    layouts = [str(rng.choice(DATE_FORMATS)) for _ in kinds]
    comma = delimiter in ";\t" and rng.random() < 0.5
    kind = str(
        rng.choice(["number", "whole", "extreme", "category", "date", "constant"], p=[0.7, 0.1, 0.08, 0.04, 0.04, 0.04])
    )
    contents = []
    for n in (rows, max(1, rows // 2)):
        columns = [_cells(rng, each, n, layout, comma) for each, layout in zip(kinds, layouts, strict=True)]
        columns.append(_cells(rng, kind, n, "%Y-%m-%d", comma))
        contents.append(_encode(rng, [*names, target], columns, delimiter, encoding))
    about = (
        f"seed {seed}: {rows} rows, {list(zip(names, kinds, strict=True))}, target {kind}, {encoding}, {delimiter!r}"
    )
    return MessyTable(*contents, target, about)


def _cells(rng: np.random.Generator, kind: str, rows: int, layout: str, comma: bool) -> list[str]:
    numbers = rng.normal(size=rows) * 10.0 ** rng.integers(-3, 6)
    cells = [f"{number:.4g}" for number in numbers]
    if kind == "whole":
        cells = [str(number) for number in rng.integers(-50, 50, rows)]
    if kind == "category":
        cells = list(rng.choice(["red", "grün", "NA", "a;b", "None", "x,y", " blue"], rows))
    if kind == "zip":
        cells = list(rng.choice(["01067", "10115", "4A", "80331"], rows))
    if kind == "date":
        days = rng.integers(0, 4000, rows).astype("timedelta64[D]") + rng.integers(0, 86_400, rows).astype(
            "timedelta64[s]"
        )
        cells = [date.strftime(layout) for date in (np.datetime64("2015-01-01T00:00:00") + days).tolist()]
    if kind == "comma":
        cells = [cell.replace(".", ",") for cell in cells]
    if kind == "thousands":
        cells = [f"{number:,}" for number in rng.integers(0, 10**7, rows)]
    if kind == "truth":
        cells = list(rng.choice(["True", "False"], rows))
    if kind == "unique":
        cells = [f"name {i}" for i in range(rows)]
    if kind in ("constant", "empty"):
        cells = ["7" if kind == "constant" else ""] * rows
    if kind == "mixed":
        cells = list(rng.choice(["1", "2.5", "red", "2024-01-01", "", "True"], rows))
    if kind == "extreme" and rows:
        cells[rng.integers(rows)] = str(rng.choice(EXTREMES))
    if kind == "gaps":
        cells = [cell if rng.random() < 0.6 else str(rng.choice(["", "NA", "n/a", " "])) for cell in cells]
    if comma and kind in ("number", "extreme", "gaps"):
        cells = [cell.replace(".", ",") for cell in cells]
    return [str(cell) for cell in cells]


def _encode(
    rng: np.random.Generator, names: list[str], columns: list[list[str]], delimiter: str, encoding: str
) -> bytes:
    text = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if rng.random() < 0.2 else csv.QUOTE_MINIMAL
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=str(rng.choice(["\n", "\r\n"])))
    order = rng.permutation(len(names))
    writer.writerow([names[i] for i in order])
    for row in zip(*(columns[i] for i in order), strict=True):
        cells = list(row)
        if rng.random() < 0.004:
            cells = [*cells, "more"] if rng.random() < 0.5 else cells[:-1]
        writer.writerow(cells)
        if rng.random() < 0.01:
            text.write("\n")
    return text.getvalue().encode(encoding, errors="replace")
