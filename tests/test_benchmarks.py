"""The benchmark on tables, through its command line, on one tiny table; other benchmarks are run by hand."""

import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scoringrules
import torch
from scipy import stats

from nsac.lab.datasets import FrameTable

FOLDER = Path(__file__).parents[1] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("the benchmarks are not beside the tests", allow_module_level=True)
sys.path.insert(0, str(FOLDER))
peers, tables = importlib.import_module("peers"), importlib.import_module("tables")
sys.path.remove(str(FOLDER))

ROWS = 80
SCORES = {"rmse", "nll", "crps", "coverage_90", "width_90", "cpu_seconds", "predict_cpu_seconds"}


@pytest.fixture
def tiny(monkeypatch):
    """A table with numbers, text, dates and missing values; its last rows have a category that training has not."""
    random = np.random.default_rng(0)
    number, text = random.normal(size=ROWS), random.choice(["red", "green"], ROWS).astype(object)
    y = 100 + 10 * number + 5 * (text == "red") + random.normal(size=ROWS)
    text[-2:] = "blue"
    dates = pd.Series(pd.date_range("2024-01-30", periods=ROWS)).dt.strftime("%Y-%m-%d").astype(object)
    number[[1, -1]], text[[2, -3]], dates[[3, ROWS - 4]] = np.nan, None, None
    frame = pd.DataFrame({"number": number, "text": text, "date": dates, "constant": 1})
    monkeypatch.setattr(tables, "load_table", lambda name: FrameTable(frame, y, "y"))
    monkeypatch.setattr(tables, "split", lambda name, seed: (np.arange(ROWS - 10), np.arange(ROWS - 10, ROWS)))


def run(folder: Path, *methods: str, options: tuple[str, ...] = ("--cpu-limit", "0")) -> dict[str, dict]:
    tables.main(["--tables", "Wage", "--methods", *methods, "--splits", "0", "--out", str(folder), *options])
    return {path.stem: json.loads(path.read_text()) for path in (folder / "Wage").glob("*.json")}


def test_a_method_has_one_record_with_all_scores(tiny, tmp_path):
    records = run(tmp_path, "naive", "gp")
    assert set(records) == {"naive_0", "gp_0"}
    for record in records.values():
        assert record.keys() >= SCORES and np.isfinite([record[score] for score in SCORES]).all()
        assert record["rows"] == [70, 10] and record["rows_used"] == 70
    assert records["gp_0"]["crps"] < records["naive_0"]["crps"] / 2


