import pytest
import torch

from nsac.lab.grid.calibration import Calibration, calibrate
from nsac.lab.grid.evaluation import CALIBRATED, PIT_BINS, evaluate
from nsac.lab.grid.run import run_once
from nsac.lab.tasks.base import load_task
from nsac.uncertainty import Prediction, VarianceScale
from nsac.uncertainty.scores import TABLE
from support.runs import tiny


def overconfident(batch):
    """Targets with an error that depends on them, and a standard deviation that is too small."""
    y = batch["y"]
    return Prediction.gaussian(y + 0.1 * (7 * y).sin(), torch.full_like(y, 0.02))


@pytest.fixture(scope="module")
def task():
    return load_task("spiral", "paper")


@pytest.fixture(scope="module")
def calibration(task):
    return calibrate(task, overconfident)


@pytest.fixture(scope="module")
def evaluation(task, calibration):
    return evaluate(task, overconfident, calibration)


@pytest.mark.parametrize("prefix", ["", "interpolation_", "extrapolation_"])
def test_metrics_are_raw_and_calibrated_scores_of_all_entries_and_of_groups(evaluation, prefix):
    names = {*TABLE, *(f"{name}_calibrated" for name in CALIBRATED), "coverage_90_scaled", "width_90_scaled"}
    names |= {"coverage_90_calibrated", "width_90_calibrated"}
    assert {f"{prefix}{name}" for name in names} <= set(evaluation.metrics)


def test_raw_metrics_are_the_scores_of_the_task(task, evaluation):
    scores = task.score(overconfident)
    assert {name: evaluation.metrics[name] for name in scores} == scores


def test_calibrated_metrics_are_the_scores_after_the_variance_scale(task, calibration, evaluation):
    scores = task.score(lambda batch: calibration.scale(overconfident(batch)))
    for name in CALIBRATED:
        assert evaluation.metrics[f"{name}_calibrated"] == scores[name]


def test_the_variance_scale_corrects_a_standard_deviation_that_is_too_small(evaluation):
    assert evaluation.metrics["nll_calibrated"] < evaluation.metrics["nll"]


def test_conformal_intervals_have_their_nominal_coverage(evaluation):
    assert abs(evaluation.metrics["coverage_90_calibrated"] - 0.9) < 0.06


def test_the_width_of_a_conformal_interval_is_twice_its_margin(task):
    columns = task.batches("test").__next__().y.shape[1:]
    one = Calibration(VarianceScale(torch.ones(columns)), torch.full(columns, 2.0))
    assert evaluate(task, overconfident, one).metrics["width_90_calibrated"] == pytest.approx(2 * 2 * 0.02)


def test_the_test_split_is_predicted_once(task, calibration):
    rows = []

    def counting(batch):
        rows.append(len(batch["y"]))
        return overconfident(batch)

    evaluate(task, counting, calibration)
    assert sum(rows) == len(task.test)


@pytest.mark.parametrize("kind", ["raw", "calibrated"])
def test_a_pit_histogram_has_all_entries(evaluation, kind):
    assert len(evaluation.pit[kind]) == PIT_BINS and sum(evaluation.pit[kind]) == 50 * 150 * 2


def test_the_bands_of_a_series_are_one_panel_per_output(evaluation):
    assert [len(panel["mean"]) for panel in evaluation.bands] == [150, 150]
    assert set(evaluation.bands[0]) == {"name", "ordered", "at", "y", "mean", "std", "epistemic", "half_90"}


def test_the_bands_of_a_table_are_its_test_rows(data):
    (panel,) = run_once(tiny("boston", "sound", "ridge")).bands
    assert len(panel["y"]) == 51 and not panel["ordered"]


def test_the_bands_of_a_forecast_are_half_the_horizon_ahead(data):
    (panel,) = run_once(tiny("ettm1", "paper", "persistence")).bands
    assert len(panel["y"]) == 150 and "13 of 24 steps ahead" in panel["name"]
