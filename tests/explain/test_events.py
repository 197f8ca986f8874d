import numpy as np
import pandas as pd
import pytest
import torch

import nsac
from explain.conftest import events, series
from nsac import NSACForecaster
from nsac.explain import ExplainError, lesions, series_attribution

QUANTITIES = ("mean", "aleatoric", "epistemic")
ORIGINS = [60, 90, 119]


@pytest.fixture(scope="module")
def explained(event_forecaster):
    return nsac.explain(event_forecaster, events(120, seed=1), origins=ORIGINS)


def test_explained_forecasts_are_those_of_the_model(explained, event_forecaster):
    for row, origin in enumerate(ORIGINS):
        expected = event_forecaster.predict(events(120, seed=1).iloc[: origin + 1])
        for name in QUANTITIES:
            np.testing.assert_allclose(getattr(explained.prediction, name)[row], expected[name], rtol=1e-9)
        np.testing.assert_allclose(explained.prediction.upper[row], expected["upper_90"], rtol=1e-9)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_attributions_of_observations_add_up(explained, quantity):
    expected = getattr(explained.prediction, quantity)[:, explained.explained]
    np.testing.assert_allclose(explained.base[quantity] + explained.attributions[quantity].sum(1), expected, rtol=1e-9)
    total = np.stack([each[quantity].sum(0) for each in explained.observations])
    np.testing.assert_allclose(explained.base[quantity] + total, expected, rtol=1e-9)


def test_groups_of_observations_add_up_as_well(event_forecaster, monkeypatch):
    monkeypatch.setattr(series_attribution, "EVALUATED_ROWS", 1)
    found = nsac.explain(event_forecaster, events(120, seed=1))
    total = found.base["mean"] + found.attributions["mean"].sum(1)
    np.testing.assert_allclose(total, found.prediction.mean[:, found.explained], rtol=1e-9)
    assert len(np.unique(found.observations[0]["mean"][:, 0].round(12))) < len(found.leave_one_out())


def test_the_baseline_is_the_forecast_without_observations(explained):
    subject = explained.subject
    empty = {name: each.clone() for name, each in subject.inputs.items()}
    empty["x"][:] = torch.nan
    expected = subject.predict(empty).mean[:, explained.explained]
    np.testing.assert_allclose(explained.base["mean"], expected, rtol=1e-8)  # draws of one value are scaled


def test_leaving_out_an_observation_runs_the_model_without_it(explained, event_forecaster):
    frame = events(120, seed=1).iloc[:91].copy()
    last = int(frame["z"].last_valid_index())  # pyright: ignore[reportArgumentType]
    line = explained.leave_one_out(1).query("channel == 'z'").iloc[-1]
    assert line["value"] == pytest.approx(frame["z"][last])
    assert line["time"] == pytest.approx((frame["date"][last] - frame["date"].iloc[-1]).total_seconds() / 3600)
    frame.loc[last, "z"] = np.nan
    expected = event_forecaster.predict(frame)
    assert line["mean"] == pytest.approx(expected["mean"].mean())


def test_a_network_predicts_what_its_traced_weights_and_values_give(explained):
    subject = explained.subject.asking(explained.explained)
    offset, scale = subject._data(subject.inputs).offset_and_scale(torch.arange(3))
    means = subject.model_means(subject.inputs)
    networks = [mean for name, mean in means.items() if name != "trees"]
    for trace, mean in zip(explained.traces, networks, strict=True):
        np.testing.assert_allclose((offset + scale * torch.from_numpy(trace.mean))[..., 0], mean, atol=1e-12)


def test_attention_names_observations_and_its_weights_add_up_to_one(explained):
    found = explained.attention()
    assert found.groupby("row")["weight"].sum().to_numpy() == pytest.approx(np.ones(3))
    assert len(found) == sum(len(explained.subject.observations(row)) for row in range(3))
    assert (found.loc[found["weight"] > 0, "std"] > 0).all() and found["key"].str.endswith(" h").all()


def test_the_query_time_can_be_any_within_the_horizon(explained, event_forecaster):
    found = explained.at(2, [0.5, 1.25, 2.0])
    frame = events(120, seed=1)
    at = frame["date"].iloc[-1] + pd.to_timedelta(found["lead"], unit="h")
    np.testing.assert_allclose(found["mean"], event_forecaster.predict(frame, at=at)["mean"], rtol=1e-6)
    assert found["sigma"].nunique() == 3 and {"kappa", "phi", "psi", "logit"} <= set(found)


@pytest.mark.parametrize(("leads", "target"), [([0.0], 0), ([1e3], 0), ([1.0], 1)])
def test_a_query_time_beyond_the_horizon_is_refused(explained, leads, target):
    with pytest.raises(ExplainError, match="`leads` must be above 0 and at most"):
        explained.at(0, leads, target)


def test_windows_have_no_query_times(forecaster):
    with pytest.raises(ExplainError, match="must have encoding='events'"):
        nsac.explain(forecaster, series(40, seed=1)).at(0, [1.0])


def test_channels_have_importances_by_age(explained):
    found = explained.importances(2)
    assert set(found["channel"]) == {"y", "z"} and (found["lower"] <= found["upper"]).all()


def test_a_figure_shows_observations(explained):
    assert len(explained.plot(1).axes[3].patches) <= 16


def test_several_targets_series_and_attributes_are_explained():
    frames = [events(60, seed=k).assign(name=f"s{k}", size=float(k)) for k in range(12)]
    frame = pd.concat(frames)
    settings = {"encoding": "events", "members": 1, "random_state": 0, "training": {"max_steps": 3}}
    columns = {"target": ["y", "z"], "time": "date", "series": "name", "static": ["size"]}
    model = NSACForecaster(2, 8, **columns, **settings).fit(frame)
    found = nsac.explain(model, frame)
    np.testing.assert_allclose(found.prediction.mean.ravel(), model.predict(frame)["mean"], rtol=1e-9)
    assert found.outputs[1] == "z, 1 step ahead" and found.explained == [0, 1, 2, 3] and model.events_.with_levels
    total = found.base["epistemic"] + found.attributions["epistemic"].sum(1)
    np.testing.assert_allclose(total, found.prediction.epistemic, rtol=1e-9)


def test_known_future_columns_are_explained():
    frame = events(120).assign(plan=np.arange(120) % 5 * 1.0)
    settings = {"encoding": "events", "members": 1, "random_state": 0, "training": {"max_steps": 3}}
    model = NSACForecaster(2, 8, target="y", time="date", known_future=["plan"], **settings).fit(frame)
    found = nsac.explain(model, frame, origins=[100])
    assert "plan" in found.features and np.isfinite(found.prediction.mean).all()


def test_events_have_lesions(event_forecaster):
    study = lesions(event_forecaster, events(120, seed=1), layers=("motor",))
    assert len(study) == 6 and np.isfinite(study[["error", "aleatoric", "network_error"]].to_numpy()).all()


def test_an_origin_that_does_not_exist_is_refused(event_forecaster):
    with pytest.raises(ExplainError, match=r"from 0 to 39. Got 40 instead"):
        nsac.explain(event_forecaster, events(40), origins=[40])


def test_a_method_without_a_circuit_is_refused():
    model = NSACForecaster(2, 6, encoding="events", method="persistence", random_state=0).fit(events(80))
    with pytest.raises(ExplainError, match="must contain a circuit.*'persistence'"):
        nsac.explain(model, events(40))
