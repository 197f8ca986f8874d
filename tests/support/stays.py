"""Small event data sets of the form of the real ones."""

import numpy as np

from nsac.lab.datasets import EventTable, Stays
from nsac.lab.datasets.physionet import CHANNELS


def made_stays(n: int = 60, seed: int = 0) -> Stays:
    """Stays of 48 hours: a few channels, a random walk each, at random minutes."""
    rng = np.random.default_rng(seed)
    rows = []
    for stay in range(n):
        for channel in (14, 17, 30, 36):
            minutes = np.unique(rng.integers(0, 2880, 25))
            walk = 80 + rng.normal(size=len(minutes)).cumsum() + 5 * rng.normal()
            rows.append(np.stack([np.full(len(minutes), stay), minutes, np.full(len(minutes), channel), walk]))
    table = np.concatenate(rows, 1)
    stay, minutes, channel = table[:3].astype(np.int64)
    order = np.lexsort([channel, minutes, stay])
    static = rng.normal(size=(n, 5))
    static[:, 3] = rng.integers(1, 5, n)
    static[::4, 2] = np.nan
    assert channel.max() < len(CHANNELS)
    return Stays(stay[order], minutes[order], channel[order], table[3][order], static, np.arange(n))


def made_readings(people: int = 5, readings: int = 300, seed: int = 0) -> EventTable:
    """A noisy wave every 5 minutes for each person, with a long gap and a short segment at the end."""
    rng = np.random.default_rng(seed)
    series, times, value = [], [], []
    for person in range(people):
        at = 5.0 * np.arange(readings + 20) + 0.1 * rng.normal(size=readings + 20)
        at[readings:] += 200
        series.append(np.full(len(at), person))
        times.append(at)
        value.append(120 + 30 * np.sin(at / 90 + person) + rng.normal(size=len(at)))
    channel = np.zeros(people * (readings + 20), np.int64)
    names = tuple(f"person {i}" for i in range(people))
    return EventTable(np.concatenate(series), np.concatenate(times), channel, np.concatenate(value), names)


def made_series(n: int = 40, seed: int = 0) -> EventTable:
    """Two waves of each series at random times between 0 and 50."""
    rng = np.random.default_rng(seed)
    series = np.repeat(np.arange(n), 30)
    times, channel = rng.uniform(0, 50, len(series)), rng.integers(0, 2, len(series))
    order = np.lexsort([times, series])
    value = np.sin(times / 5 + channel) + 0.1 * rng.normal(size=len(series))
    return EventTable(series, times[order], channel[order], value[order], tuple(map(str, range(n))))
