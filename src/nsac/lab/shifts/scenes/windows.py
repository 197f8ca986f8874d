"""Scenes of forecasts: another season, and sensor faults.

A change takes standardised windows, (rows, steps, variables); most alter one variable, (rows, steps).
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pandas as pd

from nsac.lab.datasets.weather import JENA_COLUMNS, load_ettm1, load_jena, segments
from nsac.lab.shifts.scenes.base import SCENES, TEST_ROWS, Change, Scene, Shift, generator_of, split_blocks, tensor
from nsac.lab.shifts.scenes.tables import add_noise, cross_over
from nsac.methods import WindowProblem
from nsac.training import TensorData

WINDOW_ROWS = 6000
"""Maximum number of training windows."""

LOOKBACK, HORIZON = 48, 24
"""Steps of a window, and steps to forecast."""

BLOCK_DAYS = 2
"""Days of a block; all windows of a block are in the same split."""

SUMMER, WINTER = (5, 6, 7, 8), (11, 12, 1, 2)
"""Months of the training distribution and of the shift `season`; for a winter scene the other way round."""


def _one_variable(change: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Change:
    """Change a random variable of each window."""

    def apply(x: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
        del train
        rows, column = np.arange(len(x)), random.integers(x.shape[2], size=len(x))
        changed = x.copy()
        changed[rows, :, column] = change(x[rows, :, column], random)
        return changed

    return apply


def _signed_sizes(shape: tuple[int, int], low: float, high: float, random: np.random.Generator) -> np.ndarray:
    return random.choice([-1, 1], shape) * random.uniform(low, high, shape)


def _frozen_sensor(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The value at a random step of the first half is repeated from then on."""
    since = random.integers(series.shape[1] // 2, size=(len(series), 1))
    return np.where(np.arange(series.shape[1]) > since, np.take_along_axis(series, since, 1), series)


def _gain(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Differences from the window's mean are 1.5 to 3 times or 0.3 to 0.6 times as large."""
    n, mean = len(series), series.mean(1, keepdims=True)
    up, down = random.uniform(1.5, 3, (n, 1)), random.uniform(0.3, 0.6, (n, 1))
    return mean + np.where(random.random((n, 1)) < 0.5, up, down) * (series - mean)


def _drift(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return series + _signed_sizes((len(series), 1), 1, 3, random) * np.linspace(0, 1, series.shape[1])


def _spikes(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """About one step in twelve is off by 2 to 5 standard deviations."""
    size = _signed_sizes(series.shape, 2, 5, random)
    return series + np.where(random.random(series.shape) < 1 / 12, size, 0)


WINDOW_CHANGES: dict[str, Change] = {
    "frozen_sensor": _one_variable(_frozen_sensor),
    "level_shift": _one_variable(lambda series, random: series + _signed_sizes((len(series), 1), 2, 4, random)),
    "gain": _one_variable(_gain),
    "drift": _one_variable(_drift),
    "spikes": _one_variable(_spikes),
    "noise": add_noise,
    "crossover": cross_over,
}


@lru_cache(maxsize=2)
def _load_series(name: str) -> tuple[pd.DatetimeIndex, np.ndarray, np.ndarray, int]:
    """Dates, values (rows, variables), each row's number of a regular stretch without missing values, target column."""
    if name == "ettm1":
        frame, target, minutes = load_ettm1(), "OT", 15
        columns = [column for column in frame.columns if column != "date"]
    else:
        frame, target, minutes, columns = load_jena(), "T (degC)", 10, JENA_COLUMNS
    values, dates = frame[columns].to_numpy(float), pd.Series(frame["date"])
    stretch = segments(dates, pd.Timedelta(minutes=minutes))  # pyright: ignore[reportArgumentType]
    missing = np.isnan(values).any(1)
    stretch = 2 * (stretch + missing.cumsum()) + missing  # a missing value ends a stretch and is one of its own
    return pd.DatetimeIndex(dates), values, stretch, columns.index(target)


def make_windows(name: str, data: str, seed: int) -> Scene:
    """Forecasts in summer, or in winter. The hour is an input; the day of the year would reveal the season."""
    random = generator_of(name, seed)
    dates, values, stretch, target = _load_series(data)
    months, other_months = (WINTER, SUMMER) if name.endswith("/winter") else (SUMMER, WINTER)
    first, last = np.arange(len(values) - LOOKBACK - HORIZON + 1), LOOKBACK + HORIZON - 1
    block = (dates.to_numpy() - dates.to_numpy()[0]) // np.timedelta64(BLOCK_DAYS, "D")
    complete = (stretch[first] == stretch[first + last]) & (block[first] == block[first + last])

    def sample_starts(size: int, months: tuple[int, ...], blocks: np.ndarray) -> np.ndarray:
        """First rows of random windows that lie in these months and blocks."""
        season = np.isin(dates.month, months)
        fits = complete & season[first] & season[first + last] & np.isin(block[first], blocks)
        return random.permutation(np.flatnonzero(fits))[:size]

    splits = split_blocks(block[np.isin(dates.month, months)], random)
    sizes = (WINDOW_ROWS, TEST_ROWS, TEST_ROWS)
    starts = [sample_starts(size, months, blocks) for size, blocks in zip(sizes, splits, strict=True)]
    starts.append(sample_starts(TEST_ROWS, other_months, block))
    raw = [values[rows[:, None] + np.arange(LOOKBACK + HORIZON)] for rows in starts]
    past = raw[0][:, :LOOKBACK]
    mean, std = past.mean((0, 1)), past.std((0, 1))
    x = [(each[:, :LOOKBACK] - mean) / std for each in raw]
    future = [(each[:, LOOKBACK:, target] - mean[target]) / std[target] for each in raw]
    change_std = (future[0] - x[0][:, -1:, target]).std(0)
    hour = 2 * math.pi * (dates.hour + dates.minute / 60).to_numpy() / 24

    def to_data(x: np.ndarray, split: int) -> TensorData:
        """The target is the change from the value that the sensor reports to the true future value."""
        now = hour[starts[split] + LOOKBACK - 1]
        calendar = np.column_stack([np.sin(now), np.cos(now), np.sin(2 * now), np.cos(2 * now)])
        y = (future[split] - x[:, -1:, target]) / change_std
        return TensorData(x=tensor(x), calendar=tensor(calendar), y=tensor(y))

    train, validation, inside, other = [to_data(each, split) for split, each in enumerate(x)]
    outside = {"season": Shift("season", other)}
    for kind in SCENES[name]:
        if kind in WINDOW_CHANGES:
            changed = WINDOW_CHANGES[kind](x[2], x[0], generator_of(f"{name}/{kind}", seed))
            outside[kind] = Shift(kind, to_data(changed, 2))
    problem = WindowProblem(values.shape[1], HORIZON, lookback=LOOKBACK, calendar_dim=4, skip=data == "jena")
    return Scene(name, seed, problem, train, validation, inside, outside)
