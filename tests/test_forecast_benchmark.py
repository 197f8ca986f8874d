"""The benchmark of forecasts: its data sets, its baselines, and how a record is completed; peers are run by hand."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

FOLDER = Path(__file__).parents[1] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)
sys.path.insert(0, str(FOLDER))
forecast, peers = importlib.import_module("forecast"), importlib.import_module("forecast_peers")
sys.path.remove(str(FOLDER))

ROWS, FITTED = 600, 500


@pytest.fixture
def tiny(monkeypatch):
    """Half a wave a day with noise, and a covariate, by the hour; two values of the target are missing."""
    random, hours = np.random.default_rng(0), np.arange(ROWS)
    y = 10 * np.sin(2 * np.pi * hours / 24) + random.normal(size=ROWS)
    y[[100, 550]] = np.nan
    dates = pd.date_range("2024-01-01", periods=ROWS, freq="h")
    frame = pd.DataFrame({"date": dates, "other": random.normal(size=ROWS), "y": y})
    data = forecast.Data(frame, "y", dates[FITTED], 20.0, pd.Timedelta("1h"))
    monkeypatch.setattr(forecast, "load", lambda name: data)
    return data


def run(folder: Path, *methods: str) -> dict[str, dict]:
    forecast.main(["--data", "jena-spring", "--methods", *methods, "--out", str(folder)])
    return json.loads((folder / "jena-spring-0.json").read_text())["scores"]


def test_every_forecast_whose_steps_all_lie_in_the_test_part_is_scored_once(tiny, tmp_path):
    scores = run(tmp_path, "persistence", "ridge")
    origins, missing = ROWS - FITTED - forecast.HORIZON + 1, forecast.HORIZON
    for each in scores.values():
        assert each["forecasts"] == origins * forecast.HORIZON - missing


def test_baselines_of_a_daily_wave_have_the_expected_order_and_coverage(tiny, tmp_path):
    scores = run(tmp_path, "persistence", "seasonal", "ridge")
    assert scores["ridge"]["crps_20"] < scores["seasonal"]["crps_20"] < scores["persistence"]["crps_20"] / 2
    assert scores["seasonal"]["mse"] == pytest.approx(2 / 20**2, rel=0.3)  # the noise of two values, in squared ranges
    assert 0.8 < scores["seasonal"]["coverage_90"] < 0.97


def test_origins_whose_row_was_observed_are_scored_apart(tiny):
    series = forecast.regular(tiny, forecast.remove(tiny.frame, "jena-summer-holes70", seed=0))
    observed, y = series.last[series.origins] == series.origins, tiny.frame["y"].to_numpy()
    mean = y[series.origins[:, None] + np.arange(1, forecast.HORIZON + 1)] + np.where(observed, 1.0, 3.0)[:, None]
    quantiles = np.repeat(mean[..., None], len(forecast.QUANTILES) + 2, 2)  # CRPS of a point: its absolute error
    scores = forecast.score(series, tiny, peers.Forecasts(mean, quantiles))
    assert scores["crps_20_observed"] == pytest.approx(1 / tiny.span)
    assert scores["crps_20"] == pytest.approx((3 - 2 * observed.mean()) / tiny.span, rel=0.01)


def test_methods_that_a_record_has_are_not_computed_again(tiny, tmp_path, monkeypatch):
    first = run(tmp_path, "seasonal")
    monkeypatch.setitem(peers.METHODS, "seasonal", peers.Method(None, "numpy"))
    both = run(tmp_path, "seasonal", "persistence")
    assert both["seasonal"] == first["seasonal"] and list(both) == ["seasonal", "persistence"]


def test_a_method_without_its_package_is_skipped(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(peers.METHODS, "ridge", peers.Method(None, "no_such_package"))
    assert list(run(tmp_path, "persistence", "ridge")) == ["persistence"]
    assert "ridge needs the package no_such_package" in capsys.readouterr().err


@pytest.mark.parametrize(
    "method", ["persistence", "seasonal", "ridge", pytest.param("lightgbm", marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore")  # of packages that are not ours
@pytest.mark.parametrize("name", ["jena-spring", "jena-summer-holes70"])
def test_no_forecast_sees_rows_after_its_origin(tiny, method, name):
    pytest.importorskip(peers.METHODS[method].package, reason="needs the extra `peers`")
    known = forecast.remove(tiny.frame, name, seed=0)
    changed, later = known.copy(), known["date"] > tiny.frame["date"][FITTED]
    changed.loc[later, ["y", "other"]] += 1000.0
    series = [forecast.regular(tiny, each) for each in (known, changed)]
    first = [peers.METHODS[method].fit(each, 0)(each.origins[:2]) for each in series]
    np.testing.assert_array_equal(first[0].quantiles, first[1].quantiles)


def test_the_share_of_rows_that_the_name_says_is_left_out(tiny):
    for name, share in (("ettm1", 0), ("ettm1-holes", 0.3), ("jena-winter-holes70", 0.7)):
        assert len(forecast.remove(tiny.frame, name, seed=1)) == pytest.approx((1 - share) * ROWS, rel=0.1)


def test_windows_of_peers_are_interpolated_up_to_the_last_known_row(tiny):
    frame = tiny.frame.assign(y=np.arange(ROWS, dtype=float))
    known = frame.drop(index=[299, 300, 301, 302])
    series = forecast.regular(tiny._replace(frame=frame), known)
    np.testing.assert_allclose(series.windows(np.array([310]))[0, :, 0], np.arange(310 - forecast.LOOKBACK + 1, 311))
    np.testing.assert_allclose(series.windows(np.array([301]))[0, -5:, 0], [297, 298, 298, 298, 298])


def test_quantiles_of_a_gaussian_are_interpolated_and_extrapolated_exactly():
    found = stats.norm.ppf(peers.BOOSTED_LEVELS, loc=3.0, scale=2.0)[None]
    np.testing.assert_allclose(
        peers.interpolate_levels(found, peers.BOOSTED_LEVELS)[0], stats.norm.ppf(peers.LEVELS, loc=3.0, scale=2.0)
    )


@pytest.mark.parametrize("season", forecast.SEASONS)
def test_the_test_part_of_a_season_has_no_missing_hour(season, data):
    series = forecast.load(f"jena-{season}")
    first, stop = map(pd.Timestamp, forecast.SEASONS[season])
    test = series.frame[series.frame["date"] >= first]
    assert series.first == first and len(test) == (stop - first) / pd.Timedelta("1h")
    assert not test.isna().any(axis=None)
