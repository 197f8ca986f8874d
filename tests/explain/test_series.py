import numpy as np
import pandas as pd
import pytest

import nsac
from explain.conftest import series
from nsac import NSACForecaster
from nsac.explain import ExplainError

QUANTITIES = ("mean", "aleatoric", "epistemic")


@pytest.fixture(scope="module")
def explained(forecaster):
    return nsac.explain(forecaster, series(60, seed=1), origins=[20, 40, 59])


def test_explained_forecasts_are_those_of_the_model(explained, forecaster):
    for row, origin in enumerate([20, 40, 59]):
        expected = forecaster.predict(series(60, seed=1).iloc[: origin + 1])
        found = explained.prediction
        for name in ("mean", "aleatoric", "epistemic"):
            np.testing.assert_allclose(getattr(found, name)[row], expected[name], rtol=1e-9)
        np.testing.assert_allclose(found.lower[row], expected["lower_90"], rtol=1e-9)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_attributions_of_observations_add_up(explained, quantity):
    total = explained.base[quantity] + explained.attributions[quantity].sum(1)
    np.testing.assert_allclose(total, getattr(explained.prediction, quantity)[:, explained.explained], rtol=1e-9)
    by_channel = np.stack([each[quantity].sum(0) for each in explained.observations])
    np.testing.assert_allclose(by_channel, explained.attributions[quantity][:, :2], rtol=1e-9)


def test_the_path_integral_itself_is_complete_within_a_per_cent(explained):
    assert explained.residual < 0.01


def test_leaving_out_an_observation_runs_the_model_without_it(explained, forecaster):
    frame = series(60, seed=1).iloc[:41].copy()
    found = explained.leave_one_out(1)
    line = found[(found["channel"] == "z") & (found["time"] == -3)].iloc[0]
    frame.loc[37, "z"] = np.nan
    expected = forecaster.predict(frame)
    assert line["mean"] == pytest.approx(expected["mean"].mean())
    width = (expected["upper_90"] - expected["lower_90"]).mean()
    assert line["width_ratio"] == pytest.approx(
        width / (explained.prediction.upper - explained.prediction.lower)[1].mean()
    )


def test_an_observation_that_is_missing_has_no_attribution(forecaster):
    frame = series(60, seed=1)
    frame.loc[55, "z"] = np.nan
    explained = nsac.explain(forecaster, frame)
    assert explained.observations[0]["mean"][-5, 1].tolist() == [0, 0, 0]
    assert len(explained.leave_one_out()) == 2 * 8 - 1


def test_several_series_have_one_row_each():
    frame = pd.concat([series(80, seed=k).assign(name=f"s{k}") for k in range(2)])
    model = NSACForecaster(3, 6, series="name", members=1, random_state=0, training={"max_steps": 5}).fit(frame)
    explained = nsac.explain(model, frame)
    np.testing.assert_allclose(explained.prediction.mean.ravel(), model.predict(frame)["mean"], rtol=1e-9)
    assert [label.split(",")[0] for label in explained.rows] == ["s0", "s1"]
    mixed = frame.sample(frac=1, random_state=0).sort_values("date", kind="stable").reset_index(drop=True)
    row = int(np.flatnonzero(mixed["name"] == "s1")[-1])
    assert nsac.explain(model, mixed, origins=[row]).prediction.mean == pytest.approx(explained.prediction.mean[1:])


def test_events_are_refused():
    frame = series(80).assign(z=1.0)
    settings = {"encoding": "events", "members": 1, "random_state": 0, "training": {"max_steps": 2}}
    model = NSACForecaster(3, 6, **settings).fit(frame)
    with pytest.raises(ExplainError, match="must have encoding='grid' to be explained. Got 'events'"):
        nsac.explain(model, frame)


def planted(seed: int) -> tuple[pd.DataFrame, str, int]:
    """The next value of the target is that of one of two channels some steps ago."""
    random = np.random.default_rng(seed)
    n, lag = 700, int(random.integers(1, 6))
    channels = {"a": random.normal(size=n), "b": random.normal(size=n)}
    name = str(random.choice(list(channels)))
    y = 0.3 * random.normal(size=n)
    y[lag + 1 :] += 1.5 * channels[name][: n - lag - 1]
    return pd.DataFrame({"t": np.arange(n, dtype=float), "y": y, **channels}), name, lag


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_channel_and_lag_that_matter_rank_first(seed):
    frame, name, lag = planted(seed)
    model = NSACForecaster(1, 8, time="t", members=1, random_state=seed, training={"max_steps": 300}).fit(frame[:650])
    explained = nsac.explain(model, frame, origins=list(range(655, 695, 2)))
    size = np.abs([each["mean"][..., 0] for each in explained.observations]).mean(0)
    step, channel = np.unravel_index(size.argmax(), size.shape)
    assert (explained.features[channel], 7 - step) == (name, lag)
