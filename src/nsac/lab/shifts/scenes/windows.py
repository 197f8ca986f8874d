"""Scenes of forecasts: another season, and sensors that fail.

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
"""Training windows, at most."""

LOOKBACK, HORIZON, BLOCK_DAYS = 48, 24, 2
"""Steps of a window, steps to forecast, and days of a block, which is held out as a whole."""

SUMMER, WINTER = (5, 6, 7, 8), (11, 12, 1, 2)
"""Months of training and of the shift `season`, or the other way round."""


def _one_variable(change: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Change:
    def apply(x: np.ndarray, train: np.ndarray, random: np.random.Generator) -> np.ndarray:
        del train
        rows, column, x = np.arange(len(x)), random.integers(x.shape[2], size=len(x)), x.copy()
        x[rows, :, column] = change(x[rows, :, column], random)
        return x

    return apply


def _sizes(n: int, low: float, high: float, random: np.random.Generator) -> np.ndarray:
    """Positive or negative, (n, 1)."""
    return random.choice([-1, 1], (n, 1)) * random.uniform(low, high, (n, 1))


def _frozen_sensor(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The value of a step of the first half is held from then on."""
    since = random.integers(series.shape[1] // 2, size=(len(series), 1))
    return np.where(np.arange(series.shape[1]) > since, np.take_along_axis(series, since, 1), series)


def _level_shift(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return series + _sizes(len(series), 2, 4, random)


def _gain(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """About the window's mean, 1.5 to 3 times or 0.3 to 0.6 times."""
    n, mean = len(series), series.mean(1, keepdims=True)
    up, down = random.uniform(1.5, 3, (n, 1)), random.uniform(0.3, 0.6, (n, 1))
    return mean + np.where(random.random((n, 1)) < 0.5, up, down) * (series - mean)


def _drift(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return series + _sizes(len(series), 1, 3, random) * np.linspace(0, 1, series.shape[1])


def _spikes(series: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """About one step in twelve is off by 2 to 5 deviations."""
    size = random.choice([-1, 1], series.shape) * random.uniform(2, 5, series.shape)
    return series + np.where(random.random(series.shape) < 1 / 12, size, 0)


WINDOW_CHANGES: dict[str, Change] = {
    "frozen_sensor": _one_variable(_frozen_sensor),
    "level_shift": _one_variable(_level_shift),
    "gain": _one_variable(_gain),
    "drift": _one_variable(_drift),
    "spikes": _one_variable(_spikes),
    "noise": add_noise,
    "crossover": cross_over,
}


@lru_cache(maxsize=2)
def _record(name: str) -> tuple[pd.DatetimeIndex, np.ndarray, np.ndarray, int]:
    """Stamps, values, number of the regular stretch without missing values, and column of the target."""
    frame = load_ettm1() if name == "ettm1" else load_jena()
    columns = [c for c in frame.columns if c != "date"] if name == "ettm1" else JENA_COLUMNS
    target = columns.index("OT" if name == "ettm1" else "T (degC)")
    values = frame[columns].to_numpy(float)
    dates, step = pd.Series(frame["date"]), pd.Timedelta(minutes=15 if name == "ettm1" else 10)
    stretch = segments(dates, step)  # pyright: ignore[reportArgumentType]
    missing = np.isnan(values).any(1)
    stretch = 2 * (stretch + missing.cumsum()) + missing  # a missing value ends a stretch and is one of its own
    return pd.DatetimeIndex(dates), values, stretch, target


def make_windows(name: str, data: str, seed: int) -> Scene:
    """Forecasts in summer, or in winter. The hour is told; the day of the year would give the season away."""
    random = generator_of(name, seed)
    dates, values, stretch, target = _record(data)
    here, elsewhere = (WINTER, SUMMER) if name.endswith("/winter") else (SUMMER, WINTER)
    first, last = np.arange(len(values) - LOOKBACK - HORIZON + 1), LOOKBACK + HORIZON - 1
    block = (dates.to_numpy() - dates.to_numpy()[0]) // np.timedelta64(BLOCK_DAYS, "D")
    whole = (stretch[first] == stretch[first + last]) & (block[first] == block[first + last])

    def starts(size: int, months: tuple[int, ...], blocks: np.ndarray) -> np.ndarray:
        season = np.isin(dates.month, months)
        fits = whole & season[first] & season[first + last] & np.isin(block[first], blocks)
        return random.permutation(np.flatnonzero(fits))[:size]

    dealt = split_blocks(block[np.isin(dates.month, here)], random)
    sizes = (WINDOW_ROWS, TEST_ROWS, TEST_ROWS)
    chosen = [starts(size, here, blocks) for size, blocks in zip(sizes, dealt, strict=True)]
    chosen.append(starts(TEST_ROWS, elsewhere, block))
    raw = [values[rows[:, None] + np.arange(LOOKBACK)] for rows in chosen]
    mean, std = raw[0].mean((0, 1)), raw[0].std((0, 1))
    x = [(part - mean) / std for part in raw]
    future = [(values[r[:, None] + np.arange(LOOKBACK, LOOKBACK + HORIZON), target] - mean[target]) / std[target]
              for r in chosen]  # fmt: skip
    spread = (future[0] - x[0][:, -1:, target]).std(0)
    hour = 2 * math.pi * (dates.hour + dates.minute / 60).to_numpy() / 24

    def scaled(x: np.ndarray, part: int) -> TensorData:
        """What comes does not depend on the sensor: the change is from what was read to what will be true."""
        now = hour[chosen[part] + LOOKBACK - 1]
        calendar = np.column_stack([np.sin(now), np.cos(now), np.sin(2 * now), np.cos(2 * now)])
        y = (future[part] - x[:, -1:, target]) / spread
        return TensorData(x=tensor(x), calendar=tensor(calendar), y=tensor(y))

    train, validation, inside, other = (scaled(part, i) for i, part in enumerate(x))
    outside = {"season": Shift("season", other)}
    for kind in SCENES[name]:
        if kind in WINDOW_CHANGES:
            changed = WINDOW_CHANGES[kind](x[2], x[0], generator_of(f"{name}/{kind}", seed))
            outside[kind] = Shift(kind, scaled(changed, 2))
    variables = values.shape[1]
    problem = WindowProblem(variables, HORIZON, lookback=LOOKBACK, calendar_dim=4, skip=data == "jena")
    return Scene(name, seed, problem, train, validation, inside, outside)
