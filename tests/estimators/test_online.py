import copy

import numpy as np
import pandas as pd
import pytest

import nsac
from nsac.estimators.online import OnlineCalibration, SeenTimes, coverage_report, due_scores
from nsac.estimators.windows import Grid
from nsac.uncertainty.conformal import COVERAGES
from support.series import daily_cycle, ridge


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    ridge().fit(daily_cycle(290, seed=3).head(260)).save(path)
    return path


def widths(model, frame):
    return model.predict(frame).eval("upper_90 - lower_90")


def test_updating_row_by_row_is_updating_at_once(folder):
    frame = daily_cycle(290, seed=3)
    at_once, by_row = nsac.load(folder), nsac.load(folder)
    at_once.update(frame)
    for stop in range(261, 291):
        by_row.update(frame.iloc[stop - 30 : stop])
    np.testing.assert_allclose(at_once.stream_.alpha, by_row.stream_.alpha)
    pd.testing.assert_frame_equal(at_once.predict(frame), by_row.predict(frame))


def test_no_forecast_is_scored_twice(folder):
    frame = daily_cycle(290, seed=3)
    model = nsac.load(folder).update(frame)
    alpha = model.stream_.alpha.copy()
    model.update(frame)
    assert np.array_equal(model.stream_.alpha, alpha)


def test_rows_that_are_older_than_the_last_update_change_nothing(folder):
    frame = daily_cycle(290, seed=3)
    model = nsac.load(folder)
    assert model.update_report(frame.head(100))["forecasts"].sum() == 0
    assert not model.stream_.begun


def test_rows_without_a_known_target_change_nothing(folder):
    frame = daily_cycle(290, seed=3)
    frame.loc[200:, "y"] = np.nan
    model = nsac.load(folder)
    assert model.update_report(frame.tail(60))["forecasts"].sum() == 0
    assert not model.stream_.begun


def test_an_update_changes_the_intervals(folder):
    frame = daily_cycle(290, seed=3)
    assert not np.allclose(widths(nsac.load(folder).update(frame), frame), widths(nsac.load(folder), frame))


def test_an_update_does_not_change_the_mean(folder):
    frame = daily_cycle(290, seed=3)
    assert nsac.load(folder).update(frame).predict(frame)["mean"].equals(nsac.load(folder).predict(frame)["mean"])


def test_an_updated_model_is_saved_with_its_margins(folder, tmp_path):
    frame = daily_cycle(290, seed=3)
    model = nsac.load(folder).update(frame)
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(nsac.load(tmp_path / "model").predict(frame), model.predict(frame), check_exact=True)


@pytest.fixture(scope="module")
def noisier():
    """A series that becomes noisier, a forecaster of its first rows, its widths, and the report of an update."""
    frame = daily_cycle(700, seed=4)
    frame.loc[300:, "y"] += 2 * np.random.default_rng(0).normal(size=400)
    model = ridge().fit(frame.head(300))
    before = widths(model, frame).mean()
    return model.update_report(frame), before, widths(model, frame).mean()


def test_the_report_counts_every_forecast_that_came_due(noisier):
    assert noisier[0]["step"].tolist() == [1, 2, 3, 4, 5, 6] and noisier[0]["forecasts"].tolist() == [400] * 6


def test_adaptive_intervals_cover_a_noisier_series(noisier):
    assert noisier[0]["coverage_90"].between(0.8, 0.95).all()


def test_intervals_become_wider_with_noise(noisier):
    assert noisier[2] > 2 * noisier[1]


def test_a_score_comes_due_at_the_slot_it_was_forecast_for():
    n = 5
    zeros = np.zeros(n, dtype=np.int64)
    grid = Grid(np.zeros((n, 1)), np.zeros(n), np.arange(n), zeros, zeros, zeros + 4, False)  # the stretch ends at 4
    due = due_scores(grid, np.array([1, 2]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    nan = np.nan
    np.testing.assert_array_equal(due, [[nan, nan], [nan, nan], [1, nan], [3, 2], [nan, nan]])


def test_coverage_counts_known_scores_only():
    scores = np.array([[1.0], [3.0], [np.nan]])
    table = coverage_report(scores, np.full((3, len(COVERAGES), 1), 2.0))
    assert table["forecasts"].tolist() == [2] and table["coverage_90"].tolist() == [0.5]


def test_plain_values_make_the_same_calibration(folder):
    online = nsac.load(folder).update(daily_cycle(290, seed=3)).online_
    copy = OnlineCalibration.from_dict(*online.to_dict(), horizon=6)
    assert copy.seen == online.seen and copy.stream.now == online.stream.now
    np.testing.assert_array_equal(copy.stream.margin(0.8), online.stream.margin(0.8))


def test_old_rows_of_some_series_change_nothing():
    frame = pd.concat([daily_cycle(290, seed=i).assign(s=f"s{i}") for i in range(3)])
    model = ridge(series="s").fit(frame[frame["t"] < "2024-01-11"]).update(frame)
    alpha = model.stream_.alpha.copy()
    for old in (frame[frame["s"] == "s1"].head(50), frame[frame["s"] != "s0"].groupby("s").head(1), frame):
        model.update(old)
    assert np.array_equal(model.stream_.alpha, alpha)


def test_a_row_without_a_target_may_still_receive_it(folder):
    frame, model = daily_cycle(290, seed=3), nsac.load(folder)
    late = frame.assign(y=frame["y"].where(frame.index < 260))
    assert model.update_report(late)["forecasts"].sum() == 0
    assert model.update_report(frame)["forecasts"].sum() == nsac.load(folder).update_report(frame)["forecasts"].sum()


def test_the_coverage_of_no_forecast_is_missing(folder):
    assert nsac.load(folder).update_report(daily_cycle(290, seed=3).head(100))["coverage_90"].isna().all()


def test_names_of_floats_in_earlier_folders_are_known():
    assert SeenTimes({"1.0": 7}).last([1.0, 2.0, "1.0"], 0).tolist() == [7, 0, 7]
    assert SeenTimes({1: 7}).last([1.0, 1], 0).tolist() == [7, 7]


def test_a_slot_after_its_row_is_not_scored_again():
    random = np.random.default_rng(0)
    frame = daily_cycle(300, seed=3)
    frame["t"] += pd.to_timedelta(random.uniform(-0.45, 0.45, len(frame)), "h")
    fitted = ridge().fit(frame.head(250))
    for rows in range(260, 300):
        model, given = copy.deepcopy(fitted), frame.head(rows)
        model.update(given)
        assert model.update_report(given)["forecasts"].sum() == 0
