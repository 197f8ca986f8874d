import numpy as np
import pandas as pd
import pytest

from nsac.estimators.backtesting import half_mean
from support.series import daily_cycle, forecaster, ridge


@pytest.fixture(scope="module")
def table():
    return ridge().backtest(daily_cycle(400), folds=2)


def test_a_backtest_has_a_row_per_fold_and_method(table):
    assert table["method"].tolist() == ["ridge", "persistence", "seasonal", "half-mean"] * 2
    assert table["fold"].tolist() == [1] * 4 + [2] * 4


def test_all_scores_are_finite(table):
    assert np.isfinite(table[["mse", "mae", "crps", "nll", "coverage_90", "width_90"]]).all(axis=None)


def test_ridge_is_better_than_persistence(table):
    scores = table[table["fold"] == 2].set_index("method")
    assert scores.loc["ridge", "mse"] < scores.loc["persistence", "mse"]


def test_a_backtest_does_not_fit_the_forecaster_itself():
    model = ridge()
    model.backtest(daily_cycle(200), folds=1)
    assert not hasattr(model, "members_")


def test_a_baseline_is_scored_beside_itself():
    table = forecaster(method="persistence", members=1).backtest(daily_cycle(300), folds=1)
    assert table["method"].tolist() == ["persistence", "persistence", "seasonal", "half-mean"]


def two_series(rows=300):
    return pd.concat([daily_cycle(rows, seed).assign(id=f"s{seed}", y=lambda f, k=seed: f["y"] + k) for seed in (1, 2)])


def test_scores_may_be_separate_for_series_and_lead_times():
    table = ridge(series="id").backtest(two_series(), folds=1, by=["series", "lead_time"])
    assert list(table.columns[:5]) == ["fold", "id", "lead_time", "method", "forecasts"]
    assert table.groupby(["id", "lead_time"]).size().tolist() == [4] * 12


def test_scores_of_lead_times_are_those_of_all_on_average():
    model, frame = ridge(), daily_cycle(300)
    total, each = (model.backtest(frame, folds=1, by=by).query("method == 'ridge'") for by in ((), "lead_time"))
    assert each["forecasts"].sum() == total["forecasts"].iloc[0]
    np.testing.assert_allclose(np.average(each["mse"], weights=each["forecasts"]), total["mse"].iloc[0])


def test_errors_of_persistence_grow_with_the_lead_time():
    table = ridge().backtest(daily_cycle(300), folds=1, by="lead_time").query("method == 'persistence'")
    assert (table["mse"].diff().iloc[1:] > 0).all()


def test_scores_are_separate_for_known_names_only():
    with pytest.raises(ValueError, match="`by` must be one of 'series', 'lead_time'. Got 'hour' instead"):
        ridge().backtest(daily_cycle(), by="hour")


def test_half_the_last_value_and_half_the_mean_so_far_is_a_baseline():
    frame = daily_cycle(300)
    model = ridge().fit(frame)
    grid, windows = model.preprocessor_.past(model.preprocessor_.read(frame))
    offset, scale = model.preprocessor_._offset_scale(windows)
    means = frame["y"].expanding().mean().to_numpy()[windows.ends]
    expected = (frame["y"].to_numpy()[windows.ends] + means) / 2
    np.testing.assert_allclose((offset + scale * half_mean(grid, windows))[:, 3], expected)
