import gc

import pytest
import torch

from nsac.lab.grid.config import run_config
from nsac.lab.grid.run import (
    LIBRARIES,
    Stopwatch,
    commit,
    peak_memory,
    provenance,
    reset_peak_memory,
    run_fitted,
    run_once,
)
from nsac.lab.tasks.base import SPLITS, load_task
from nsac.methods import METHODS, GaussianMLE, fit
from support.runs import tiny


@pytest.fixture(scope="module")
def record():
    return run_once(tiny())


def test_a_record_has_the_sizes_of_the_splits(record):
    assert tuple(record.rows) == SPLITS and record.rows["test"] == 50


def test_a_record_has_the_cost_of_the_run(record):
    assert record.parameters > 1000 and record.peak_memory > 50
    assert record.seconds["total_wall"] > record.seconds["fit_wall"] > 0
    assert record.seconds["fit_cpu"] > 0 and record.seconds["predict_wall"] > 0


def test_a_record_has_the_steps_of_training(record):
    assert [training["steps"] for training in record.training] == [2]


def test_a_repeated_run_gives_the_same_digits_for_any_number_of_threads(record):
    torch.set_num_threads(2)
    try:
        again = run_once(tiny())
    finally:
        torch.set_num_threads(1)
    assert again.result == record.result and again.key == record.key


def test_a_run_predicts_every_calibration_and_test_row_once(monkeypatch):
    fitted, counted = [], []
    predict = GaussianMLE.predict

    def counting(self, batch, *arguments):
        if fitted:
            counted.append(len(batch["x"]))
        return predict(self, batch, *arguments)

    def fitting(*arguments, **options):
        results = fit(*arguments, **options)
        fitted.append(True)
        return results

    monkeypatch.setattr("nsac.lab.grid.run.fit", fitting)
    monkeypatch.setattr(GaussianMLE, "predict", counting)
    record = run_once(tiny())
    assert sum(counted) == record.rows["calibration"] + record.rows["test"]


def test_a_run_returns_the_fitted_method_and_its_variance_scale():
    outcome = run_fitted(tiny())
    scores = outcome.task.score(lambda batch: outcome.calibration(outcome.method.predict(batch, 3)))
    assert scores["crps"] == pytest.approx(outcome.record.metrics["crps_calibrated"])


@pytest.mark.parametrize("method", ["nsac", "ridge"])
def test_a_table_can_be_run_with_a_trained_and_with_a_solved_method(data, method):
    record = run_once(tiny("boston", "sound", method))
    assert record.unit == "1000 dollars" and "standard split" in record.text.lower()
    assert bool(record.training) == (method == "nsac")


def test_a_run_of_a_baseline_has_the_scores_of_the_task(data):
    task = load_task("boston", "paper")
    method = METHODS["ridge"](task.problem)
    fit(method, task.train, task.validation)
    metrics, scores = run_once(run_config("boston", "paper", "ridge", 0)).metrics, task.score_method(method)
    assert {name: metrics[name] for name in scores} == pytest.approx(scores, rel=1e-4)  # a run has single precision


def test_a_watch_sums_the_seconds_of_its_blocks():
    watch = Stopwatch()
    for _ in range(2):
        with watch:
            pass
    seconds = watch.seconds("fit")
    assert set(seconds) == {"fit_cpu", "fit_wall"} and seconds["fit_wall"] > 0


def test_the_peak_memory_includes_an_array_that_was_freed():
    gc.collect()  # garbage of other tests, freed meanwhile, would hide the array
    reset_peak_memory()
    before = peak_memory()
    torch.ones(100_000_000)  # 400 megabytes: a machine may reclaim some of its memory meanwhile
    assert peak_memory() - before > 100


def test_provenance_has_the_fields_of_a_record():
    assert set(provenance()) == {"commit", "versions", "machine", "made"}


def test_a_machine_is_described_without_identifying_it():
    assert set(provenance()["machine"]) <= {"system", "architecture", "cores", "processor"}


def test_a_commit_is_a_hash_or_none():
    assert commit() is None or len(commit().rstrip("+")) == 40


def test_versions_are_of_python_and_of_the_libraries_behind_the_results():
    assert set(provenance()["versions"]) == {"python", *LIBRARIES}
