"""Bearings run to failure: published vibration features of three rigs, and raw signals of one."""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from nsac._checks import check_choice
from nsac.datasets.catalog import catalog
from nsac.datasets.store import DataError, expect_header, locate, read_text, replace

RIGS = ("xjtu", "pronostia", "hust")

_COLUMNS = {
    "xjtu": ["Horizontal", "Vertical", "RUL", "Time", "RPM", "Load", "Degradation"],
    "pronostia": [
        "Horizontal", "Vertical", "Time", "Temperature", "Degradation", "RPM", "Load", "Degradation_monotonic",
    ],
    "hust": ["Horizontal", "Vertical", "Time", "Temperature", "RPM", "Load", "Degradation"],
}  # fmt: skip


@dataclass(frozen=True)
class Bearing:
    """One run, a row per window of vibration; windows overlap by half."""

    rig: str
    name: str
    features: np.ndarray
    """(rows, 2 axes, 7): see `vibration.FEATURES`"""
    clock: np.ndarray
    """(rows,), seconds of a nominal clock: row number times window length over sampling rate"""
    degradation: np.ndarray
    """(rows,), 0 to 1, the published non-linear label; NaN where none was published"""
    linear: np.ndarray
    """(rows,), 0 to 1, the published (nearly) linear label; NaN where none was published"""
    rpm: float
    load: float
    """in newton"""


@dataclass(frozen=True)
class RawBearing:
    """Accelerations of one run to failure."""

    name: str
    signal: np.ndarray
    """(snapshots, 2560 samples, horizontal and vertical), in g at 25.6 kHz"""
    elapsed: np.ndarray
    """(snapshots,), seconds since the first"""


def bearings(rig: str) -> tuple[str, ...]:
    """Names of a rig's bearings: `"1_2"` is the second under operating condition 1."""
    check_choice("rig", rig, RIGS)
    return tuple(_name(file.path) for file in catalog()[rig].files)


def load_bearing(rig: str, name: str) -> Bearing:
    """Features and labels of one run."""
    check_choice("name", name, bearings(rig))
    path = locate(next(file.path for file in catalog()[rig].files if _name(file.path) == name))
    frame = pd.read_csv(io.StringIO(read_text(path)))
    columns = [c for c in _COLUMNS[rig] if (name, c) != ("2_5", "Degradation_monotonic")]  # published without
    expect_header(path, list(frame.columns), columns)
    numbers = {c: frame[c].to_numpy(float) for c in frame.columns[2:]}
    nothing = np.full(len(frame), np.nan)
    degradation, linear = numbers["Degradation"], numbers.get("Degradation_monotonic", nothing)
    if rig == "hust" or name == "2_5":  # there the only label is the linear one
        degradation, linear = nothing, degradation
    return Bearing(
        rig,
        name,
        np.stack([_lists(path, pd.Series(frame[axis])) for axis in ("Horizontal", "Vertical")], 1),
        numbers["Time"],
        degradation,
        linear,
        float(numbers["RPM"][0]),
        float(numbers["Load"][0]),
    )


def raw_bearings() -> tuple[str, ...]:
    """Names of the PRONOSTIA bearings whose raw signals there are."""
    return tuple(sorted(_name(file.path) for file in catalog()["pronostia-raw"].files))


def load_raw_bearing(name: str) -> RawBearing:
    """Raw vibration of one PRONOSTIA run to failure."""
    check_choice("name", name, raw_bearings())
    path = locate(next(file.path for file in catalog()["pronostia-raw"].files if _name(file.path) == name))
    try:
        with np.load(path, allow_pickle=False) as packed:
            signal, elapsed = packed["signal"], packed["elapsed_seconds"]
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as err:
        raise DataError(f"{path} must hold `signal` and `elapsed_seconds` ({err}). {replace(path)}") from None
    return RawBearing(name, signal, elapsed)


def _name(path: str) -> str:
    return path.split("Bearing")[1].split("_features")[0].split("_every")[0].removesuffix(".npz")


def _lists(path: Path, column: pd.Series) -> np.ndarray:
    """Strings like "[1.0, ..., 7.0]" to rows of seven numbers."""
    text = ",".join(entry.strip("[]") for entry in column)
    try:
        return np.fromiter(map(float, text.split(",")), float, count=7 * len(column)).reshape(-1, 7)
    except ValueError as err:
        raise DataError(f"{path} must hold lists of 7 numbers in {column.name!r}: {err}. {replace(path)}") from None
