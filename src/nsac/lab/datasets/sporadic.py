"""Irregularly sampled series of one or two channels: glucose of five people, and the stochastic Brusselator."""

import io
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsac.lab.datasets.store import locate, read_text, reading, unusable

GLUCOSE_ROWS, BRUSSELATOR_ROWS = 13_866, 24_409
_GLUCOSE, _BRUSSELATOR = "glucose/broll_5_subjects.csv.gz", "brusselator/bxlator.csv.gz"


@dataclass(frozen=True)
class EventTable:
    """Observations of several series, sorted by series, then by time, then by channel."""

    series: np.ndarray  # (observations,), number of the series, from 0
    times: np.ndarray  # (observations,), in the unit of the source
    channel: np.ndarray  # (observations,)
    value: np.ndarray  # (observations,)
    names: tuple[str, ...]  # of the series


def load_glucose(rows: int = GLUCOSE_ROWS) -> EventTable:
    """Readings in mg/dL, times in minutes since the first one of all; one channel, one series per person."""
    path = locate(_GLUCOSE)
    with reading(path, "a table"):
        frame = pd.read_csv(io.StringIO(read_text(path)), index_col=0)
    if list(frame.columns) != ["id", "time", "gl"] or len(frame) != rows:
        found = f"{', '.join(map(str, frame.columns))} and {len(frame)} rows"
        raise unusable(path, f"must have the columns id, time, gl and {rows} rows. Got {found} instead.")
    with reading(path, "a table of readable dates and numbers"):
        dates = pd.to_datetime(frame["time"], format="%Y-%m-%d %H:%M:%S")
        minutes = (dates - dates.min()).dt.total_seconds().to_numpy() / 60
        names, person = np.unique(frame["id"].to_numpy(str), return_inverse=True)
        value = frame["gl"].to_numpy(float)
    order = np.lexsort([minutes, person])
    return EventTable(person[order], minutes[order], np.zeros(len(order), int), value[order], tuple(names))


def load_brusselator(rows: int = BRUSSELATOR_ROWS) -> EventTable:
    """Two channels of 1,000 series; a value is observed where its mask is 1."""
    path, columns = locate(_BRUSSELATOR), ["ID", "Time", "Value_1", "Value_2", "Mask_1", "Mask_2", "Cov"]
    with reading(path, "a table"):
        frame = pd.read_csv(io.StringIO(read_text(path)))
    if list(frame.columns) != columns or len(frame) != rows:
        found = f"{', '.join(map(str, frame.columns))} and {len(frame)} rows"
        raise unusable(path, f"must have the columns {', '.join(columns)} and {rows} rows. Got {found} instead.")
    with reading(path, "a table of numbers"):
        table = frame.to_numpy(float)
    names, series = np.unique(table[:, 0], return_inverse=True)
    row, channel = np.nonzero(table[:, 4:6])
    value, times, series = table[row, 2 + channel], table[row, 1], series[row]
    order = np.lexsort([channel, times, series])
    names = tuple(str(int(name)) for name in names)
    return EventTable(series[order], times[order], channel[order], value[order], names)
