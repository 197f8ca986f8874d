"""Template of a data set: copy it to `src/nsac/lab/datasets/`, and add its files to `catalog.toml`.

It reads `diabetes.csv`, which `nsac example tables` writes. A set of the catalogue calls `locate("folder/file.csv")`
instead of taking a path: that finds the file, downloads it if need be, and verifies its checksum.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from nsac.lab.datasets.store import reading, unusable

TARGET, ROWS = "progression", 442


@dataclass(frozen=True)
class Diabetes:
    """Patients: ten measurements, and the progression of the disease a year later."""

    x: np.ndarray  # (rows, 10)
    y: np.ndarray  # (rows,)


def load_diabetes(path: Path) -> Diabetes:
    """Arrays as they are in the file; nothing is scaled, shuffled or split here."""
    with reading(path, "a table"):  # any error of a parser becomes a DataError that names the file
        frame = pd.read_csv(path)
    if len(frame) != ROWS or TARGET not in frame:
        raise unusable(path, f"must have {ROWS} rows and a column {TARGET!r}. Got {len(frame)} rows instead.")
    return Diabetes(frame.drop(columns=TARGET).to_numpy(float), frame[TARGET].to_numpy(float))
