"""The forecaster: what it promises on small records; how well it does on real ones is in benchmarks/forecast.py."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import nsac
from nsac import NSACForecaster
from nsac.estimators.stream import LEVELS, Stream

SHORT = {"max_steps": 20, "batch_size": 32, "validate_every": 10}
SIZES = {"horizon": 6, "lookback": 12, "target": "y", "time": "t"}
STEP = pd.Timedelta("1h")


def record(rows=260, seed=0, **columns):
    random = np.random.default_rng(seed)
    times = pd.date_range("2024-01-01", periods=rows, freq="h")
    y = 10 + np.sin(np.arange(rows) * 2 * np.pi / 24) + 0.1 * random.normal(size=rows)
    return pd.DataFrame({"t": times, "y": y, "a": random.normal(size=rows), **columns})


def forecaster(**options):
    return NSACForecaster(**{**SIZES, "folds": 2, "training": SHORT, "random_state": 0, **options})


@pytest.fixture(scope="module")
def fitted():
    return forecaster().fit(record())


def test_it_forecasts_the_steps_after_the_last_row(fitted):
    frame = record()
    out = fitted.predict(frame)
    assert list(out) == ["t", "mean", "std", "aleatoric", "epistemic", "lower_90", "upper_90"]
    assert out["t"].tolist() == [frame["t"].iloc[-1] + h * STEP for h in range(1, 7)]
    np.testing.assert_allclose(out["std"] ** 2, out["aleatoric"] + out["epistemic"])
    assert (out["lower_90"] < out["mean"]).all() and (out["mean"] < out["upper_90"]).all()
    assert out["mean"].between(5, 15).all()
    assert set(fitted.predict(frame, coverage=0.5)) >= {"lower_50", "upper_50"}


def test_other_forms_agree_with_the_table(fitted):
    frame = record()
    out, p = fitted.predict(frame), fitted.predict_distribution(frame)
    np.testing.assert_allclose(p.mean[0], out["mean"])
    np.testing.assert_allclose(p.std[0], out["std"])
    interval = fitted.predict_interval(frame)
    assert interval.shape == (1, 2, 6)
    np.testing.assert_allclose(interval[0], out[["lower_90", "upper_90"]].T)
    quantiles = fitted.predict_quantiles(frame, [0.1, 0.5, 0.9])
    assert quantiles.shape == (1, 3, 6) and (np.diff(quantiles, axis=1) > 0).all()


def test_only_the_latest_rows_matter(fitted):
    frame = record()
    pd.testing.assert_frame_equal(fitted.predict(frame), fitted.predict(frame.tail(12)))
    assert np.isfinite(fitted.predict(frame.tail(3))["mean"]).all()


def test_a_hole_at_prediction_is_no_obstacle(fitted):
    frame = record()
    frame.loc[frame.index[-3:], "a"] = np.nan
    frame.loc[frame.index[-1], "y"] = np.nan
    assert np.isfinite(fitted.predict(frame.drop(index=frame.index[-5]))["mean"]).all()
    frame.loc[frame.index[-12:], "y"] = np.nan
    with pytest.raises(ValueError, match="Column 'y' must have a value in the last 12 steps"):
        fitted.predict(frame)


def test_any_time_within_the_horizon_can_be_asked_for(fitted):
    frame = record()
    last, whole = frame["t"].iloc[-1], fitted.predict(frame)
    out = fitted.predict(frame, at=[last + 2 * STEP, last + 2.5 * STEP, last + pd.Timedelta("1s")])
    assert out["t"].iloc[1] == last + 2.5 * STEP
    for name in ("mean", "lower_90", "upper_90"):
        assert out[name].iloc[0] == pytest.approx(whole[name].iloc[1])
        assert out[name].iloc[1] == pytest.approx(whole[name].iloc[1:3].mean())
        assert out[name].iloc[2] == pytest.approx(frame["y"].iloc[-1], abs=1e-2)
    assert out["std"].iloc[2] < 1e-2
    for bad in (last, last + 6.5 * STEP):
        with pytest.raises(ValueError, match="`at` must be after .* no later than"):
            fitted.predict(frame, at=bad)
    with pytest.raises(ValueError, match="`at` must be dates without a zone"):
        fitted.predict(frame, at=3.0)


def test_the_same_seed_gives_the_same_bits_and_a_loaded_model_too(fitted, tmp_path):
    frame = record()
    pd.testing.assert_frame_equal(forecaster().fit(frame).predict(frame), fitted.predict(frame), check_exact=True)
    fitted.save(tmp_path / "model")
    loaded = nsac.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(frame), fitted.predict(frame), check_exact=True)
    later = record(300, seed=1)
    first, second = (model.track(later) for model in (loaded, nsac.load(tmp_path / "model")))
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    loaded.save(tmp_path / "model")
    again = nsac.load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.predict(later), loaded.predict(later), check_exact=True)


def test_numbers_of_numpy_are_saved_as_numbers(tmp_path):
    model = forecaster(horizon=np.int64(3), folds=np.int64(1), random_state=np.int64(0)).fit(record(200))
    model.save(tmp_path / "model")
    assert nsac.load(tmp_path / "model").get_params()["horizon"] == 3


def test_the_unit_of_the_target_does_not_matter(fitted):
    frame = record()
    big = frame.assign(y=1000 * frame["y"] - 7)
    out, same = forecaster().fit(big).predict(big), fitted.predict(frame)
    np.testing.assert_allclose(out["mean"], 1000 * same["mean"] - 7, rtol=1e-3)
    np.testing.assert_allclose(out["std"], 1000 * same["std"], rtol=1e-2)


def test_irregular_times_and_holes_are_welcome():
    frame = record(400)
    random = np.random.default_rng(0)
    frame["t"] += pd.to_timedelta(random.uniform(-0.3, 0.3, 400), "h")
    frame = frame.mask(random.random(frame.shape) < [0, 0.3, 0.3])[random.random(400) > 0.2]
    model = forecaster().fit(frame)
    assert model.irregular_ and model.problem_.missing and model.problem_.missing_targets
    out = model.predict(frame)
    assert np.isfinite(out.drop(columns="t")).all(axis=None) and out["t"].iloc[0] > frame["t"].iloc[-1]


@pytest.mark.parametrize("name", ["gmle", "der", "ridge", "persistence", "seasonal"])
def test_every_method_can_forecast(name):
    model = forecaster(method=name, folds=1).fit(record())
    assert np.isfinite(model.predict(record())["std"]).all()


@pytest.mark.parametrize(("lookback", "horizon"), [(1, 1), (1, 5), (2, 3), (40, 20)])
def test_windows_may_be_short_or_long(lookback, horizon):
    model = forecaster(lookback=lookback, horizon=horizon, method="ridge").fit(record())
    assert np.isfinite(model.predict(record())["upper_90"]).all() and len(model.predict(record())) == horizon


def test_times_may_be_numbers_and_series_many():
    parts = [record(120, seed=s).assign(id=f"s{s}", t=np.arange(120) * 0.5 + s) for s in range(3)]
    frame = pd.concat(parts).sort_values("t").drop(columns="a")
    model = forecaster(series="id").fit(frame)
    assert model.step_ == 0.5 and model.cycles_ == [] and model.columns_.covariates == ()
    out = model.predict(frame)
    assert out["id"].tolist() == [f"s{s}" for s in range(3) for _ in range(6)]
    assert out["t"].iloc[0] == parts[0]["t"].iloc[-1] + 0.5
    alone = model.predict(parts[1].drop(columns="a"))
    np.testing.assert_allclose(alone["mean"], out["mean"][out["id"] == "s1"])
    with pytest.raises(ValueError, match="must hold numbers, as in `fit`"):
        model.predict(record().assign(id="s1"))


def test_a_zone_is_kept():
    frame = record().assign(t=lambda f: f["t"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    out = forecaster(method="ridge", folds=1).fit(frame).predict(frame)
    assert str(out["t"].dt.tz) == "Asia/Tokyo" and out["t"].iloc[0] == frame["t"].iloc[-1] + STEP


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"target": "z"}, {}, "`target` must name a column of the frame. Got 'z'"),
        ({}, {"y": 3.0}, "Target column 'y' must vary. It is 3 in every row"),
        ({}, {"a": np.nan}, "Column 'a' must have a value in at least one row"),
        ({"horizon": 300}, {}, r"no longer than the data. Got 12 \+ 300 = 312 steps"),
        ({"horizon": 0}, {}, "`horizon` must be a whole number of at least 1"),
        ({"method": "mean field"}, {}, "`method` must be one of"),
        ({"step": "soon"}, {}, "`step` must be a text such as '15min'"),
        ({"step": "1min"}, {}, "longest stretch without a long hole has 1 steps of 0 days 00:01:00"),
    ],
)
def test_what_cannot_be_fitted_is_refused(options, change, message):
    with pytest.raises(ValueError, match=message):
        forecaster(**options).fit(record().assign(**change))


def test_one_row_is_too_few():
    with pytest.raises(ValueError, match="two rows"):
        forecaster().fit(record(1))


def test_forecasts_of_the_past_stand_beside_what_came(fitted):
    frame = record(300, seed=2)
    made = fitted.forecasts(frame, since=frame["t"].iloc[200])
    assert made.y.shape == made.prediction.shape == made.lower.shape == (100, 6)
    np.testing.assert_allclose(made.y[0], frame["y"].iloc[200:206])
    assert made.times[0, 0] == frame["t"].iloc[200].value
    np.testing.assert_allclose(made.naive[:, 0], frame["y"].iloc[199:299])
    np.testing.assert_allclose(made.prediction.mean[50], fitted.predict(frame.iloc[:250])["mean"])
    assert len(fitted.forecasts(frame, most=10).y) == 10


def test_updating_row_by_row_is_updating_at_once(tmp_path):
    frame = record(290, seed=3)
    model = forecaster(method="ridge", folds=1).fit(frame.head(260))
    model.save(tmp_path / "model")
    at_once, slowly = nsac.load(tmp_path / "model"), nsac.load(tmp_path / "model")
    at_once.update(frame)
    for stop in range(261, 291):
        slowly.update(frame.iloc[stop - 30 : stop])
        slowly.update(frame.iloc[stop - 30 : stop])  # what was judged is not judged again
    np.testing.assert_allclose(at_once.stream_.alpha, slowly.stream_.alpha)
    pd.testing.assert_frame_equal(at_once.predict(frame), slowly.predict(frame))
    assert not np.allclose(at_once.predict(frame)["lower_90"], model.predict(frame)["lower_90"])


def test_intervals_adapt_to_a_noisier_world():
    frame = record(700, seed=4)
    frame.loc[300:, "y"] += 2 * np.random.default_rng(0).normal(size=400)
    model = forecaster(method="ridge", folds=1).fit(frame.head(300))
    width = model.predict(frame).eval("upper_90 - lower_90").mean()
    table = model.track(frame)
    assert table["judged"].tolist() == [400] * 6
    assert table["coverage_90"].between(0.8, 0.95).all()
    assert model.predict(frame).eval("upper_90 - lower_90").mean() > 2 * width


def test_a_stream_keeps_its_promise_for_delayed_forecasts():
    random = np.random.default_rng(0)
    stream = Stream(np.abs(random.normal(size=(200, 5))))
    drift = np.abs(random.normal(size=(5000, 5))) * np.linspace(1, 3, 5000)[:, None]
    margins = stream.update(np.arange(5000), drift)
    inside = (drift[:, None] <= margins).mean(0)
    assert np.abs(inside - LEVELS[:, None]).max() < 0.01
    assert (np.diff([stream.margin(c) for c in (0.5, 0.7, 0.9, 0.97)], axis=0) > 0).all()


def test_what_was_not_observed_is_not_judged():
    stream = Stream(np.ones((50, 2)))
    before = stream.alpha.copy()
    stream.update(np.arange(3), np.array([[9.0, np.nan]] * 3))
    assert (stream.alpha[:, 0] < before[:, 0]).all() and (stream.alpha[:, 1] == before[:, 1]).all()


def test_a_backtest_stands_beside_naive_forecasts():
    table = forecaster(method="ridge", folds=1).backtest(record(400), folds=2)
    assert (
        table["method"].tolist() == ["ridge", "persistence", "seasonal"] * 2
        and table["fold"].tolist() == [1] * 3 + [2] * 3
    )
    assert set(table) >= {"mse", "mae", "crps", "nll", "coverage_90", "width_90"}
    scores = table[table["fold"] == 2].set_index("method")
    assert scores.loc["ridge", "mse"] < scores.loc["persistence", "mse"]
    assert np.isfinite(table.select_dtypes("number")).all(axis=None)


def test_it_can_be_cloned_and_says_its_parameters():
    from sklearn.base import clone

    copy = clone(forecaster(series="id"))
    assert copy.get_params()["series"] == "id" and not hasattr(copy, "members_")


def test_a_frame_with_the_time_as_its_index_is_fine(fitted):
    frame = record()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pd.testing.assert_frame_equal(fitted.predict(frame.set_index("t")), fitted.predict(frame))


def test_the_global_generator_is_left_alone(fitted):
    before = torch.get_rng_state()
    fitted.predict(record())
    assert torch.equal(before, torch.get_rng_state())
