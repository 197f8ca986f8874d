"""Bearings run to failure: published vibration features of three rigs, and raw signals of one rig."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsac._checks import check_choice
from nsac.lab.datasets.catalog import catalog
from nsac.lab.datasets.store import locate, read_npz, read_table, reading
from nsac.lab.datasets.vibration import FEATURES

RIGS = ("xjtu", "pronostia", "hust")

_COLUMNS = {
    "xjtu": ["Horizontal", "Vertical", "RUL", "Time", "RPM", "Load", "Degradation"],
    "pronostia": [
        "Horizontal", "Vertical", "Time", "Temperature", "Degradation", "RPM", "Load", "Degradation_monotonic",
    ],
    "hust": ["Horizontal", "Vertical", "Time", "Temperature", "RPM", "Load", "Degradation"],
}  # fmt: skip

_ROWS = {
    "xjtu": {"1_1": 8000, "1_2": 10000, "1_3": 10000, "1_4": 7000, "1_5": 3000, "2_2": 10000, "2_4": 2000},
    "pronostia": {
        "1_2": 4458, "1_3": 12159, "1_4": 7310, "2_1": 4663, "2_2": 4079, "2_3": 10008,
        "2_4": 3844, "2_5": 11831, "2_6": 3588, "3_1": 2635, "3_2": 8380, "3_3": 2221,
    },
    "hust": {"1": 12387},
    "pronostia-raw": {"1_1": 701, "1_2": 871, "1_3": 594, "2_2": 797, "3_3": 434},
}  # fmt: skip


@dataclass(frozen=True)
class Bearing:
    """One run to failure with one row per vibration window; windows overlap by half. What was not published is NaN."""

    rig: str
    name: str
    features: np.ndarray  # (rows, 2 axes, 7): see `vibration.FEATURES`
    clock: np.ndarray  # (rows,), seconds of a nominal clock: row number times window length over sampling rate
    degradation: np.ndarray  # (rows,), 0 to 1, the published non-linear label
    linear: np.ndarray  # (rows,), 0 to 1, the published (nearly) linear label
    rpm: float
    load: float  # newton
    remaining: np.ndarray  # (rows,), minutes to the end of life (XJTU-SY, whose rows stop before it)


@dataclass(frozen=True)
class RawBearing:
    """Accelerations of one run to failure; temperatures, which some files contain, are not read."""

    name: str
    signal: np.ndarray  # (snapshots, 2560 samples, horizontal and vertical), in g at 25.6 kHz
    elapsed: np.ndarray  # (snapshots,), seconds since the first


def bearings(rig: str) -> tuple[str, ...]:
    """Names of a rig's bearings: `"1_2"` is the second under operating condition 1."""
    check_choice("rig", rig, RIGS)
    return tuple(_paths(rig))


def load_bearing(rig: str, name: str) -> Bearing:
    """Features and labels of one run."""
    check_choice("name", name, bearings(rig))
    path = locate(_paths(rig)[name])
    columns = _COLUMNS[rig]
    if (rig, name) == ("pronostia", "2_5"):
        columns = columns[:-1]  # published without the last column
    frame = read_table(path, columns, _ROWS[rig][name])
    with reading(path, f"a table of numbers and lists of {len(FEATURES)} numbers"):
        numbers = {c: frame[c].to_numpy(float) for c in frame.columns[2:]}
        features = np.stack([_lists(pd.Series(frame[axis])) for axis in ("Horizontal", "Vertical")], 1)
    missing = np.full(len(frame), np.nan)
    degradation, linear = numbers["Degradation"], numbers.get("Degradation_monotonic", missing)
    if rig == "hust" or name == "2_5":  # their only label is the linear one
        degradation, linear = missing, degradation
    rpm, load = float(numbers["RPM"][0]), float(numbers["Load"][0])
    remaining = numbers.get("RUL", missing)
    return Bearing(rig, name, features, numbers["Time"], degradation, linear, rpm, load, remaining)


def raw_bearings() -> tuple[str, ...]:
    """Names of the PRONOSTIA bearings with raw signals."""
    return tuple(sorted(_paths("pronostia-raw")))


def load_raw_bearing(name: str) -> RawBearing:
    """Raw vibration of one PRONOSTIA run to failure."""
    check_choice("name", name, raw_bearings())
    path, n = locate(_paths("pronostia-raw")[name]), _ROWS["pronostia-raw"][name]
    arrays = read_npz(path, ("signal", "elapsed_seconds"))
    with reading(path, f"{n} snapshots of 2560 samples on two axes"):
        return RawBearing(name, arrays["signal"].reshape(n, 2560, 2), arrays["elapsed_seconds"].reshape(n))


def _paths(source: str) -> dict[str, str]:
    return {re.findall(r"Bearing(\d+(?:_\d+)?)", file.path)[0]: file.path for file in catalog()[source].files}


def _lists(column: pd.Series) -> np.ndarray:
    rows = [entry.strip("[]").split(",") for entry in column]  # entries like "[1.0, ..., 7.0]"
    for i, row in enumerate(rows):
        if len(row) != len(FEATURES):
            raise ValueError(f"{column.name!r} of row {i} has {len(row)} numbers")
    return np.array(rows, dtype=float)
