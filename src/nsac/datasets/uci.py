"""Regression tables of the UCI benchmark: Boston, Kin8nm, concrete, power plant, red wine, protein."""

import io
import zipfile
from dataclasses import dataclass

import numpy as np

from nsac._checks import check_choice
from nsac.datasets.splits import SIZES, make_splits
from nsac.datasets.store import DataError, expect_rows, locate, read_text, replace

COLUMNS = {
    "boston": "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT MEDV",
    "kin8nm": "theta1 theta2 theta3 theta4 theta5 theta6 theta7 theta8 y",
    "concrete": "cement slag fly_ash water superplasticizer coarse_agg fine_agg age_days strength_MPa",
    "power-plant": "AT V AP RH PE",
    "wine-red": "fixed_acidity volatile_acidity citric_acid residual_sugar chlorides free_SO2 total_SO2 density pH "
    "sulphates alcohol quality",
    "protein": "F1 F2 F3 F4 F5 F6 F7 F8 F9 RMSD",
}
"""Name of a set to the names of its columns."""

_PATHS = {
    "boston": "boston/boston.txt",
    "kin8nm": "kin8nm/data.txt",
    "concrete": "uci-concrete/data.txt",
    "power-plant": "uci-power-plant/data.txt",
    "wine-red": "uci-wine-quality-red/data.txt",
    "protein": "uci-protein/data.txt.gz",
}


@dataclass(frozen=True)
class Table:
    """A regression set with its standard splits."""

    x: np.ndarray
    """(rows, features)"""
    y: np.ndarray
    """(rows,), in the unit of the source"""
    features: tuple[str, ...]
    target: str
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]
    """row numbers of train and test"""


def load_uci(name: str) -> Table:
    """One of the sets in `COLUMNS`."""
    check_choice("name", name, tuple(COLUMNS))
    path = locate(_PATHS[name])
    folder = _PATHS[name].split("/")[0]
    rows, columns, n = SIZES[folder]
    try:
        numbers = np.loadtxt(io.StringIO(read_text(path)), ndmin=2)
    except ValueError as err:
        raise DataError(f"{path} must be {columns} columns of numbers. {err}. {replace(path)}") from None
    expect_rows(path, len(numbers), rows)
    if numbers.shape[1] != columns:
        raise DataError(f"{path} must have {columns} columns. Got {numbers.shape[1]}. {replace(path)}")
    splits_path = locate(f"{folder}/splits.npz")
    try:
        with np.load(splits_path, allow_pickle=False) as packed:
            inputs, target = packed["index_features"], int(packed["index_target"][0])
            splits = tuple((packed[f"train_{i}"], packed[f"test_{i}"]) for i in range(n))
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as err:
        raise DataError(f"{splits_path} is not a file of {n} splits ({err}). {replace(splits_path)}") from None
    for i, (pair, standard) in enumerate(zip(splits, make_splits(rows, n), strict=True)):
        if not all(map(np.array_equal, pair, standard)):
            raise DataError(f"Split {i} of {splits_path} is not the standard one. {replace(splits_path)}")
    names = COLUMNS[name].split()
    return Table(numbers[:, inputs], numbers[:, target], tuple(names[i] for i in inputs), names[target], splits)
