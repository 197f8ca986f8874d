import math

import pytest
import torch

from nsac.lab.grid.calibration import calibrate, conformal_margin
from nsac.lab.tasks.base import TableSplit, Task
from nsac.methods import TableProblem
from nsac.uncertainty import Prediction, SplitConformal


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
