"""Two small real data sets that ship with the library, to try it on.

The table: 442 patients with diabetes and the progression of the disease one year later, from scikit-learn (B. Efron,
T. Hastie, I. Johnstone and R. Tibshirani, "Least Angle Regression", Annals of Statistics 32, 2004).

The series: weekly CO2 in air at Mauna Loa, in parts per million, 1958 to 2001, with its 59 missing weeks (C. D. Keeling
and T. P. Whorf, "Atmospheric CO2 concentrations derived from flask air samples at sites in the SIO network", Carbon
Dioxide Information Analysis Center, Oak Ridge National Laboratory, 2004). The measurements are in the public domain.
"""

from importlib.resources import files
from typing import Any

import numpy as np

COLUMNS = {
    "age": "age", "sex": "sex", "bmi": "body_mass_index", "bp": "blood_pressure", "s1": "total_cholesterol",
    "s2": "ldl", "s3": "hdl", "s4": "cholesterol_ratio", "s5": "log_triglycerides", "s6": "glucose",
    "target": "progression",
}  # fmt: skip
"""Columns of the table: their names in scikit-learn, and in the file."""
NEW_ROWS = 88
"""Rows of the table that are not for training, a fifth."""
SPLIT_SEED = 0


def example_files(name: str) -> dict[str, bytes]:
    """Names and contents of the CSV files of an example: `tables` or `series`."""
    return _series() if name == "series" else _table()


def _table() -> dict[str, bytes]:
    from sklearn.datasets import load_diabetes

    bunch: Any = load_diabetes(as_frame=True, scaled=False)
    frame = bunch.frame.rename(columns=COLUMNS).astype({"age": int, "sex": int, "progression": int})
    new = np.zeros(len(frame), dtype=bool)
    new[np.random.default_rng(SPLIT_SEED).permutation(len(frame))[:NEW_ROWS]] = True
    tables = {"diabetes.csv": frame, "diabetes-train.csv": frame[~new], "diabetes-new.csv": frame[new]}
    return {name: rows.to_csv(index=False, lineterminator="\n").encode() for name, rows in tables.items()}


def _series() -> dict[str, bytes]:
    return {"co2.csv": (files("nsac.lab.datasets") / "co2.csv").read_bytes()}