@pytest.mark.filterwarnings("ignore")  # of packages that are not ours
@pytest.mark.parametrize("method", ["lightgbm", "catboost", "catboost-uncertainty"])
def test_a_boosted_peer_is_better_than_naive(tiny, tmp_path, method):
    pytest.importorskip(peers.METHODS[method].package, reason="needs the extra `peers`")
    records = run(tmp_path, "naive", method)
    assert records[f"{method}_0"]["rmse"] < records["naive_0"]["rmse"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of packages that are not ours
@pytest.mark.parametrize("method", ["nsac", "ngboost", "realmlp"])
def test_a_slower_method_is_better_than_naive(tiny, tmp_path, method):
    pytest.importorskip(peers.METHODS[method].package, reason="needs the extra `peers`")
    torch.set_default_dtype(torch.float32)  # as on the command line; pytabkit has no other
    try:
        records = run(tmp_path, "naive", method)
    finally:
        torch.set_default_dtype(torch.float64)
    assert records[f"{method}_0"]["rmse"] < records["naive_0"]["rmse"]


def test_an_existing_record_is_not_computed_again(tiny, tmp_path):
    run(tmp_path, "naive")
    path = tmp_path / "Wage" / "naive_0.json"
    path.write_text(path.read_text().replace('"naive"', '"kept"'))
    assert run(tmp_path, "naive")["naive_0"]["method"] == "kept"


def test_training_rows_above_the_limit_of_a_method_are_sampled(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(tables.METHODS, "naive", tables.METHODS["naive"]._replace(max_rows=30))
    assert run(tmp_path, "naive")["naive_0"]["rows_used"] == 30


def test_a_method_without_its_package_is_left_out(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(tables.METHODS, "tabm", tables.METHODS["tabm"]._replace(package="no_such_package"))
    assert set(run(tmp_path, "naive", "tabm")) == {"naive_0"}
    assert "tabm is left out" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the worker has threads of pytest-xdist
def test_a_fit_that_takes_too_long_is_recorded_as_skipped(tiny, tmp_path, monkeypatch, capsys):
    def busy(x, y, seed):
        while time.process_time() < 60:
            pass

    monkeypatch.setitem(tables.METHODS, "naive", tables.METHODS["naive"]._replace(fit=busy))
    record = run(tmp_path, "naive", options=("--cpu-limit", "1"))["naive_0"]
    assert record["skipped"] == "more than 1 CPU seconds" and not SCORES & record.keys()
    assert "There are no records" in capsys.readouterr().out


def test_a_fit_can_be_recorded_as_skipped_without_running_it(tiny, tmp_path):
    run(tmp_path, "naive")
    records = run(tmp_path, "naive", "tabm", options=("--skip", "too large"))
    assert records["tabm_0"] == {"table": "Wage", "method": "tabm", "split": 0, "skipped": "too large"}
    assert "skipped" not in records["naive_0"]


def test_the_report_computes_nothing_and_the_picture_is_written(tiny, tmp_path, capsys):
    run(tmp_path, "naive", "gp")
    records = run(tmp_path, "naive", "gp", "lightgbm", options=("--report", "--picture", str(tmp_path / "ranks.png")))
    assert len(records) == 2 and (tmp_path / "ranks.png").stat().st_size > 5000
    assert "crps rank" in " ".join(capsys.readouterr().out.split())


def test_ranks_and_ratios_are_means_over_splits_then_over_tables():
    rows = [("a", "x", 0, 1.0), ("a", "y", 0, 2.0), ("a", "x", 1, 4.0), ("a", "y", 1, 2.0), ("b", "x", 0, 3.0)]
    frame = pd.DataFrame(rows, columns=["table", "method", "split", "crps"])
    frame = frame.assign(rmse=frame["crps"], coverage_90=0.9, cpu_seconds=1.0)
    summary = tables.summarise(frame)
    assert summary.loc["x", "crps rank"] == pytest.approx((1.5 + 1) / 2) and summary.loc["y", "crps rank"] == 1.5
    assert summary.loc["x", "crps ratio"] == pytest.approx(2**0.25) and summary["tables"].to_dict() == {"x": 2, "y": 1}
    assert set(tables.common(frame)["table"]) == {"a"}


def test_our_score_is_compared_with_the_best_peer_on_our_splits():
    rows = [("a", "nsac", 0, 1.0), ("a", "x", 0, 2.0), ("a", "y", 0, 4.0), ("a", "y", 1, 0.1)]
    frame = pd.DataFrame(rows, columns=["table", "method", "split", "crps"])
    row = tables.compare(frame.assign(rmse=frame["crps"])).iloc[0]
    assert row["crps / best"] == 0.5 and row["best crps"] == "x"


def test_the_crps_of_residuals_is_that_of_their_empirical_distribution():
    random = np.random.default_rng(1)
    values, y = random.normal(size=30), random.normal(size=7)
    expected = np.abs(values - y[:, None]).mean() - np.abs(values - values[:, None]).mean() / 2
    assert peers.ensemble_crps(y, values) == pytest.approx(expected)


def test_the_crps_of_a_grid_of_quantiles_is_near_the_closed_form():
    y = np.linspace(-2, 2, 9)
    grid = np.tile(stats.norm.ppf(peers.QUANTILES), (len(y), 1))
    closed = np.mean(scoringrules.crps_normal(y, 0.0, 1.0))
    assert peers.grid_crps(y, grid) == pytest.approx(closed, rel=0.01)  # the error of the midpoint rule


def test_dates_become_year_month_day_and_days():
    frame = peers.expand_dates(pd.DataFrame({"d": ["1970-01-02", None, "2020-02-29T12:00:00Z"], "t": ["a", "b", "c"]}))
    assert list(frame) == ["d year", "d month", "d day", "d days", "t"]
    assert frame.iloc[2, :4].tolist() == [2020, 2, 29, 18321.5] and frame.iloc[1, :4].isna().all()
