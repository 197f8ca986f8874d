"""Small irregular series and forecasters of events for tests."""

import numpy as np
import pandas as pd

from nsac import NSACForecaster


def stays(count=3, rows=60, seed=0, dated=True):
    """Series of two targets, each observed at its own times within 48 hours, an attribute and a known dose."""
    random, frames = np.random.default_rng(seed), []
    for stay in range(count):
        hours = np.sort(random.uniform(0, 48, rows))
        hr = 80 + 5 * stay + 5 * np.sin(hours / 3) + random.normal(size=rows)
        times = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.rint(3600 * hours), "s") if dated else hours
        columns = {"HR": np.where(random.random(rows) < 0.6, hr, np.nan)}
        columns["MAP"] = np.where(random.random(rows) < 0.4, hr - 10, np.nan)
        frame = pd.DataFrame({"stay": f"s{stay}", "t": times, **columns, "age": 50 + stay, "dose": random.random(rows)})
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def sines(levels=(15, 200, 2000), rows=400, seed=0, regular=False, noise=0.01):
    """Noisy sines at irregular or regular times, whose amplitude is a tenth of their level."""
    random, frames = np.random.default_rng(seed), []
    for k, level in enumerate(levels):
        times = np.arange(rows) if regular else np.cumsum(random.exponential(1.0, rows))
        y = level * (1 + 0.1 * np.sin(2 * np.pi * times / 24 + k) + noise * random.normal(size=rows))
        frames.append(pd.DataFrame({"id": k, "t": times, "y": y}))
    return pd.concat(frames, ignore_index=True)


def events(**options):
    """A forecaster of events that trains for a moment."""
    training = {"max_steps": 3, "batch_size": 16, "validate_every": 3}
    defaults = {"horizon": "6h", "lookback": "24h", "target": ["HR", "MAP"], "time": "t", "series": "stay"}
    defaults |= {"covariates": [], "static": ["age"], "known_future": ["dose"], "encoding": "events", "members": 1}
    return NSACForecaster(**{**defaults, "num_samples": 5, "random_state": 0, "training": training, **options})


def instant(**options):
    """A forecaster of events that is fitted at once."""
    return events(**{"method": "half-mean", **options})
