"""Claims about forecasts of events at steps of a calendar, in time zones, and at times that are rounded."""

import numpy as np
import pandas as pd
import pytest

from nsac import NSACForecaster

TRAINING = {"max_steps": 3, "batch_size": 16, "validate_every": 3}


def walk(rows, seed=0):
    return np.cumsum(np.random.default_rng(seed).normal(size=rows))


def two_targets(times):
    return pd.DataFrame({"t": times, "a": walk(len(times)), "b": walk(len(times), 1)})


def model(horizon, lookback, **options):
    defaults = {"target": ["a", "b"], "time": "t", "method": "half-mean", "members": 1, "random_state": 0}
    return NSACForecaster(horizon, lookback, **{**defaults, "training": TRAINING, **options})


@pytest.mark.parametrize(("horizon", "days"), [(1, ["01-02"]), (3, ["01-02", "01-03", "01-04"])])
def test_steps_of_business_days_are_business_days(horizon, days):
    frame = two_targets(pd.bdate_range("2022-01-03", periods=300))
    fitted = model(horizon, 20).fit(frame)
    table = fitted.predict(frame[frame["t"] <= "2022-12-30"])  # a Friday
    assert table["t"].drop_duplicates().dt.strftime("%m-%d").tolist() == days


def test_a_duration_ends_before_the_next_business_day():
    frame = two_targets(pd.bdate_range("2022-01-03", periods=300))
    table = model("2D", 20).fit(frame).predict(frame[frame["t"] <= "2022-12-29"])  # a Thursday
    assert table["t"].tolist() == [pd.Timestamp("2022-12-30")] * 2


def test_lead_times_of_months_are_months():
    frame = two_targets(pd.date_range("1990-01-01", periods=200, freq="MS"))
    fitted = model(12, 24).fit(frame)
    scored = fitted._forecasts.scored(frame, frame, None)
    count = pd.Series(scored.lead_time[scored.target == "a"]).value_counts().sort_index()
    assert count.index.tolist() == list(range(1, 13)) and count.tolist() == list(range(199, 187, -1))


@pytest.mark.parametrize("step", [1.0, 0.1, 1 / 24])
def test_rounded_times_do_not_lose_the_last_lead_time(step):
    frame = two_targets(1e4 + step * np.arange(200))
    fitted = model(4, 16).fit(frame)
    scored = fitted._forecasts.scored(frame, frame, None)
    assert pd.Series(scored.lead_time).value_counts().loc[4] == 2 * (200 - 4)


def test_the_zone_of_the_same_instants_does_not_matter():
    times = pd.date_range("2023-01-01", periods=400, freq="h", tz="Europe/Berlin")
    frame = two_targets(times)[np.random.default_rng(0).random(400) < 0.5]
    fitted = model(6, 24, method="nsac", num_samples=5).fit(frame)
    elsewhere = frame.assign(t=frame["t"].dt.tz_convert("Asia/Tokyo"))
    pd.testing.assert_frame_equal(fitted.predict(elsewhere), fitted.predict(frame))


def test_numbers_that_look_like_dates_stay_numbers():
    frame = two_targets(np.arange(199900, 200113.0))  # 199900 is no month, the latest ones are
    fitted = model(3, 20).fit(frame)
    assert fitted.predict(frame[frame["t"] >= 200101], at=[200114.0])["t"].tolist() == [200114.0] * 2


def test_rows_without_a_target_at_the_end_are_a_warning():
    frame = two_targets(np.arange(300.0)).rename(columns={"b": "covariate"})
    fitted = model(6, 24, target="a", encoding="events").fit(frame)
    late = frame.assign(a=frame["a"].where(frame["t"] < 294))
    with pytest.warns(UserWarning, match="The last 6 rows have no target: forecasts begin after 299"):
        table = fitted.predict(late)
    assert table["t"].min() == 300
    fitted.predict(frame.assign(a=frame["a"].where(frame["t"] < 298)))  # two rows are usual


