import json

import pytest
import torch

from nsac.lab.shifts import run
from nsac.lab.shifts.run import read_kept, run_kept, run_shifts
from nsac.training import TrainConfig


@pytest.fixture(autouse=True)
def short_training(monkeypatch):
    monkeypatch.setitem(run.CONFIGS, "table", TrainConfig(max_steps=3, accelerator="cpu"))


def test_only_reported_kinds_are_run(data):
    assert {record["kind"] for record in run_shifts("concrete", "nsac", 0)} == {"shuffled_features"}


def test_a_run_with_a_file_is_not_repeated(data, tmp_path, monkeypatch):
    records = run_kept(tmp_path, "concrete", "nsac", 0)
    monkeypatch.setattr(run, "run_shifts", lambda *_: pytest.fail("run again"))
    assert run_kept(tmp_path, "concrete", "nsac", 0) == records


def test_a_run_writes_one_file(data, tmp_path):
    run_kept(tmp_path, "concrete", "nsac, likelihood", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["concrete_nsac-likelihood_0.json"]


def test_a_run_follows_from_its_arguments(data):
    one, other = run_shifts("concrete", "nsac", 1), run_shifts("concrete", "nsac", 1)
    for record in (*one, *other):
        del record["fit_seconds"]
    assert one == other


def test_reference_detectors_are_run_with_gmle(data):
    names = {record["method"] for record in run_shifts("concrete", "gmle", 0)}
    assert {"gmle", "noise", "gp", "knn/inputs", "knn/features", "mahalanobis/inputs", "mahalanobis/features"} == names


def test_distances_between_descriptions_are_run_with_nsac(data):
    names = [record["method"] for record in run_shifts("concrete", "nsac", 0)]
    assert names == ["nsac", "mahalanobis/described", "knn/described"]


def test_novelty_does_not_change_the_error(data):
    ours, plain = run_shifts("concrete", "nsac", 0)[0], run_shifts("concrete", "nsac, likelihood", 0)[0]
    assert ours["rmse_inside"] == pytest.approx(plain["rmse_inside"], rel=1e-6)


def test_novelty_improves_detection(data):
    ours, plain = run_shifts("concrete", "nsac", 0)[0], run_shifts("concrete", "nsac, likelihood", 0)[0]
    assert ours["auroc"] > plain["auroc"]


def test_a_record_has_the_keys_of_the_published_ones(data, tmp_path):
    run_kept(tmp_path, "concrete", "nsac", 0)
    record = json.loads((tmp_path / "concrete_nsac_0.json").read_text())[0]
    assert {"method", "kind", "scene", "shift", "seed", "auroc", "aupr", "fpr95", "ause"} <= set(record)
    assert {"error_correlation", "nll", "coverage_90", "rmse_inside", "fit_seconds"} <= set(record)


def test_all_files_of_a_folder_are_read(tmp_path):
    for seed in (0, 1):
        (tmp_path / f"{seed}.json").write_text(json.dumps([{"seed": seed, "auroc": 0.5}]))
    assert list(read_kept(tmp_path)["seed"]) == [0, 1]


def test_a_folder_without_files_is_empty(tmp_path):
    assert read_kept(tmp_path).empty


def test_a_run_restores_the_number_of_threads(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(run, "run_shifts", lambda *_: seen.append(torch.get_num_threads()) or [])
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        run_kept(tmp_path, "concrete", "nsac", 0)
        assert seen == [1] and torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
