import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import nsac
from nsac import NSACForecaster
from nsac.estimators import ModelError
from nsac.estimators.event_online import _due_forecasts
from nsac.estimators.event_rows import target_events
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


def persistence(**options):
    given = {"horizon": 3, "lookback": 12, "target": "y", "time": "t", "encoding": "events", "method": "persistence"}
    return NSACForecaster(**given | {"random_state": 0, "members": 1} | options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    persistence().fit(walk(150)).save(path)
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


@pytest.mark.parametrize("value", [1e9, -2.0])
def test_a_forged_stream_is_refused(folder, tmp_path, value):
    facts, tensors = read_model(folder)
    tensors["own.online.log_factor"] = tensors["own.online.log_factor"] + value
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
def test_forecasts_come_due_at_the_exact_times_of_their_targets(dated):
    frame = stays(dated=dated)
    horizon, lookback = ("6h", "24h") if dated else (6, 24)
    model = events(method="persistence", horizon=horizon, lookback=lookback).fit(frame[frame["stay"] < "s2"])
    read = model._forecasts.read(frame)
    targets = target_events(read, model.columns_)
    due = _due_forecasts(model._forecasts, read, targets, model.online_.seen.last(read.names, [-(2**62)] * 2))
    assert set(due["series"]) == {2}
    own = targets.series == 2
    followed = {  # values that another row precedes within the horizon
        (time, column)
        for time, column in zip(targets.times[own], targets.column[own], strict=True)
        if ((earlier := read.clock(np.array([time]))[0] - read.clock(targets.times[own])) > 0).any()
        and earlier[earlier > 0].min() <= model.events_.horizon
    }
    assert set(zip(due["time"], due["target"], strict=True)) == followed


def test_the_order_of_rows_does_not_matter(folder):
    frame = walk(190)
    shuffled = nsac.load(folder).update(frame.sample(frac=1, random_state=0))
    np.testing.assert_array_equal(shuffled.online_.log_factor, nsac.load(folder).update(frame).online_.log_factor)


def test_a_target_that_arrives_after_another_one_is_scored():
    frame = stays(1, 120)
    model = events(method="persistence").fit(frame[:80])
    at_once = copy.deepcopy(model).update_report(frame)
    first = model.update_report(frame.assign(MAP=frame["MAP"].where(frame.index < 80)))
    second = model.update_report(frame)
    counts = [report.groupby("target")["forecasts"].sum().to_dict() for report in (at_once, first, second)]
    assert counts[1]["MAP"] == counts[2]["HR"] == 0
    assert counts[2]["MAP"] == counts[0]["MAP"] > 0


def test_rows_that_are_planned_are_not_seen():
    frame = stays(2, 120)
    past = frame[frame["t"] <= frame["t"].sort_values().iloc[150]]
    model = events(method="persistence").fit(past)
    plan = frame.tail(1).assign(stay="s0", t=frame["t"].max(), HR=np.nan, MAP=np.nan, age=50)
    model.update(pd.concat([frame[frame["stay"] == "s1"], plan]))
    assert model.update_report(frame[frame["stay"] == "s0"])["forecasts"].sum() > 0


def test_new_rows_alone_are_named_and_can_be_scored_later(folder):
    frame, model = walk(190), nsac.load(folder)
    with pytest.warns(UserWarning, match="None of the 1 new values has an earlier observation.*Pass lookback"):
        model.update(frame.tail(1))
    assert model.update_report(frame)["forecasts"].sum() > 0


def test_a_frame_without_any_value_changes_nothing(folder):
    report = nsac.load(folder).update_report(walk(190).tail(3).assign(y=np.nan))
    assert report["forecasts"].sum() == 0
    assert report["coverage_90"].isna().all()


def test_whole_numbers_name_the_same_series_whatever_their_type():
    frame = stays(3).replace({"stay": {"s0": 0, "s1": 1, "s2": 2}})
    model = events(method="persistence").fit(frame.astype({"stay": int}))
    assert model.update_report(frame.astype({"stay": float}))["forecasts"].sum() == 0


@pytest.mark.parametrize("dated", [True, False])
def test_a_series_without_one_of_the_targets_is_saved(tmp_path, dated):
    frame = stays(dated=dated)
    frame.loc[frame["stay"] == "s2", "MAP"] = np.nan
    horizon, lookback = ("6h", "24h") if dated else (6, 24)
    model = events(method="persistence", horizon=horizon, lookback=lookback).fit(frame)
    model.save(tmp_path / "model")
    assert nsac.load(tmp_path / "model").update_report(frame)["forecasts"].sum() == 0


def test_a_folder_without_a_stream_is_loaded_saved_and_evaluates_later_rows(folder, tmp_path):
    facts, tensors = read_model(folder)
    del facts["own"]["seen"]
    write_model(tmp_path / "old", facts, {n: each for n, each in tensors.items() if not n.startswith("own.online.")})
    nsac.load(tmp_path / "old").save(tmp_path / "again")
    model = nsac.load(tmp_path / "again")
    with pytest.warns(UserWarning, match="an earlier version, which did not save the times"):
        assert model.update_report(walk(150))["forecasts"].sum() == 0
    assert model.update_report(walk(190))["forecasts"].sum() > 0


def test_margins_of_zero_do_not_move_the_factors():
    times = np.arange(400.0)
    constant = np.where(times % 97 == 0, 1.0, 0.0)
    frame = pd.DataFrame({"t": times, "y": constant})
    model = persistence().fit(frame[:300])
    model.calibration_ = replace(model.calibration_, scores=model.calibration_.scores * 0)
    model.update(frame)
    assert not model.online_.log_factor.any()


def test_new_values_of_a_series_without_earlier_rows_can_be_scored_later():
    frame = stays(2, 120)
    past = frame[frame["t"] <= frame["t"].sort_values().iloc[150]]
    model = events(method="persistence").fit(past)
    at_once = copy.deepcopy(model).update_report(frame)["forecasts"].sum()
    first, second = frame[frame["stay"] == "s0"], frame[frame["stay"] == "s1"]
    alone = pd.concat([first, second.tail(1)])
    reports = [model.update_report(each) for each in (alone, frame)]
    assert sum(report["forecasts"].sum() for report in reports) == at_once
