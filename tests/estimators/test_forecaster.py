"""Claims about the forecaster that hold for small series; scores on real data are in benchmarks/forecast.py."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import nsac
from nsac.estimators.files import read_model, write_model
from support.series import STEP, daily_cycle, forecaster, irregular_series, ridge


@pytest.fixture(scope="module")
def fitted():
    return forecaster().fit(daily_cycle())


@pytest.fixture
def frame():
    return daily_cycle()


def test_the_table_has_times_moments_and_an_interval(fitted, frame):
    table = fitted.predict(frame)
    assert list(table) == ["t", "mean", "std", "aleatoric", "epistemic", "lower_90", "upper_90"]


def test_it_forecasts_the_steps_after_the_last_row(fitted, frame):
    assert fitted.predict(frame)["t"].tolist() == [frame["t"].iloc[-1] + h * STEP for h in range(1, 7)]


def test_the_variance_is_the_sum_of_its_two_kinds(fitted, frame):
    table = fitted.predict(frame)
    np.testing.assert_allclose(table["std"] ** 2, table["aleatoric"] + table["epistemic"])


def test_the_mean_is_inside_the_interval(fitted, frame):
    table = fitted.predict(frame)
    assert (table["lower_90"] < table["mean"]).all() and (table["mean"] < table["upper_90"]).all()


def test_forecasts_are_in_the_unit_of_the_target(fitted, frame):
    assert fitted.predict(frame)["mean"].between(5, 15).all()


def test_columns_of_the_interval_are_named_by_its_coverage(fitted, frame):
    assert set(fitted.predict(frame, coverage=0.5)) >= {"lower_50", "upper_50"}


def test_the_distribution_agrees_with_the_table(fitted, frame):
    table, p = fitted.predict(frame), fitted.predict_distribution(frame)
    np.testing.assert_allclose(p.mean[0], table["mean"])
    np.testing.assert_allclose(p.std[0], table["std"])


def test_the_interval_agrees_with_the_table(fitted, frame):
    interval = fitted.predict_interval(frame)
    assert interval.shape == (1, 2, 6)
    np.testing.assert_allclose(interval[0], fitted.predict(frame)[["lower_90", "upper_90"]].T)


def test_several_coverages_give_an_interval_each(fitted, frame):
    intervals = fitted.predict_interval(frame, coverage=[0.5, 0.9])
    assert intervals.shape == (1, 2, 2, 6)
    np.testing.assert_array_equal(intervals[:, 1], fitted.predict_interval(frame, coverage=0.9))


def test_a_coverage_of_one_is_refused(fitted, frame):
    with pytest.raises(ValueError, match="`coverage` must be"):
        fitted.predict_interval(frame, coverage=[0.9, 1.0])


def test_quantiles_ascend(fitted, frame):
    quantiles = fitted.predict_quantiles(frame, [0.1, 0.5, 0.9])
    assert quantiles.shape == (1, 3, 6) and (np.diff(quantiles, axis=1) > 0).all()


def test_quantiles_are_the_median_and_an_interval_of_80_percent_by_default(fitted, frame):
    np.testing.assert_array_equal(fitted.predict_quantiles(frame), fitted.predict_quantiles(frame, (0.1, 0.5, 0.9)))


def test_only_the_latest_rows_matter(fitted, frame):
    pd.testing.assert_frame_equal(fitted.predict(frame), fitted.predict(frame.tail(12)))


def test_a_short_frame_is_enough_and_a_model_of_complete_windows_warns_of_it(fitted, frame):
    with pytest.warns(UserWarning, match="3 of the 12 values of 'y' before the forecast are known"):
        assert np.isfinite(fitted.predict(frame.tail(3))["mean"]).all()


def test_a_new_series_is_forecast_from_its_first_value():
    series = [daily_cycle(60, i).assign(id=str(i)) for i in range(3)]
    model = ridge(series="id").fit(pd.concat(series[:2]))
    assert model.problem_.missing  # although no value is missing
    assert np.isfinite(model.predict(series[2].head(1))["mean"]).all()  # without a warning


def test_values_may_be_missing_at_prediction_only(fitted, frame):
    frame.loc[frame.index[-3:], "a"] = np.nan
    frame.loc[frame.index[-1], "y"] = np.nan
    with pytest.warns(UserWarning, match="The last value of 'y' is missing"):
        assert np.isfinite(fitted.predict(frame.drop(index=frame.index[-5]))["mean"]).all()


@pytest.mark.parametrize("name", ["mean", "lower_90", "upper_90", "quantile_30"])
def test_forecasts_between_steps_are_interpolated(fitted, frame, name):
    last, steps = frame["t"].iloc[-1], fitted.predict(frame, quantiles=[0.3])
    at = [last + 2 * STEP, last + 2.5 * STEP, last + pd.Timedelta("1s")]
    values = fitted.predict(frame, at=at, quantiles=[0.3])[name]
    first = frame["y"].iloc[-1] + steps[name][0] - steps["mean"][0]
    expected = [steps[name][1], steps[name][1:3].mean(), first]
    np.testing.assert_allclose(values, expected, atol=1e-2)  # the last time is a second after the last row


def test_the_noise_before_the_first_step_is_that_of_the_first_step(fitted, frame):
    steps, last = fitted.predict(frame), frame["t"].iloc[-1]
    soon = fitted.predict(frame, at=[last + pd.Timedelta("1s"), last + 0.5 * STEP])
    np.testing.assert_allclose(soon["upper_90"] - soon["lower_90"], steps["upper_90"][0] - steps["lower_90"][0])
    np.testing.assert_allclose(soon["aleatoric"], steps["aleatoric"][0])
    assert (soon["epistemic"] < steps["epistemic"][0]).all()


def test_the_same_seed_gives_the_same_forecasts_to_the_bit(fitted, frame):
    pd.testing.assert_frame_equal(forecaster().fit(frame).predict(frame), fitted.predict(frame), check_exact=True)


def test_a_loaded_model_gives_the_same_forecasts_to_the_bit(fitted, frame, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = nsac.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(frame), fitted.predict(frame), check_exact=True)


def test_numbers_of_numpy_are_saved_as_numbers(tmp_path):
    model = ridge(horizon=np.int64(3), random_state=np.int64(0)).set_params(members=np.int64(1))
    model.fit(daily_cycle(200)).save(tmp_path / "model")
    assert nsac.load(tmp_path / "model").get_params()["horizon"] == 3


def test_the_unit_of_the_target_does_not_matter(fitted, frame):
    scaled = frame.assign(y=1000 * frame["y"] - 7)
    table, same = forecaster().fit(scaled).predict(scaled), fitted.predict(frame)
    np.testing.assert_allclose(table["mean"], 1000 * same["mean"] - 7, rtol=1e-3)
    np.testing.assert_allclose(table["std"], 1000 * same["std"], rtol=1e-2)


def test_times_may_be_irregular_and_values_missing():
    frame = irregular_series()
    model = forecaster().fit(frame)
    assert model.irregular_ and np.isfinite(model.predict(frame).drop(columns="t")).all(axis=None)


@pytest.mark.parametrize("name", ["gmle", "der", "ridge", "persistence", "seasonal"])
def test_every_method_can_forecast(name, frame):
    assert np.isfinite(forecaster(method=name, members=1).fit(frame).predict(frame)["std"]).all()


@pytest.mark.parametrize(("lookback", "horizon"), [(1, 1), (1, 5), (2, 3), (40, 20)])
def test_windows_may_be_short_or_long(lookback, horizon, frame):
    table = ridge(lookback=lookback, horizon=horizon).fit(frame).predict(frame)
    assert len(table) == horizon and np.isfinite(table["upper_90"]).all()


@pytest.fixture(scope="module")
def three_series():
    series = [daily_cycle(120, seed=s).assign(id=f"s{s}", t=np.arange(120) * 0.5 + s) for s in range(3)]
    frame = pd.concat(series).sort_values("t").drop(columns="a")
    return frame, forecaster(series="id").fit(frame)


def test_times_may_be_numbers(three_series):
    frame, model = three_series
    assert model.step_ == 0.5 and model.cycles_ == []
    assert model.predict(frame)["t"].iloc[0] == frame["t"][frame["id"] == "s0"].max() + 0.5


def test_every_series_has_its_forecast(three_series):
    frame, model = three_series
    assert model.predict(frame)["id"].tolist() == [f"s{s}" for s in range(3) for _ in range(6)]


def test_a_forecast_does_not_depend_on_other_series(three_series):
    frame, model = three_series
    table, alone = model.predict(frame), model.predict(frame[frame["id"] == "s1"])
    np.testing.assert_allclose(alone["mean"], table["mean"][table["id"] == "s1"])


def test_every_series_has_an_ood_score(three_series):
    frame, model = three_series
    scores = model.ood_score(frame)
    assert scores.shape == (3,) and (scores > 0).all()


def test_the_ood_score_is_the_epistemic_standard_deviation_of_the_standardised_forecast_of_the_members(fitted, frame):
    _, windows, _ = fitted._forecasts.latest(frame)
    p = fitted._draws(windows)
    assert len(windows) == 1
    np.testing.assert_allclose(fitted.ood_score(frame), p.epistemic.mean(1).sqrt())


def test_a_method_without_epistemic_uncertainty_has_no_ood_score(frame):
    with pytest.raises(ValueError, match="`members` must be above 1. Got 'ridge' and 1 instead"):
        ridge().fit(frame).ood_score(frame)


def test_the_time_zone_is_kept(frame):
    frame["t"] = frame["t"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    times = ridge().fit(frame).predict(frame)["t"]
    assert str(times.dt.tz) == "Asia/Tokyo" and times.iloc[0] == frame["t"].iloc[-1] + STEP


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"target": "z"}, {}, "`target` must name a column of the frame. Got 'z'"),
        ({}, {"y": 3.0}, "Target column 'y' must vary. It is 3 in every row"),
        ({}, {"a": np.nan}, "Column 'a' must have a value in at least one row"),
        ({"horizon": 300}, {}, r"no longer than the data. Got 12 \+ 300 = 312 steps"),
        ({"horizon": 0}, {}, "`horizon` must be a whole number of at least 1"),
        ({"members": 0}, {}, "`members` must be a whole number of at least 1"),
        ({"num_samples": 0}, {}, "`num_samples` must be a whole number of at least 1"),
        ({"method": "mean field"}, {}, "`method` must be one of"),
        ({"step": "soon"}, {}, "`step` must be a text such as '15min'"),
        ({"step": "1min"}, {}, "longest stretch without a long gap has 1 steps of 0 days 00:01:00"),
    ],
)
def test_arguments_and_frames_that_cannot_be_fitted_are_refused(frame, options, change, message):
    with pytest.raises(ValueError, match=message):
        forecaster(**options).fit(frame.assign(**change))


def test_a_clone_is_not_fitted(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params() and not hasattr(copy, "members_")


def test_the_index_may_hold_the_times(fitted, frame):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pd.testing.assert_frame_equal(fitted.predict(frame.set_index("t")), fitted.predict(frame))


def test_the_global_random_state_does_not_change(fitted, frame):
    before = torch.get_rng_state()
    fitted.predict(frame)
    assert torch.equal(before, torch.get_rng_state())


def test_folds_is_a_deprecated_name_of_members(frame):
    with pytest.warns(FutureWarning, match="`?folds`?.*`members`"):
        model = forecaster(method="ridge", members=5, folds=2).fit(frame)
    assert len(model.members_) == 2


def test_a_model_saved_with_folds_is_loaded_with_members(frame, tmp_path):
    model = ridge().fit(frame)
    model.save(tmp_path / "new")
    config, tensors = read_model(tmp_path / "new")
    del config["parameters"]["members"], config["parameters"]["num_samples"]
    write_model(tmp_path / "old", config | {"parameters": config["parameters"] | {"folds": 1}}, tensors)
    assert nsac.load(tmp_path / "old").get_params() == model.get_params()


def test_a_model_of_the_previous_version_predicts_the_same():
    folder, frame = Path(__file__).with_name("saved") / "forecaster-1", daily_cycle(290)
    table = nsac.load(folder / "model").predict(frame).drop(columns="t")
    expected = pd.DataFrame(json.loads((folder / "predicted.json").read_text()))
    pd.testing.assert_frame_equal(table, expected, rtol=1e-12, atol=0)  # another machine may round differently


def test_track_is_a_deprecated_name_of_update_report(frame):
    model = ridge().fit(frame.head(240))
    with pytest.warns(FutureWarning, match="update_report"):
        table = model.track(frame)
    assert table["judged"].tolist() == [20] * 6


def test_forecasts_is_a_deprecated_name_of_historical_forecasts(fitted, frame):
    with pytest.warns(FutureWarning, match="historical_forecasts"):
        forecasts = fitted.forecasts(frame, most=3)
    assert torch.equal(forecasts.lower, fitted.historical_forecasts(frame, max_origins=3).lower)


def test_a_table_has_an_interval_for_each_coverage(fitted, frame):
    table = fitted.predict(frame, coverage=[0.5, 0.9])
    assert list(table)[-4:] == ["lower_50", "upper_50", "lower_90", "upper_90"]
    pd.testing.assert_series_equal(table["upper_50"], fitted.predict(frame, coverage=0.5)["upper_50"])


@pytest.fixture(scope="module")
def monthly():
    frame = daily_cycle(150)
    return frame.assign(t=pd.date_range("2010-01-01", periods=150, freq="MS"))


@pytest.fixture(scope="module")
def monthly_model(monthly):
    return ridge().fit(monthly.head(120))


def test_month_starts_are_forecast_at_the_next_month_starts(monthly, monthly_model):
    assert monthly_model.predict(monthly.head(120))["t"].tolist() == monthly["t"].iloc[120:126].tolist()


def test_a_late_row_does_not_delay_the_forecasts(monthly, monthly_model):
    late = monthly.assign(t=monthly["t"].where(monthly.index != 149, pd.Timestamp("2022-06-03 17:00")))
    assert monthly_model.predict(late)["t"].iloc[:2].tolist() == [
        pd.Timestamp("2022-07-01"),
        pd.Timestamp("2022-08-01"),
    ]


def test_business_days_are_forecast_without_weekends(frame):
    dates = pd.Series(pd.date_range("2024-01-01", periods=266, freq="B"))
    frame = frame.assign(t=dates.head(260))
    assert ridge().fit(frame).predict(frame)["t"].tolist() == dates.tail(6).tolist()


def test_a_loaded_model_has_the_same_calendar(monthly, monthly_model, tmp_path):
    monthly_model.save(tmp_path / "model")
    forecasts = monthly_model.predict(monthly)
    pd.testing.assert_frame_equal(nsac.load(tmp_path / "model").predict(monthly), forecasts, check_exact=True)


def test_times_between_months_can_be_forecast(monthly, monthly_model):
    steps = monthly_model.predict(monthly)
    first, second = steps["t"].iloc[:2]
    middle = monthly_model.predict(monthly, at=[first + (second - first) / 2])["mean"].iloc[0]
    assert middle == pytest.approx(steps["mean"].iloc[:2].mean())


def test_historical_forecasts_of_months_have_the_times_of_the_rows(monthly, monthly_model):
    forecasts = monthly_model.historical_forecasts(monthly, since=monthly["t"].iloc[100])
    assert forecasts.times[0].tolist() == [time.value for time in monthly["t"].iloc[100:106]]
    np.testing.assert_allclose(forecasts.y[0], monthly["y"].iloc[100:106])


def test_months_can_be_streamed_and_backtested(monthly):
    model = ridge().fit(monthly.head(120))
    assert model.update_report(monthly)["forecasts"].tolist() == [30] * 6
    assert set(ridge().backtest(monthly, folds=1)["method"]) >= {"ridge", "persistence", "seasonal"}


def test_predict_reads_dates_as_fit_did(monthly, tmp_path):
    frame = monthly.assign(t=monthly["t"].dt.strftime("%d/%m/%Y"))
    with pytest.raises(ValueError, match="ambiguous"):
        ridge().fit(frame)
    ridge(dayfirst=True).fit(frame).save(tmp_path / "model")
    assert nsac.load(tmp_path / "model").predict(frame)["t"].iloc[0] == pd.Timestamp("2022-07-01")


def test_a_format_is_remembered(monthly):
    model = ridge(time_format="%d-%m-%Y").fit(monthly.assign(t=monthly["t"].dt.strftime("%d-%m-%Y")))
    assert model.predict(monthly.tail(20).assign(t=monthly["t"].dt.strftime("%d-%m-%Y"))).equals(model.predict(monthly))


def test_whole_numbers_that_are_dates_are_noted_once(frame):
    numbers = frame.assign(t=pd.date_range("2020-01-01", periods=260).strftime("%Y%m%d").astype(int))
    with pytest.warns(UserWarning, match="read as dates of the format %Y%m%d"):
        model = ridge().fit(numbers)
    assert model.predict(numbers)["t"].iloc[0] == pd.Timestamp("2020-09-17")


@pytest.mark.parametrize(
    ("options", "message"), [({"dayfirst": "yes"}, "dayfirst"), ({"time_format": 3}, "time_format")]
)
def test_a_reading_of_another_type_is_refused(frame, options, message):
    with pytest.raises(ValueError, match=f"`{message}` must be"):
        ridge(**options).fit(frame)


@pytest.mark.filterwarnings("ignore:The last 5 values")
def test_rows_at_the_end_with_covariates_and_no_target_are_noted(fitted, frame):
    frame.loc[255:, "y"] = np.nan
    with pytest.warns(
        UserWarning, match="The last 5 rows have values of covariates but no 'y'.* from 2024-01-11 20:00:00"
    ):
        fitted.predict(frame)


def test_rows_at_the_end_without_any_value_are_no_future_covariates(fitted, frame):
    frame.loc[255:, ["y", "a"]] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted.predict(frame)
    assert not [warning for warning in caught if "covariates" in str(warning.message)]


@pytest.mark.parametrize("factor", [1e160, 1e-300])
def test_a_target_of_an_extreme_unit_is_refused(frame, factor):
    with pytest.raises(ValueError, match="Column 'y' must .* Choose another unit"):
        ridge().fit(frame.assign(y=frame["y"] * factor))


@pytest.mark.parametrize("factor", [1e95, 1e-95])
def test_a_target_of_a_large_or_small_unit_is_forecast(frame, factor):
    frame = frame.assign(y=frame["y"] * factor)
    assert (ridge().fit(frame).predict(frame)["mean"] / factor).between(5, 15).all()


def test_few_rows_at_uneven_times_are_too_few():
    frame = pd.DataFrame({"t": [0.09, 1.0, 2.9, 3.2, 3.3], "y": range(5)})
    with pytest.raises(ValueError, match="`frame` must have at least 20 observations"):
        forecaster(horizon="6", lookback="24", encoding="auto").fit(frame)


def test_horizon_and_lookback_may_be_durations(frame):
    model = ridge(horizon="6h", lookback="0.5 days").fit(frame)
    assert (model.horizon_, model.lookback_) == (6, 12)
    pd.testing.assert_frame_equal(model.predict(frame), ridge().fit(frame).predict(frame), check_exact=True)


def test_a_duration_between_steps_is_rounded_up(frame):
    assert ridge(horizon="330min").fit(frame).horizon_ == 6


def test_a_duration_of_times_that_are_numbers_is_a_number_as_text(frame):
    frame["t"] = np.arange(len(frame)) / 4
    assert ridge(horizon="1.5").fit(frame).horizon_ == 6


def test_a_model_with_durations_can_be_loaded(frame, tmp_path):
    model = ridge(horizon="6h", lookback="12h").fit(frame)
    model.save(tmp_path / "model")
    loaded = nsac.load(tmp_path / "model")
    assert loaded.horizon == "6h"
    pd.testing.assert_frame_equal(loaded.predict(frame), model.predict(frame), check_exact=True)


@pytest.mark.parametrize("horizon", ["soon", "-1h", "", "nan", "24", "3M", "3MS"])
def test_a_text_that_is_no_duration_is_refused(frame, horizon):
    with pytest.raises(ValueError, match="`horizon` must be a number of steps, or a duration such as '24h'"):
        ridge(horizon=horizon).fit(frame)


def test_the_table_may_have_quantiles(fitted, frame):
    table = fitted.predict(frame, quantiles=[0.1, 0.5])
    np.testing.assert_allclose(table["quantile_10"], fitted.predict_quantiles(frame, 0.1)[0, 0])
    assert (table["quantile_10"] < table["quantile_50"]).all()


def test_one_quantile_may_be_a_number(fitted, frame):
    pd.testing.assert_frame_equal(fitted.predict(frame, quantiles=0.5), fitted.predict(frame, quantiles=[0.5]))


def test_a_quantile_that_is_no_probability_is_refused_by_its_name(fitted, frame):
    for predict in (fitted.predict, fitted.predict_quantiles):
        with pytest.raises(ValueError, match="`quantiles` must be strictly between 0 and 1. Got 50.0 instead"):
            predict(frame, quantiles=50)
