"""The development suite of tables: 18 with text, dates and missing values, and the UCI sets; their splits by seed."""

import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nsac._checks import check_choice
from nsac.lab.datasets.catalog import catalog
from nsac.lab.datasets.store import locate, read_text, reading, unusable
from nsac.lab.datasets.uci import COLUMNS, load_uci

TABLES = tuple(file.path.split("/")[1].split(".")[0] for file in catalog()["tables"].files[1:])
"""The 18 tables without standard splits."""
SUITE = (*TABLES, *COLUMNS)
"""The whole suite."""
TRAIN_FRACTION = 0.9


@dataclass(frozen=True)
class FrameTable:
    """A table of the suite, as its file has it: text as text, missing values as NaN."""

    x: pd.DataFrame
    y: np.ndarray  # (rows,), in the unit of the source
    target: str


def load_table(name: str) -> FrameTable:
    """One of the tables in `SUITE`."""
    check_choice("name", name, SUITE)
    if name in COLUMNS:
        table = load_uci(name)
        return FrameTable(pd.DataFrame(table.x, columns=list(table.features)), table.y, table.target)
    path, listed = locate(f"tables/{name}.csv.gz"), _listed()[name]
    with reading(path, "a table"):
        frame = pd.read_csv(io.StringIO(read_text(path)))
    found = {"rows": len(frame), "columns": frame.shape[1], "missing": int(frame.isna().sum().sum())}
    wanted = {key: listed[key] for key in found}
    if found != wanted or listed["target"] not in frame:
        raise unusable(path, f"must have the target {listed['target']!r} and {wanted}. Got {found} instead.")
    return FrameTable(frame.drop(columns=listed["target"]), frame[listed["target"]].to_numpy(float), listed["target"])


def split(table: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of train and test: standard split number `seed` of a UCI set, else a shuffled 90/10 split."""
    check_choice("table", table, SUITE)
    if table in COLUMNS:
        splits = load_uci(table).splits
        check_choice("seed", seed, tuple(range(len(splits))))
        return splits[seed]
    rows = _listed()[table]["rows"]
    order = np.random.default_rng(seed).permutation(rows)
    train, test = np.split(order, [round(TRAIN_FRACTION * rows)])
    return train, test


def _listed() -> dict[str, Any]:
    """Target, rows, columns and missing values of each table."""
    path = locate("tables/tables.json")
    with reading(path, "a JSON file"):
        return json.loads(read_text(path))
