from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from nsac import NSACForecaster, NSACRegressor
from nsac.explain import attribution, series_attribution


def table(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, one of them sometimes missing, a category and a date; the target is positive."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "a": random.normal(size=n), "b<i>": random.choice(["u", "v", "w"], n), "c": random.normal(size=n),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 700, n), unit="D"),
    })  # fmt: skip
    y = np.exp(frame["a"] + (frame["b<i>"] == "u") + 0.1 * random.normal(size=n)).to_numpy()
    frame.loc[random.random(n) < 0.2, "c"] = np.nan
    return frame, y


def series(n: int, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    y = np.sin(np.arange(n) / 4) + 0.1 * random.normal(size=n)
    return pd.DataFrame({"date": pd.date_range("2024", periods=n, freq="h"), "y": y, "z": random.normal(size=n)})


def share_weights(model: NSACRegressor) -> NSACRegressor:
    """All models of the stack count, so that a test notices each of them."""
    assert model.components_ is not None
    stack = model.components_.stack
    weights = torch.tensor([[0.4], [0.4], [0.2]]).double().expand_as(stack.weights)
    changed = replace(stack, weights=weights.clone(), epistemic=torch.ones_like(stack.epistemic))
    model.components_ = replace(model.components_, stack=changed)
    return model


@pytest.fixture(scope="package")
def regressor() -> NSACRegressor:
    model = NSACRegressor(random_state=0, members=2, training={"max_steps": 20})
    return share_weights(model.fit(*table(60)))


@pytest.fixture(scope="package")
def forecaster() -> NSACForecaster:
    model = NSACForecaster(horizon=3, lookback=8, members=2, random_state=0, training={"max_steps": 20})
    model.fit(series(120))
    assert model.components_ is not None
    model.components_ = replace(model.components_, weights=torch.tensor([0.5, 0.3, 0.2]).double())
    return model


def events(n: int, seed: int = 0) -> pd.DataFrame:
    """Two channels, each observed now and then."""
    random = np.random.default_rng(seed)
    hours = np.cumsum(random.exponential(1.0, n))
    y, z = np.sin(hours / 4) + 0.1 * random.normal(size=n), random.normal(size=n)
    y[random.random(n) < 0.3] = z[random.random(n) < 0.5] = np.nan
    dates = (pd.Timestamp("2024-01-01") + pd.to_timedelta(hours, unit="h")).round("s")
    return pd.DataFrame({"date": dates, "y": y, "z": z})


@pytest.fixture(scope="package")
def event_forecaster() -> NSACForecaster:
    settings = {"encoding": "events", "members": 2, "random_state": 0, "training": {"max_steps": 10}}
    return NSACForecaster(4, 12, time="date", **settings).fit(events(150))


@pytest.fixture(autouse=True, scope="package")
def few_evaluations():
    """Attributions of few orders and paths: they add up all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attribution, "EVALUATED_ROWS", 300)
        patch.setattr(series_attribution, "EVALUATED_ROWS", 200)
        yield
