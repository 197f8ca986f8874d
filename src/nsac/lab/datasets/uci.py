"""Regression tables of the UCI benchmark: Boston, Kin8nm, concrete, power plant, red wine, protein."""

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
}
"""Name of a set to its column names; the last column is the target."""


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
    with reading(path, f"a table of {columns} columns of numbers"):
        numbers = np.loadtxt(io.StringIO(read_text(path)), ndmin=2)
    if numbers.shape != (rows, columns):
        raise unusable(path, f"must have {rows} rows and {columns} columns. Got {numbers.shape} instead.")
    given = read_npz(locate(splits_file.path), split_arrays(path.parent.name))  # it accepts only the standard splits
    splits = tuple((given[f"train_{i}"], given[f"test_{i}"]) for i in range(n))
    *features, target = COLUMNS[name].split()
    return Table(numbers[:, :-1], numbers[:, -1], tuple(features), target, splits)
