import numpy as np
import pandas as pd
import pytest

import nsac
from nsac import NSACForecaster
from nsac.estimators import ModelError
from nsac.estimators.event_online import _due_forecasts
from nsac.estimators.files import read_model, write_model
from support.events import events, stays


def walk(rows, seed=0, scale=1.0):
    """An AR process at irregular times; from row 150 on its noise is scaled."""
    random = np.random.default_rng(seed)
    times = np.cumsum(random.exponential(1.0, rows))
    noise, value = random.standard_normal(rows), np.zeros(rows)
    noise[150:] *= scale
    for i in range(1, rows):
        value[i] = 0.9 * value[i - 1] + noise[i]
    return pd.DataFrame({"t": times, "y": value})


def ridge_like(**options):
    given = {"horizon": 3, "lookback": 12, "target": "y", "time": "t", "encoding": "events", "method": "persistence"}
    return NSACForecaster(**given | {"random_state": 0, "members": 1} | options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    ridge_like().fit(walk(150)).save(path)
    return path


def widths(model, frame):
    return model.predict(frame).eval("upper_90 - lower_90").to_numpy()


def test_updating_row_by_row_is_updating_at_once(folder):
    frame = walk(190)
    at_once, by_row = nsac.load(folder).update(frame), nsac.load(folder)
    for stop in range(151, 191):
        by_row.update(frame.iloc[stop - 60 : stop])
    np.testing.assert_allclose(at_once.online_.log_factor, by_row.online_.log_factor)
    assert at_once.online_.log_factor.any()
    pd.testing.assert_frame_equal(at_once.predict(frame), by_row.predict(frame))


def test_no_forecast_is_scored_twice_and_rows_of_fit_are_seen(folder):
    model = nsac.load(folder)
    assert model.update_report(walk(150))["forecasts"].sum() == 0
    assert model.update_report(walk(190))["forecasts"].sum() > 0
    assert model.update_report(walk(190))["forecasts"].sum() == 0


def test_without_a_new_value_intervals_are_those_of_fit(folder):
    model = nsac.load(folder)
    before = model.predict(walk(150))
    pd.testing.assert_frame_equal(model.update(walk(150)).predict(walk(150)), before)


@pytest.mark.parametrize(("scale", "wider"), [(4.0, True), (0.25, False)])
def test_intervals_follow_the_size_of_the_errors(folder, scale, wider):
    frame, model = walk(500, scale=scale), nsac.load(folder)
    before = model.predict(frame)
    after = model.update(frame).predict(frame)
    changed = (after["upper_90"] - after["lower_90"]) > (before["upper_90"] - before["lower_90"])
    assert (changed == wider).all()
    pd.testing.assert_frame_equal(after[["mean", "std"]], before[["mean", "std"]])


def test_the_report_has_the_coverage_of_every_lead_time(folder):
    report = nsac.load(folder).update_report(walk(400))
    assert list(report) == ["step", "forecasts", *(f"coverage_{each}" for each in (50, 80, 90, 95, 99))]
    assert report["step"].tolist() == [1, 2, 3]
    assert report["coverage_90"].between(0.8, 0.97).all()
    assert (report["coverage_50"] <= report["coverage_99"]).all()


def test_intervals_stay_nested(folder):
    model, frame = nsac.load(folder).update(walk(300, scale=3.0)), walk(300, scale=3.0)
    with pytest.warns(UserWarning, match="too few for a conformal interval of coverage 0.99"):
        bounds = model.predict_interval(frame, coverage=[0.3, 0.5, 0.9, 0.99])
    assert (np.diff(bounds[:, :, 1] - bounds[:, :, 0], axis=1) >= 0).all()


def test_a_saved_model_keeps_its_stream(folder, tmp_path):
    frame = walk(190)
    model = nsac.load(folder).update(frame)
    model.save(tmp_path / "again")
    again = nsac.load(tmp_path / "again")
    pd.testing.assert_frame_equal(again.predict(frame), model.predict(frame))
    assert again.update_report(frame)["forecasts"].sum() == 0


def test_a_forged_stream_is_refused(folder, tmp_path):
    facts, tensors = read_model(folder)
    tensors["own.online.log_factor"] = tensors["own.online.log_factor"] * np.nan
    write_model(tmp_path / "forged", facts, tensors)
    with pytest.raises(ModelError, match="log_factor"):
        nsac.load(tmp_path / "forged")


def test_several_targets_and_series_have_a_row_each_and_a_new_series_counts():
    frame = stays()
    model = events(method="persistence").fit(frame)
    assert model.update_report(frame)["forecasts"].sum() == 0
    report = model.update_report(frame.assign(stay=frame["stay"] + "-new"))
    assert list(report)[:3] == ["target", "step", "forecasts"]
    assert report.groupby("target")["forecasts"].sum().min() > 0


@pytest.mark.parametrize("dated", [True, False])
def test_forecasts_come_due_at_the_exact_times_of_the_targets(dated):
    frame = stays(dated=dated)
    horizon, lookback = ("6h", "24h") if dated else (6, 24)
    model = events(method="persistence", horizon=horizon, lookback=lookback).fit(frame[frame["stay"] < "s2"])
    read = model._forecasts.read(frame)
    due = _due_forecasts(model._forecasts, read, model.online_.seen.last(read.names, read.row_times.min() - 1))
    assert len(due["time"])
    for target in (0, 1):
        own = read.events.times[(read.events.column == target) & (read.events.series == 2)]
        assert set(due["time"][due["target"] == target]) <= set(own)


def test_the_order_of_rows_does_not_matter(folder):
    frame = walk(190)
    shuffled = nsac.load(folder).update(frame.sample(frac=1, random_state=0))
    np.testing.assert_array_equal(shuffled.online_.log_factor, nsac.load(folder).update(frame).online_.log_factor)
