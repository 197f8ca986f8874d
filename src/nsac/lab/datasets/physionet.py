"""Stays in intensive care (PhysioNet Challenge 2012): sparse observations of 37 channels, each at its own times."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsac.lab.datasets.store import locate, read_text, reading, unusable

SETS = ("a", "b", "c")
STATIC = ("Age", "Gender", "Height", "ICUType", "Weight")  # attributes, at 00:00; the weight is also a channel
CHANNELS = (
    "ALP", "ALT", "AST", "Albumin", "BUN", "Bilirubin", "Cholesterol", "Creatinine", "DiasABP", "FiO2", "GCS",
    "Glucose", "HCO3", "HCT", "HR", "K", "Lactate", "MAP", "MechVent", "Mg", "NIDiasABP", "NIMAP", "NISysABP", "Na",
    "PaCO2", "PaO2", "Platelets", "RespRate", "SaO2", "SysABP", "Temp", "TroponinI", "TroponinT", "Urine", "WBC",
    "Weight", "pH",
)  # fmt: skip
UNKNOWN = -1.0  # value that stands for an unknown attribute or weight
_COLUMNS = ["RecordID", "Time", "Parameter", "Value"]


@dataclass(frozen=True)
class Stays:
    """Observations of all stays, sorted by stay, then by time, then by channel; repeated ones are averaged."""

    stay: np.ndarray  # (observations,), number of the stay, from 0
    minutes: np.ndarray  # (observations,), since admission
    channel: np.ndarray  # (observations,), position in `CHANNELS`
    value: np.ndarray  # (observations,)
    static: np.ndarray  # (stays, len(STATIC)), NaN where unknown
    record: np.ndarray  # (stays,), identifier of the stay


def load_stays(sets: Sequence[str] = SETS) -> Stays:
    """All stays of these sets. Impossible values, for instance a pH of 735, are kept as they are."""
    frames = []
    for name in sets:
        path = locate(f"physionet2012/set-{name}.csv.gz")
        with reading(path, "a table"):
            frame = pd.read_csv(io.StringIO(read_text(path)), dtype={"Time": "category", "Parameter": "category"})
        if list(frame.columns) != _COLUMNS:
            raise unusable(
                path, f"must have the columns {', '.join(_COLUMNS)}. Got {', '.join(frame.columns)} instead."
            )
        unknown = set(frame["Parameter"].cat.categories) - {*STATIC, *CHANNELS, "RecordID"}
        if unknown:
            raise unusable(path, f"must have known parameters. Got {min(unknown)!r} instead.")
        with reading(path, "a table of times and numbers"):
            frames.append(_arrays(frame))
    record, minutes, parameter, value = (np.concatenate(column) for column in zip(*frames, strict=True))
    return _arrange(record, minutes, parameter, value)


def _arrays(frame: pd.DataFrame) -> tuple[np.ndarray, ...]:
    """Record, minutes, position of the parameter in `CHANNELS` and `STATIC`, and value; rows without a name dropped."""
    names = (*CHANNELS, *STATIC[:-1], "RecordID")
    clock = frame["Time"].cat.categories
    minutes = np.array([60 * int(text[:-3]) + int(text[-2:]) for text in clock], dtype=np.int64)
    position = np.array([names.index(name) for name in frame["Parameter"].cat.categories], dtype=np.int64)
    named = (frame["Parameter"].cat.codes >= 0).to_numpy() & frame["Value"].notna().to_numpy()
    frame = frame.loc[named]
    columns = minutes[frame["Time"].cat.codes], position[frame["Parameter"].cat.codes]
    return frame["RecordID"].to_numpy(np.int64), *columns, frame["Value"].to_numpy(float)


def _arrange(record: np.ndarray, minutes: np.ndarray, parameter: np.ndarray, value: np.ndarray) -> Stays:
    records, stay = np.unique(record, return_inverse=True)
    weight = CHANNELS.index("Weight")
    static = np.full((len(records), len(STATIC)), np.nan)
    for i, name in enumerate(STATIC):
        attribute = weight if name == "Weight" else len(CHANNELS) + i
        rows = np.flatnonzero((parameter == attribute) & (minutes == 0))[::-1]  # of several the first is kept
        static[stay[rows], i] = np.where(value[rows] == UNKNOWN, np.nan, value[rows])
    observed = (parameter < len(CHANNELS)) & ~((parameter == weight) & (value == UNKNOWN))
    stay, minutes, channel, value = stay[observed], minutes[observed], parameter[observed], value[observed]
    key = (stay * (int(minutes.max(initial=0)) + 1) + minutes) * len(CHANNELS) + channel
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    mean = np.add.reduceat(value[order], first) / np.diff(np.append(first, len(order))) if len(order) else value
    chosen = order[first]
    return Stays(stay[chosen], minutes[chosen], channel[chosen], mean, static, records)
