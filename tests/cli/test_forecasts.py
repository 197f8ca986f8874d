from pathlib import Path

import numpy as np
import pytest

from nsac.cli import forecasts
from nsac.cli.tables import TableError
from support.series import daily_cycle, ridge

FILE = Path("series.csv")


@pytest.fixture(scope="module")
def fitted():
    return ridge().fit(daily_cycle())


@pytest.fixture(scope="module")
def evaluation(fitted):
    return forecasts.evaluate(fitted, daily_cycle(300, seed=1), FILE)[0]


def test_a_forecaster_is_fitted_to_all_rows():
    settings = {"time": "t", "horizon": 6, "lookback": 12, "method": "ridge"}
    model, rows = forecasts.fit(daily_cycle(), ["y"], settings)
    assert rows == 260 and model.target == "y"


def test_a_forecast_has_one_target():
    with pytest.raises(TableError, match="A forecast has one target. Got y, a."):
        forecasts.fit(daily_cycle(), ["y", "a"], {})


def test_the_coverage_names_the_interval(fitted):
    assert "upper_80" in forecasts.predict(fitted, daily_cycle(), FILE, 0.8)


def test_a_file_must_have_the_columns_of_the_model(fitted):
    with pytest.raises(TableError, match="no column 'a'"):
        forecasts.predict(fitted, daily_cycle().drop(columns="a"), FILE, 0.9)


def test_all_lead_times_are_evaluated(evaluation):
    assert sorted(set(evaluation.step.tolist())) == [1, 2, 3, 4, 5, 6]


def test_a_baseline_has_the_standard_deviation_of_its_errors(evaluation):
    first = evaluation.step == 1
    for baseline in evaluation.baselines.values():
        errors = (evaluation.y - baseline.mean)[first]
        np.testing.assert_allclose(baseline.std[first], errors.square().mean().sqrt())


def test_the_baselines_are_persistence_and_the_cycles_in_use(evaluation):
    assert list(evaluation.baselines) == ["the last value", "the last day"]


def test_one_lead_time_is_shown_along_time(evaluation):
    assert set(evaluation.step[evaluation.shown].tolist()) == {3}
