"""Claims about forecasts in continuous time, of small series."""

import logging

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

import nsac
from nsac import NSACForecaster
from nsac.estimators import ModelError
from nsac.estimators.event_frames import read_events
from nsac.estimators.event_rows import Origins
from nsac.estimators.files import read_model, write_model
from nsac.estimators.graph import make_graph
from support.events import events, instant, sines, stays

HOUR = pd.Timedelta("1h")


@pytest.fixture(scope="module")
def fitted():
    return events().fit(stays())


@pytest.fixture
def frame():
    return stays()


def one(frame, name="s0"):
    """A series up to its last observation."""
    own = frame[frame["stay"] == name]
    return own[own["t"] <= own.loc[own[["HR", "MAP"]].notna().any(axis=1), "t"].max()]


def ahead(frame, *hours, dose=0.5):
    """Rows after the last one, with known-future values."""
    times = [frame["t"].max() + hour * HOUR for hour in hours]
    return pd.DataFrame({"stay": frame["stay"].iloc[0], "t": times, "age": frame["age"].iloc[0], "dose": dose})


def assert_same(a, b, rtol=1e-9):
    pd.testing.assert_frame_equal(a, b, rtol=rtol, check_dtype=False)


def test_the_table_has_a_row_per_time_and_target(fitted, frame):
    table = fitted.predict(one(frame), at=[frame["t"].max() + HOUR])
    assert list(table) == ["t", "stay", "target", "mean", "std", "aleatoric", "epistemic", "lower_90", "upper_90"]
    assert table["target"].tolist() == ["HR", "MAP"]


def test_rows_after_the_last_observation_are_what_is_predicted(fitted, frame):
    own = one(frame)
    table = fitted.predict(pd.concat([own, ahead(own, 1, 6)]))
    assert table["t"].tolist() == [own["t"].max() + h * HOUR for h in (1, 1, 6, 6)]


def test_rows_that_end_before_the_horizon_are_named(fitted, frame):
    known = pd.concat([one(frame), ahead(one(frame), 1, 6), *(ahead(one(frame, name), 1, 2) for name in ("s1", "s2"))])
    message = "Forecasts of series 's1' are only for 2 rows after .*; likewise in 1 other series. Add rows, or .* `at`"
    with pytest.warns(UserWarning, match=message) as found:
        fitted.predict(pd.concat([known, one(frame, "s1"), one(frame, "s2")]))
    assert len(found) == 1


def test_rows_after_the_horizon_are_named(fitted, frame):
    known = pd.concat([one(frame), one(frame, "s1"), ahead(one(frame, "s1"), 1, 7)])
    with pytest.raises(ValueError, match="of series 's1' must be .* Drop such rows, pass other times as `at`"):
        fitted.predict(known)


def test_rows_that_are_predicted_give_what_their_times_do(fitted, frame):
    own = one(frame)
    dose = own["dose"].iloc[-1]
    table = fitted.predict(pd.concat([own, ahead(own, 1, 6, dose=dose)]))
    assert_same(fitted.predict(own, at=[own["t"].max() + 1 * HOUR, own["t"].max() + 6 * HOUR]), table)


def test_without_such_rows_the_steps_of_the_horizon_are_predicted(fitted, frame):
    own = one(frame)
    times = fitted.predict(own)["t"].unique()
    assert len(times) == fitted.horizon_ and times[-1] == own["t"].max() + 6 * HOUR


def test_known_future_values_change_the_forecast(fitted, frame):
    own = one(frame)
    low, high = (fitted.predict(pd.concat([own, ahead(own, 6, dose=dose)]))["mean"] for dose in (0.0, 1.0))
    assert (low != high).all()


@pytest.mark.parametrize("times", [[-1.0], [0.0], [7.0]])
def test_times_outside_the_horizon_are_refused(fitted, frame, times):
    own = one(frame)
    with pytest.raises(ValueError, match="Times to predict of series 's0' must be after"):
        fitted.predict(own, at=[own["t"].max() + hour * HOUR for hour in times])


