import math

import numpy as np
import pytest
import torch

from nsac import Prediction
from nsac.estimators.evaluation import SCORES, evaluate_rows
from support.series import daily_cycle, ridge


def evaluation(y):
    n = len(y)
    p = Prediction.gaussian(torch.zeros(n), torch.ones(n))
    baseline = Prediction.gaussian(torch.ones(n), torch.ones(n))
    return evaluate_rows("y", p, (-torch.ones(n), torch.ones(n)), y, {"one": baseline}, step=torch.arange(n))


def test_rows_without_an_observed_value_are_left_out():
    e = evaluation(torch.tensor([0.5, math.nan, 2.0]))
    assert e.y.tolist() == [0.5, 2.0] and e.step is not None and e.step.tolist() == [0, 2]


def test_the_coverage_of_the_model_is_that_of_its_conformal_interval():
    assert evaluation(torch.tensor([0.5, -0.5, 2.0, 0.0])).scores["model"]["coverage_90"] == 0.75


def test_model_and_baseline_have_the_same_scores():
    scores = evaluation(torch.tensor([0.5, 2.0])).scores
    assert list(scores["model"]) == list(scores["one"]) == list(SCORES)


def test_a_target_that_was_never_observed_is_an_error():
    with pytest.raises(ValueError, match="The target 'y' must be known in at least one row"):
        evaluation(torch.tensor([math.nan]))


@pytest.fixture(scope="module")
def fitted():
    return ridge().fit(daily_cycle())


@pytest.fixture(scope="module")
def forecasts(fitted):
    frame = daily_cycle(300, seed=2)
    return fitted.historical_forecasts(frame, since=frame["t"].iloc[200])


def test_there_is_a_forecast_from_every_row_since_a_time(forecasts):
    assert forecasts.y.shape == forecasts.prediction.shape == forecasts.lower.shape == (100, 6)


def test_observed_values_are_beside_the_forecasts(forecasts):
    np.testing.assert_allclose(forecasts.y[0], daily_cycle(300, seed=2)["y"].iloc[200:206])


def test_forecasts_have_the_times_they_are_for(forecasts):
    assert forecasts.times[0, 0] == daily_cycle(300, seed=2)["t"].iloc[200].value


def test_persistence_is_the_last_known_value(forecasts):
    np.testing.assert_allclose(forecasts.persistence[:, 0], daily_cycle(300, seed=2)["y"].iloc[199:299])


def test_the_seasonal_forecast_is_the_value_one_cycle_before(forecasts):
    rows = np.arange(200, 300)[:, None] + np.arange(-24, -18)
    np.testing.assert_allclose(forecasts.seasonal["day"], daily_cycle(300, seed=2)["y"].to_numpy()[rows])


def test_a_season_shorter_than_the_horizon_is_repeated():
    model = ridge(horizon=30).fit(daily_cycle(400))
    forecasts = model.historical_forecasts(daily_cycle(400), max_origins=None)
    np.testing.assert_allclose(forecasts.seasonal["day"][:, 24:], forecasts.seasonal["day"][:, :6])


def test_a_cycle_that_is_longer_than_the_file_is_no_baseline():
    model = ridge().fit(daily_cycle(400))
    assert model.cycles_ == ["day", "week"]
    assert list(model.historical_forecasts(daily_cycle(100)).seasonal) == ["day"]


def test_a_historical_forecast_is_the_prediction_of_its_origin(fitted, forecasts):
    past = daily_cycle(300, seed=2).iloc[:250]
    np.testing.assert_allclose(forecasts.prediction.mean[50], fitted.predict(past)["mean"])


def test_origins_can_be_subsampled(fitted):
    assert len(fitted.historical_forecasts(daily_cycle(), max_origins=10).y) == 10


def test_a_frame_without_a_known_target_is_refused(fitted):
    with pytest.raises(ValueError, match="`frame` must hold a row with a known 'y' in the 12 steps up to it"):
        fitted.historical_forecasts(daily_cycle().assign(y=np.nan))
