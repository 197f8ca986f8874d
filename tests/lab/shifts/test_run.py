import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from nsac.cli.main import app
from nsac.lab.shifts import run as shift_grid
from nsac.lab.shifts.growth import SHARES, Grown, growth_figure
from nsac.lab.shifts.run import cost_table, detection_table, page, read_kept, run_kept, run_shifts, section
from nsac.training import TrainConfig


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setitem(shift_grid.CONFIGS, "table", TrainConfig(max_steps=3, accelerator="cpu"))


def test_a_run_is_kept_and_not_repeated(data, tmp_path, quick, monkeypatch):
    records = run_kept(tmp_path, "concrete", "nsac", 0)
    assert {record["kind"] for record in records} == {"shuffled_features"}
    monkeypatch.setattr(shift_grid, "run_shifts", lambda *_: pytest.fail("run again"))
    assert run_kept(tmp_path, "concrete", "nsac", 0) == records
    assert [path.name for path in tmp_path.iterdir()] == ["concrete_nsac_0.json"]  # nothing half written is left


def test_a_run_follows_from_its_arguments(data, quick):
    one, two = (run_shifts("concrete", "nsac", 1) for _ in range(2))
    for record in (*one, *two):
        del record["fit_seconds"]
    assert one == two


def test_distances_stand_beside_the_methods(data, quick):
    names = {record["method"] for record in run_shifts("concrete", "gmle", 0)}
    assert {"gmle", "noise", "gp", "knn/inputs", "knn/features", "mahalanobis/inputs", "mahalanobis/features"} == names


def test_novelty_costs_no_accuracy(data, quick):
    ours, plain = (run_shifts("concrete", name, 0)[0] for name in ("nsac", "nsac, likelihood"))
    assert ours["rmse_inside"] == pytest.approx(plain["rmse_inside"], rel=1e-6)
    assert ours["auroc"] > plain["auroc"]


def test_kinds_weigh_the_same_however_many_shifts_they_have():
    rows = [("a", "x", 0, 1.0), ("a", "x", 0, 0.0), ("a", "y", 0, 1.0)]
    records = pd.DataFrame(rows, columns=["method", "kind", "seed", "auroc"])
    table = detection_table(records)
    assert table.loc["a", "mean"] == 0.75 and table.loc["a", "least"] == 0.5


def test_the_table_is_printed_and_missing_records_are_one_line(data, tmp_path, quick):
    result = CliRunner().invoke(app, ["bench", "shifts", "--out", str(tmp_path)])
    assert result.exit_code == 2 and "has no records" in result.output
    run_kept(tmp_path, "concrete", "nsac", 0)
    result = CliRunner().invoke(app, ["bench", "shifts", "--out", str(tmp_path)])
    assert result.exit_code == 0 and "AUROC" in result.output
    assert CliRunner().invoke(app, ["bench", "shifts", "--method", "none"]).exit_code == 2


def test_the_page_pairs_runs_of_the_same_scene_and_seed(data, tmp_path, quick):
    run_kept(tmp_path, "concrete", "nsac", 0)
    assert "Not run." in page(read_kept(tmp_path))
    run_kept(tmp_path, "concrete", "nsac, likelihood", 0)
    run_kept(tmp_path, "concrete", "nsac, likelihood", 1)  # has no partner
    table = cost_table(read_kept(tmp_path))
    assert table.loc["concrete", "rmse_inside"] == pytest.approx(1, rel=1e-6)
    assert 0 <= table.loc["shuffled_features", "still missing"] <= 1
    assert "| concrete | 1.000 |" in page(read_kept(tmp_path))
    noticed, _, cost = section(read_kept(tmp_path)).sheets
    assert [row[0] for row in noticed.rows] == ["nsac", "nsac, likelihood"] and noticed.head[-2:] == ["mean", "least"]
    assert cost.rows[0][:2] == ["concrete", 1.0] and len(cost.head) == len(cost.rows[0])


def test_records_are_plain_json(data, tmp_path, quick):
    run_kept(tmp_path, "concrete", "nsac", 0)
    record, *distances = json.loads((tmp_path / "concrete_nsac_0.json").read_text())
    assert [d["method"] for d in distances] == ["mahalanobis/described", "knn/described"]
    assert {"auroc", "aupr", "fpr95", "ause", "error_correlation", "nll", "coverage_90", "fit_seconds"} <= set(record)


def test_the_picture_of_growth_has_a_panel_per_task(tmp_path):
    runs = [Grown(task, share, 0, 0.1 / share, 0.3, 0.4) for task in ("a", "b") for share in SHARES]
    growth_figure(runs).savefig(tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 10_000
