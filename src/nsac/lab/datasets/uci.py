"""Regression tables of the UCI benchmark, with their standard splits."""

import io
from dataclasses import dataclass

import numpy as np

from nsac._checks import check_choice
from nsac.lab.datasets.catalog import catalog
from nsac.lab.datasets.store import SPLIT_SIZES, locate, read_npz, read_text, reading, split_arrays, unusable

COLUMNS = {
    "boston": "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT MEDV",
    "kin8nm": "theta1 theta2 theta3 theta4 theta5 theta6 theta7 theta8 y",
    "concrete": "cement slag fly_ash water superplasticizer coarse_agg fine_agg age_days strength_MPa",
    "power-plant": "AT V AP RH PE",
    "wine-red": "fixed_acidity volatile_acidity citric_acid residual_sugar chlorides free_SO2 total_SO2 density pH "
    "sulphates alcohol quality",
    "protein": "F1 F2 F3 F4 F5 F6 F7 F8 F9 RMSD",
    "energy": "X1 X2 X3 X4 X5 X6 X7 X8 Y1_heating_load",
    "yacht": "LCB Cp L_D B_Dr L_B Fr resistance",
    "naval": "lp v GTT GTn GGn Ts Tp T48 T1 T2 P48 P1 P2 Pexh TIC mf kMc",
}
"""Name of a set to its column names; the last column is the target."""
UNREAD = {"naval": 1}
"""Columns at the end of a file that are not read: kMt of `naval` is a second target, no feature."""


@dataclass(frozen=True)
class Table:
    """A regression table with its standard splits."""

    x: np.ndarray  # (rows, features)
    y: np.ndarray  # (rows,), in the unit of the source
    features: tuple[str, ...]
    target: str
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]  # row numbers of train and test


def load_uci(name: str) -> Table:
    """One of the sets in `COLUMNS`."""
    check_choice("name", name, tuple(COLUMNS))
    table_file, splits_file = catalog()[name].files
    path = locate(table_file.path)
    rows, columns, n = SPLIT_SIZES[path.parent.name]
    width = columns + UNREAD.get(name, 0)
    with reading(path, f"a table of {width} columns of numbers"):
        numbers = np.loadtxt(io.StringIO(read_text(path)), ndmin=2)
    if numbers.shape != (rows, width):
        raise unusable(path, f"must have {rows} rows and {width} columns. Got {numbers.shape} instead.")
    given = read_npz(locate(splits_file.path), split_arrays(path.parent.name))  # it accepts only the standard splits
    splits = tuple((given[f"train_{i}"], given[f"test_{i}"]) for i in range(n))
    *features, target = COLUMNS[name].split()
    return Table(numbers[:, : columns - 1], numbers[:, columns - 1], tuple(features), target, splits)