@pytest.mark.parametrize("at", [[], "1h", "1500-01-01"])
def test_what_is_no_time_is_refused(fitted, frame, at):
    with pytest.raises(ValueError, match="`at` must (be times|have at least one time)"):
        fitted.predict(frame, at=at)


def test_the_order_of_rows_does_not_matter(fitted, frame):
    shuffled = frame.sample(frac=1, random_state=1)
    assert_same(fitted.predict(shuffled), fitted.predict(frame), rtol=0)
    assert_same(events().fit(shuffled).predict(frame), fitted.predict(frame), rtol=0)


def test_a_channel_that_was_never_observed_does_not_matter(frame):
    model, wide = instant(covariates=None), frame.assign(lab=np.nan)
    assert_same(model.fit(wide).predict(wide), model.fit(frame).predict(frame), rtol=0)


def test_a_column_that_the_model_does_not_know_does_not_matter(fitted, frame):
    assert_same(fitted.predict(frame.assign(lab=1.0)), fitted.predict(frame), rtol=0)


def test_a_series_in_two_frames_is_one_series(fitted, frame):
    early = frame["t"] < frame["t"].median()
    split = pd.concat([frame[~early], frame[early]])
    assert_same(events().fit(split).predict(split), fitted.predict(frame), rtol=0)


def test_targets_may_be_in_rows_of_their_own(fitted, frame):
    apart = pd.concat([frame.assign(HR=np.nan), frame[["stay", "t", "HR", "age"]]])
    assert_same(fitted.predict(apart), fitted.predict(frame), rtol=0)


def test_shifting_all_times_shifts_the_forecast(fitted, frame):
    week = pd.Timedelta("7D")  # calendar features stay
    later = fitted.predict(frame.assign(t=frame["t"] + week))
    assert_same(later.assign(t=later["t"] - week), fitted.predict(frame), rtol=0)


def test_shifting_times_that_are_numbers_shifts_the_forecast():
    frame = stays(dated=False)
    model = events(horizon="6", lookback="24").fit(frame)
    later = model.predict(frame.assign(t=frame["t"] + 1e4))
    assert_same(later.assign(t=later["t"] - 1e4), model.predict(frame), rtol=1e-6)


def test_fitting_to_shifted_times_gives_the_same_model(fitted, frame):
    week = pd.Timedelta("7D")
    later = events().fit(frame.assign(t=frame["t"] + week)).predict(frame)
    assert_same(later, fitted.predict(frame), rtol=0)


def test_observations_after_the_origin_change_nothing_before_them(fitted, frame):
    own = one(frame)
    past = own[own["t"] <= own["t"].quantile(0.7)]
    past = past[past["t"] <= past.loc[past["HR"].notna(), "t"].max()]
    rows, model, answers = fitted._forecasts, fitted.events_, []
    for known in (past, own, own.assign(HR=own["HR"].where(own["t"] <= past["t"].max(), 1e3))):
        read = read_events(known, fitted.columns_)
        origin = read.clock(np.array([past["t"].max().value]))
        asked = np.array([(past["t"].max() + 2 * HOUR).value])
        queries = model.asked_queries(read_events(past, fitted.columns_), np.array([0]), asked, np.array([1]))
        answers.append(rows.answers(model.rows(read, Origins(np.array([0]), origin, origin), queries, torch.float64)))
    for other in answers[1:]:
        torch.testing.assert_close(other.prediction.mean, answers[0].prediction.mean, rtol=0, atol=0)
        torch.testing.assert_close(other.offset, answers[0].offset, rtol=0, atol=0)


def test_a_forecast_does_not_depend_on_other_series(fitted, frame):
    table = fitted.predict(pd.concat([one(frame, f"s{k}") for k in range(3)]))
    alone = fitted.predict(one(frame, "s1"))
    assert_same(alone, table[table["stay"] == "s1"].reset_index(drop=True))


