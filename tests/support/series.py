"""Small series and forecasters for tests."""

import numpy as np
import pandas as pd

from nsac import NSACForecaster

HOUR = 3600 * 10**9
"""In nanoseconds."""
STEP = pd.Timedelta("1h")


def hourly(rows=10, **columns):
    """A frame with hourly times `t` and these columns."""
    return pd.DataFrame({"t": pd.date_range("2024-01-01", periods=rows, freq="h"), **columns})


def daily_cycle(rows=260, seed=0):
    """Hourly observations of a noisy daily cycle `y`, and noise `a`."""
    random = np.random.default_rng(seed)
    y = 10 + np.sin(np.arange(rows) * 2 * np.pi / 24) + 0.1 * random.normal(size=rows)
    return hourly(rows, y=y, a=random.normal(size=rows))


def irregular_series(rows=400, seed=0):
    """The daily cycle with irregular times, missing values and missing rows."""
    random = np.random.default_rng(seed)
    frame = daily_cycle(rows, seed)
    frame["t"] += pd.to_timedelta(random.uniform(-0.3, 0.3, rows), "h")
    return frame.mask(random.random(frame.shape) < [0, 0.3, 0.3])[random.random(rows) > 0.2]


def forecaster(**options):
    """A small forecaster that trains for a moment."""
    training = {"max_steps": 20, "batch_size": 32, "validate_every": 10}
    defaults = {"horizon": 6, "lookback": 12, "target": "y", "time": "t", "members": 2, "random_state": 0}
    defaults["encoding"] = "grid"
    return NSACForecaster(**{**defaults, "training": training, **options})


def ridge(**options):
    """A forecaster that is fitted at once."""
    return forecaster(method="ridge", members=1, **options)
