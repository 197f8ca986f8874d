"""Time of day, of week and of year as inputs of a forecast."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nsac.estimators.times import restore_times

DAY = 86_400 * 10**9
CYCLES = {"day": DAY, "week": 7 * DAY, "year": round(365.2425 * DAY)}
"""Length of each cycle of the calendar, in nanoseconds."""
MIN_CYCLES, MIN_STEPS_PER_CYCLE = 2, 4
"""A cycle is used if the series spans it this often, and if it has this many steps."""


def detect_cycles(times: np.ndarray, step: float | int) -> list[str]:
    """Cycles that a series of dates spans at least twice, in at least four steps; none if times are numbers."""
    if times.dtype != np.int64:
        return []
    span = int(times.max()) - int(times.min())
    return [
        name for name, length in CYCLES.items() if span >= MIN_CYCLES * length and step * MIN_STEPS_PER_CYCLE <= length
    ]


def calendar_features(times: np.ndarray, dtype: Any, cycles: Sequence[str]) -> np.ndarray:
    """Sine and cosine of each cycle at the local time, (times, 2 * cycles).

    Args:
        times: nanoseconds since 1970 in UTC.
        dtype: dtype of their column, with its zone.
        cycles: names in `CYCLES`.
    """
    local = times
    if getattr(dtype, "tz", None) is not None and cycles:
        local = restore_times(times, dtype).dt.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    features = np.zeros((len(times), 2 * len(cycles)))
    for i, name in enumerate(cycles):
        angle = 2 * np.pi * (local % CYCLES[name]) / CYCLES[name]
        features[:, 2 * i], features[:, 2 * i + 1] = np.sin(angle), np.cos(angle)
    return features