def test_an_unseen_series_is_forecast_from_its_first_observation(fitted, frame):
    first = one(frame).dropna(subset="HR").head(1).assign(stay="new", HR=150.0, MAP=np.nan)
    table = fitted.predict(first)
    assert np.isfinite(table["mean"]).all() and table.query("target == 'HR'")["mean"].mean() > 100


@pytest.fixture(scope="module")
def fitted_to_the_past():
    return events(known_future=None).fit(stays())


@pytest.mark.parametrize(
    ("hours", "message"),
    [
        (60, "target of series 's0' lies within the lookback, 1 days 00:00:00, before .*: the last is 2 days 12:00:00"),
        (24, "the last is 1 days 00:00:00 old. Forecasts fall back on the typical series"),
    ],
)
def test_an_origin_long_after_the_last_observation_is_a_warning(fitted_to_the_past, frame, hours, message):
    with pytest.warns(UserWarning, match=message):
        fitted_to_the_past.predict(pd.concat([one(frame), ahead(one(frame), hours), one(frame, "s1")]))


def test_an_observation_within_the_lookback_is_enough(fitted_to_the_past, frame):
    fitted_to_the_past.predict(pd.concat([one(frame), ahead(one(frame), 23.5)]))


def test_a_target_that_ends_before_the_covariates_is_a_warning(frame):
    late = frame["t"] > frame["t"].min() + 20 * HOUR
    model = instant(target="HR", covariates=["MAP"]).fit(frame)
    own = one(frame.assign(HR=frame["HR"].mask(late)))
    with pytest.warns(UserWarning, match="No observation of a target of series 's0'"):
        model.predict(own)


def test_a_series_that_varies_far_less_than_is_typical_is_named(fitted, frame):
    own = one(frame)
    small = own.assign(HR=own["HR"].mean() + (own["HR"] - own["HR"].mean()) / 100)
    with pytest.warns(UserWarning, match="Values of 'HR' of series 's0' have a standard deviation of .* convert"):
        fitted.predict(small, at=[own["t"].max() + HOUR])
    fitted.predict(own.assign(HR=80.0), at=[own["t"].max() + HOUR])  # a constant series does not warn
    short = small[small["t"] > small["t"].max() - 23 * HOUR]
    fitted.predict(short, at=[own["t"].max() + HOUR])  # nor one that was observed for less than the lookback


@pytest.mark.filterwarnings("ignore:No observation of a target")
def test_series_without_observations_are_forecast_as_beside_an_observed_one(fitted_to_the_past, frame):
    model = fitted_to_the_past
    empty = frame.assign(HR=np.nan, MAP=np.nan)
    beside = model.predict(pd.concat([empty, frame[frame["stay"] == "s0"].assign(stay="s9")]))
    assert_same(model.predict(empty), beside[beside["stay"] != "s9"])


def test_times_may_be_numbers_and_there_may_be_one_series():
    frame = stays(1, 150, dated=False).drop(columns="stay")
    model = instant(series=None, horizon="6", lookback="24", static=None, known_future=None).fit(frame)
    table = model.predict(frame)
    assert list(table)[:2] == ["t", "target"] and table["t"].iloc[0] > frame["t"].iloc[-1]


def test_a_single_target_has_no_column_of_targets(frame):
    table = instant(target="HR").fit(frame).predict(frame.dropna(subset="HR"))
    assert "target" not in table


def test_a_loaded_model_gives_the_same_forecasts_to_the_bit(fitted, frame, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = nsac.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(frame), fitted.predict(frame), check_exact=True)
    own = one(frame)
    np.testing.assert_array_equal(loaded.predict_samples(own, 4), fitted.predict_samples(own, 4))
    assert (loaded.encoding_, loaded.encoding_reason_) == (fitted.encoding_, fitted.encoding_reason_)