def test_a_seasonal_baseline_knows_nothing_of_later_errors():
    times = pd.date_range("2023-01-01", periods=960, freq="h")
    frame = two_targets(times)
    noise = np.where(np.arange(960) < 480, 0.2, 4.0) * np.random.default_rng(0).normal(size=960)
    frame["a"] = 10 * np.sin(2 * np.pi * np.arange(960) / 24) + noise
    scores = model(6, 48).backtest(frame, 1).set_index(["target", "method"])
    assert scores.loc[("a", "seasonal"), "coverage_90"] < 0.6


def test_scores_by_series_need_series():
    frame = two_targets(np.arange(100.0))
    with pytest.raises(ValueError, match="`by='series'` needs several series"):
        model(3, 12).backtest(frame, 1, by="series")


@pytest.mark.parametrize("name", ["method", "fold", "target"])
def test_scores_by_series_refuse_a_series_column_with_the_name_of_another(name):
    frame = two_targets(np.arange(100.0)).assign(**{name: "s"})
    with pytest.raises(ValueError, match=f"must not be a column of the scores.*Got '{name}'"):
        model(3, 12, series=name).backtest(frame, 1, by="series")


def test_scores_by_series_take_names_that_are_free():
    frame = two_targets(np.arange(100.0)).assign(lead_time="s")
    forecaster = model(3, 12, target="a", covariates=[], series="lead_time", encoding="events")
    assert "lead_time" in forecaster.backtest(frame, 1, by="series")


def test_text_that_reads_as_numbers_is_drawn_as_numbers():
    frame = two_targets(np.arange(100.0))
    fitted = model(3, 12).fit(frame)
    axis = fitted.plot(frame.assign(a=frame["a"].map("{:.3f}".format))).axes[0]
    low, high = axis.get_ylim()
    assert low < frame["a"].iloc[-10:].min() and high > frame["a"].iloc[-10:].max()


def test_a_static_column_with_one_number_among_texts_has_categories():
    frames = [two_targets(np.arange(60.0)).assign(id=k, ward=["A", "B", "12"][k % 3]) for k in range(3)]
    fitted = model(3, 12, series="id", static=["ward"]).fit(pd.concat(frames))
    assert fitted.columns_.categories == (("12", "A", "B"),)


def test_whole_numbers_among_categories_have_no_decimal_point():
    frames = [two_targets(np.arange(60.0)).assign(id=k, ward=["A", 1, 2][k % 3]) for k in range(3)]
    frame = pd.concat(frames)
    fitted = model(3, 12, series="id", static=["ward"]).fit(frame)
    assert fitted.columns_.categories == (("1", "2", "A"),)
    as_floats = frame.assign(ward=frame["ward"].map(lambda v: float(v) if isinstance(v, int) else v))
    pd.testing.assert_frame_equal(fitted.predict(as_floats), fitted.predict(frame))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 3}, "`target` must be the name of a column, or a list of names. Got 3"),
        ({"target": None}, "`target` must be the name of a column, or a list of names. Got None"),
        ({"covariates": 5}, "`covariates` must be the name of a column, or a list of names. Got 5"),
        ({"time": ["t"]}, r"`time` must be the name of a column. Got \['t'\]"),
        ({"series": ["id"]}, r"`series` must be the name of a column. Got \['id'\]"),
        ({"target": ["a", "a"]}, "`target` must be different columns. Got 'a' more than once"),
        ({"training": [1]}, r"`training` must be a dictionary.*Got \[1\]"),
    ],
)
def test_arguments_that_name_no_column_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        model(3, 12, **options).fit(two_targets(np.arange(100.0)))


def test_wrong_arguments_of_predictions_are_refused_by_name(tmp_path):
    frame = two_targets(np.arange(100.0))
    fitted = model(3, 12).fit(frame)
    for wrong in ("0.9", None, ["a"]):
        with pytest.raises(ValueError, match="`coverage` must be a number strictly between 0 and 1, or a list"):
            fitted.predict_interval(frame, wrong)
    with pytest.raises(ValueError, match="`random_state` must be a whole number"):
        fitted.predict_samples(frame, 10, random_state=None)
    with pytest.raises(ValueError, match="`path` must be a .png, .pdf or .svg file"):
        fitted.plot(frame, tmp_path / "picture.xyz")
    with pytest.raises(ValueError, match="`folds` must leave 2 rows or more.*Got 50 for 100 rows"):
        fitted.backtest(frame, 50)
