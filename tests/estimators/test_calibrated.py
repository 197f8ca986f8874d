import math
import warnings

import pytest
import torch

from nsac.estimators.calibrated import PRIOR, Calibration
from nsac.uncertainty import Prediction
from nsac.uncertainty.conformal import SplitConformal


def gaussians(n, columns, generator):
    """Predictions that are half as wide as they should be, and targets."""
    mean, y = torch.zeros(n, columns), 2 * torch.randn(n, columns, generator=generator)
    return Prediction.gaussian(mean, torch.ones(n, columns)), y


def test_the_scale_brings_squared_errors_to_the_variance(generator):
    p, y = gaussians(4000, 2, generator)
    c = Calibration.fit(p, y)
    torch.testing.assert_close(c.scale**2, (PRIOR + (y**2).sum(0)) / (PRIOR + 4000))
    torch.testing.assert_close(c.apply(p).std[0], c.scale)


def test_without_holes_the_interval_is_split_conformal(generator):
    p, y = gaussians(100, 3, generator)
    ends = Calibration.fit(p, y).interval(p, 0.9)
    for mine, theirs in zip(ends, SplitConformal.fit(p, y).interval(p, 0.9), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_column_is_calibrated_on_the_rows_where_it_was_observed(generator):
    p, y = gaussians(60, 2, generator)
    y[30:, 1] = torch.nan
    c, half = Calibration.fit(p, y), Calibration.fit(p[:30], y[:30])
    torch.testing.assert_close(c.scale[1], half.scale[1])
    torch.testing.assert_close(c.interval(p, 0.9)[1][:30, 1], half.interval(p[:30], 0.9)[1][:, 1])


def test_coverage_is_what_was_asked_for(generator):
    p, y = gaussians(2000, 1, generator)
    lower, upper = Calibration.fit(p[:999], y[:999]).interval(p[999:], 0.8)
    assert ((y[999:] >= lower) & (y[999:] <= upper)).double().mean() == pytest.approx(0.8, abs=0.05)


def test_too_few_rows_give_the_scaled_mixture_and_a_warning(generator):
    p, y = gaussians(12, 2, generator)
    y[2:, 1] = torch.nan
    c = Calibration.fit(p, y)
    with pytest.warns(UserWarning, match="2 rows of calibration are too few"):
        lower, _ = c.interval(p, 0.9)
    torch.testing.assert_close(lower[:, 1], c.apply(p).interval(0.9)[0][:, 1])
    torch.testing.assert_close(lower[:, 0], -c.margin(0.9)[0][0] * c.scale[0].expand(12))


def test_a_column_that_was_never_observed_is_left_as_it_is(generator):
    p, y = gaussians(30, 2, generator)
    y[:, 0] = torch.nan
    c = Calibration.fit(p, y)
    assert c.scale[0] == 1 and math.isnan(c.scores[0, 0])


def test_a_perfect_prediction_leaves_a_scale_above_zero():
    p = Prediction.gaussian(torch.zeros(10, 1), torch.ones(10, 1))
    with warnings.catch_warnings():
        assert Calibration.fit(p, torch.zeros(10, 1)).scale > 0


def test_tensors_restore_it(generator):
    p, y = gaussians(20, 2, generator)
    y[3, 0] = torch.nan
    c = Calibration.fit(p, y)
    again = Calibration.from_tensors(c.to_tensors())
    torch.testing.assert_close(c.interval(p, 0.5), again.interval(p, 0.5), rtol=0, atol=0)