def test_shapes_have_an_axis_of_targets(fitted, frame):
    own, horizon = one(frame), fitted.horizon_
    assert fitted.predict_interval(own).shape == (1, 2, horizon, 2)
    assert fitted.predict_interval(own, [0.5, 0.9]).shape == (1, 2, 2, horizon, 2)
    assert fitted.predict_quantiles(own, [0.1, 0.5, 0.9]).shape == (1, 3, horizon, 2)
    assert fitted.predict_samples(own, 7).shape == (7, 1, horizon, 2)
    assert fitted.ood_score(frame).shape == (3,)


def test_interval_and_quantiles_agree_with_the_table(fitted, frame):
    own = one(frame)
    table = fitted.predict(own, quantiles=[0.3])
    np.testing.assert_allclose(fitted.predict_interval(own)[0].reshape(2, -1), table[["lower_90", "upper_90"]].T)
    np.testing.assert_allclose(fitted.predict_quantiles(own, [0.3])[0, 0].ravel(), table["quantile_30"])


def test_rows_to_predict_in_unequal_numbers_have_a_table_only(fitted, frame):
    rows = pd.concat([one(frame), ahead(one(frame), 6), one(frame, "s1")])
    assert len(fitted.predict(rows)) == 2 * (1 + fitted.horizon_)
    with pytest.raises(ValueError, match="same number of rows to predict for every series"):
        fitted.predict_interval(rows)


def test_what_needs_a_grid_is_refused(fitted, frame):
    with pytest.raises(ValueError, match="`historical_forecasts` needs a model with encoding='grid'"):
        fitted.historical_forecasts(frame)


def test_a_picture_has_a_panel_per_series_and_target(fitted, frame):
    from matplotlib import pyplot as plt

    figure = fitted.plot(frame)
    assert [axes.get_title(loc="left") for axes in figure.axes][:2] == ["stay s0, HR", "stay s0, MAP"]
    plt.close(figure)


def test_a_backtest_has_scores_per_target_beside_baselines(frame):
    table = instant().backtest(stays(4, 150), folds=1, by=["series", "lead_time"])
    assert list(table.columns[:6]) == ["fold", "target", "stay", "lead_time", "method", "forecasts"]
    assert set(table["method"]) >= {"half-mean", "persistence"}
    assert np.isfinite(table[["mse", "mae", "crps", "nll", "coverage_90", "width_90"]]).all(axis=None)


def test_forecasts_of_a_backtest_are_of_later_times_only():
    model, frame = instant(), stays(3, 150)
    first = frame["t"].quantile(0.6)
    fitted = model.fit(frame[frame["t"] < first])
    scored = fitted._forecasts.scored(frame[frame["t"] < first], frame, first.value)
    assert scored.times.min() >= first.value


@pytest.mark.filterwarnings(
    "ignore:Errors of different series"
)  # all have one daily cycle, which 12 steps do not learn
def test_ten_series_are_calibrated_by_series():
    assert instant().fit(stays(12, 30)).calibration_.by_series
    assert not instant().fit(stays(4, 60)).calibration_.by_series


def test_the_choice_is_explained(caplog, frame):
    with caplog.at_level(logging.INFO, logger="nsac"):
        model = instant(encoding="auto").fit(frame)
    assert model.encoding_ == "events"
    expected = "Encoding 'events' was chosen for several targets and static columns and known-future columns."
    assert model.encoding_reason_ == expected and expected in caplog.text


@pytest.mark.parametrize(
    ("option", "value"), [("target", ["HR", "MAP"]), ("static", ["age"]), ("known_future", ["dose"])]
)
def test_what_a_grid_cannot_take_is_refused(frame, option, value):
    plain = {"target": "HR", "static": None, "known_future": None, "method": "nsac"}
    with pytest.raises(ValueError, match="`encoding` must be 'events' or 'auto' for"):
        instant(**plain | {option: value, "encoding": "grid"}).fit(frame)


