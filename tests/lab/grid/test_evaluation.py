import math

import pytest
import torch

from nsac.lab.grid.evaluation import CALIBRATED, PIT_BINS, Calibration, calibrate, conformal_margin, evaluate
from nsac.lab.grid.run import run_once
from nsac.lab.tasks.base import TableSplit, Task, load_task
from nsac.methods import TableProblem
from nsac.uncertainty import Prediction, SplitConformal, VarianceScale
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


def make_task(y, groups):
    split = TableSplit(torch.tensor(0.0), torch.tensor(10.0), x=torch.zeros(len(y), 1), y=y)
    return Task("t", "sound", 0, "", "", TableProblem(1, 1), split, split, split, split, ("mean",), groups)


def standard_normal(batch):
    return Prediction.gaussian(torch.zeros_like(batch["y"]), torch.ones_like(batch["y"]))


@pytest.fixture
def y(generator):
    return torch.tensor([1.0, 2.0, 3.0]) * torch.randn(200, 3, generator=generator)


def test_every_column_has_its_own_scale_and_margin(y):
    calibration = calibrate(make_task(y, {}), standard_normal)
    torch.testing.assert_close(calibration.scale.scale, y.square().mean(0).sqrt())
    torch.testing.assert_close(calibration.margin, y.abs().sort(0).values[181 - 1])  # ceil(201 * 0.9)


def test_all_entries_of_a_group_share_a_scale_and_a_margin_per_output(y):
    y = y[..., None]  # rows, entries, outputs
    calibration = calibrate(make_task(y, {"first": slice(0, 2), "rest": slice(2, 3)}), standard_normal)
    assert calibration.scale.scale[0] == calibration.scale.scale[1] != calibration.scale.scale[2]
    assert calibration.margin[0] == calibration.margin[1] != calibration.margin[2]


def test_the_margin_of_a_group_allows_for_entries_of_one_row_being_dependent(y):
    y = y[..., None]
    margin = calibrate(make_task(y, {"all": slice(0, 3)}), standard_normal).margin
    rank = math.ceil(601 * 0.9 * (1 + 1 / 200))
    torch.testing.assert_close(margin[0, 0], y.abs().flatten().sort().values[rank - 1])


@pytest.mark.parametrize(("n", "coverage"), [(10, 0.9), (99, 0.07), (99, 0.9), (1000, 0.95)])
def test_a_margin_is_that_of_split_conformal_prediction(generator, n, coverage):
    y = torch.randn(n, 2, generator=generator)
    zeros, ones = torch.zeros(n, 2), torch.ones(n, 2)
    _, upper = SplitConformal.fit(Prediction.gaussian(zeros, ones), y).interval(
        Prediction.gaussian(zeros[:1], ones[:1]), coverage
    )
    torch.testing.assert_close(conformal_margin(y.abs(), coverage), upper[0], rtol=0, atol=0)


def test_a_margin_ignores_missing_scores(generator):
    scores = torch.rand(50, 2, generator=generator)
    scores[20:, 1] = torch.nan
    torch.testing.assert_close(conformal_margin(scores, 0.9)[1], conformal_margin(scores[:20, 1:], 0.9)[0])


def test_a_margin_is_infinite_for_too_few_scores():
    assert conformal_margin(torch.ones(8, 1), 0.9).item() == math.inf


def test_a_margin_does_not_depend_on_the_default_precision():
    # In single precision 5,000,008 * 0.9 = 4,500,007.2 is rounded to 4,500,007.
    scores = torch.arange(5_000_007, dtype=torch.float64)[:, None]
    torch.set_default_dtype(torch.float32)
    assert conformal_margin(scores, 0.9).item() == math.ceil(5_000_008 * 0.9) - 1
