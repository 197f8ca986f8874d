from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import nsac
from explain.conftest import series, table
from nsac import NSACForecaster
from nsac._torch import plain_autograd
from nsac.explain import ExplainError, series_attribution
from nsac.explain.gradients import integrated_gradients

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
    for row, each in enumerate(explained.observations):
        channel = np.array([observation.channel for observation in explained.subject.observations(row)])
        by_channel = np.stack([each[quantity][channel == c].sum(0) for c in range(2)])
        np.testing.assert_allclose(by_channel, explained.attributions[quantity][row, :2], rtol=1e-9)


def test_integrated_gradients_add_up_within_a_per_cent(explained):
    found = explained.integrated_gradients(1)
    assert found.residual < 0.01
    total = found.base + found.values.sum((2, 3)) + found.calendar
    expected = explained.prediction.quantities[:, 1, explained.explained]
    np.testing.assert_allclose(total, expected, rtol=1e-9)


def test_integrated_gradients_are_those_of_captum(explained):
    attr = pytest.importorskip("captum.attr", reason="captum is in the extra `drive`")
    subject, lead = explained.subject, explained.explained[1]
    model = replace(subject.model.components_, weights=torch.tensor([0.7, 0.3, 0.0]).double())  # trees have no gradient
    kept, subject.model.components_ = subject.model.components_, model
    try:
        found = integrated_gradients(subject, 1, [lead], 1).values[0, 0]
        x, calendar = subject.inputs["x"][1:2], subject.inputs["calendar"][1:2]
        start = subject.baselines["x"][:1], subject.baselines["calendar"][:1]

        def mean(x: torch.Tensor, calendar: torch.Tensor) -> torch.Tensor:
            return subject.moments({"x": x, "calendar": calendar}).mean[:, lead]

        with plain_autograd():
            method = attr.IntegratedGradients(mean)
            expected, _ = method.attribute((x, calendar), start, n_steps=32, method="gausslegendre")
    finally:
        subject.model.components_ = kept
    np.testing.assert_allclose(found, expected[0].detach().numpy(), rtol=0.01, atol=1e-3 * np.abs(found).max())


def test_tables_have_no_integrated_gradients(regressor):
    with pytest.raises(ExplainError, match="forecaster of a regular grid.*Got table"):
        nsac.explain(regressor, table(2)[0]).integrated_gradients()


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
    assert len(explained.leave_one_out()) == len(explained.observations[0]["mean"]) == 2 * 8 - 1


def test_several_series_have_one_row_each():
    frame = pd.concat([series(80, seed=k).assign(name=f"s{k}") for k in range(2)])
    model = NSACForecaster(3, 6, series="name", members=1, random_state=0, training={"max_steps": 5}).fit(frame)
    explained = nsac.explain(model, frame)
    np.testing.assert_allclose(explained.prediction.mean.ravel(), model.predict(frame)["mean"], rtol=1e-9)
    assert [label.split(",")[0] for label in explained.rows] == ["s0", "s1"]
    mixed = frame.sample(frac=1, random_state=0).sort_values("date", kind="stable").reset_index(drop=True)
    row = int(np.flatnonzero(mixed["name"] == "s1")[-1])
    assert nsac.explain(model, mixed, origins=[row]).prediction.mean == pytest.approx(explained.prediction.mean[1:])
    turned = pd.concat([frame[frame["name"] == "s1"], frame[frame["name"] == "s0"]])
    assert nsac.explain(model, turned, origins=[79]).prediction.mean == pytest.approx(explained.prediction.mean[1:])


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
def test_the_channel_and_lag_that_matter_rank_first(seed, monkeypatch):
    monkeypatch.setattr(series_attribution, "EVALUATED_ROWS", 8000)  # as outside of tests
    frame, name, lag = planted(seed)
    model = NSACForecaster(1, 8, time="t", members=1, random_state=seed, training={"max_steps": 300}).fit(frame[:650])
    explained = nsac.explain(model, frame, origins=list(range(655, 695, 2)))
    size = np.abs([each["mean"][:, 0] for each in explained.observations]).mean(0)
    found = explained.subject.observations(0)[size.argmax()]
    assert (explained.features[found.channel], -found.time) == (name, lag)