@pytest.mark.slow
def test_series_of_all_levels_are_forecast_at_their_own_scale():
    frame = sines()
    training = {"max_steps": 400, "batch_size": 32, "validate_every": 100}
    model = NSACForecaster(
        horizon="12", lookback="48", target="y", time="t", series="id", members=1, training=training, random_state=0
    ).fit(frame[frame.groupby("id").cumcount() < 340])
    assert model.encoding_ == "events"
    scored = model._forecasts.scored(frame, frame, None)
    late = frame.groupby("id").nth(340)["t"].to_numpy()
    for k in range(3):
        own = (scored.series == k) & (scored.times > late[k] + 12)
        error = (scored.y - scored.prediction.mean).abs().numpy()[own].mean()
        steps = frame.loc[frame["id"] == k, "y"].diff().abs().mean()
        assert error < steps


def test_an_export_is_refused(fitted):
    with pytest.raises(ValueError, match="A model with encoding='events' cannot be exported"):
        make_graph(fitted, 0.9)


@pytest.mark.parametrize(
    "changes",
    [
        {"problem.channels": 100_000},
        {"problem.channels": 2},
        {"problem.static_dim": 3},
        {"problem.future_dim": 0},
        {"problem.kind": "windows"},
        {"own.targets": ["HR"]},
        {"own.covariates": ["a", "b"]},
        {"own.horizon": 0},
        {"own.horizon_length": -1.0},
        {"own.cycles": ["century"]},
        {"own.static": []},
        {"parameters.target": "HR"},
        {"parameters.method": "half-mean"},
    ],
    ids=str,
)
def test_a_folder_with_sizes_that_are_not_those_of_its_tensors_is_refused(fitted, tmp_path, changes):
    fitted.save(tmp_path / "model")
    config, tensors = read_model(tmp_path / "model")
    for place, value in changes.items():
        head, key = place.split(".")
        assert key in config[head]
        config[head][key] = value
    write_model(tmp_path / "forged", config, tensors)
    with pytest.raises(ModelError):
        nsac.load(tmp_path / "forged")


@pytest.mark.parametrize("name", ["own.scale.std", "own.known_std", "own.static_std", "own.scale.mean"])
def test_scales_that_are_not_numbers_above_0_are_refused(fitted, tmp_path, name):
    fitted.save(tmp_path / "model")
    config, tensors = read_model(tmp_path / "model")
    write_model(tmp_path / "forged", config, tensors | {name: torch.full_like(tensors[name], torch.nan)})
    with pytest.raises(ModelError):
        nsac.load(tmp_path / "forged")


def test_margins_by_missing_channels_are_saved(fitted, frame, tmp_path):
    fitted.save(tmp_path / "model")
    again, patterns = nsac.load(tmp_path / "model").calibration_, fitted.calibration_.patterns
    assert patterns.learned.tolist() == [True, True]  # the dose is known in advance
    assert torch.equal(again.margins(0.9), fitted.calibration_.margins(0.9))


@pytest.mark.parametrize("change", [{"learned": torch.ones(3, dtype=torch.bool)}, {"counts": None}, {"classes": None}])
def test_patterns_that_are_not_those_of_the_channels_are_refused(fitted, tmp_path, change):
    fitted.save(tmp_path / "model")
    config, tensors = read_model(tmp_path / "model")
    for name, value in change.items():
        place = f"calibration.{name if name == 'classes' else f'patterns.{name}'}"
        tensors[place] = tensors[place][:0] if value is None else value
    if "learned" in change:
        tensors["calibration.patterns.frequent"] = torch.zeros(0, 3, dtype=torch.bool)
    write_model(tmp_path / "forged", config, tensors)
    with pytest.raises(ModelError):
        nsac.load(tmp_path / "forged")


def test_a_forecaster_whose_fit_failed_is_not_fitted(frame):
    model = events()
    with pytest.raises(ValueError, match="must vary"):
        model.fit(frame.assign(HR=frame["HR"].where(frame["HR"].isna(), 1.0)))
    with pytest.raises(NotFittedError):
        model.predict(frame)
