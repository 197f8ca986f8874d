import json
import math
import warnings

import pytest
import torch

from nsac.uncertainty import Calibration, Prediction, SplitConformal, VarianceScale, conformal_margin, nll
from nsac.uncertainty.calibration import PRIOR_ROWS


def mixture(n, generator, columns=(2,)):
    shape = (5, n, *columns)
    return Prediction(torch.randn(shape, generator=generator), torch.randn(shape, generator=generator) / 2)


def rebuilt(fitted):
    """Through a text file and back."""
    return type(fitted).from_dict(json.loads(json.dumps(fitted.to_dict(), allow_nan=False)))


# VarianceScale


def test_a_known_factor_is_recovered_per_column(generator):
    p, factor = mixture(20_000, generator), torch.tensor([0.5, 3.0])
    y = p.mean + factor * p.std * torch.randn(p.shape, generator=generator)
    fitted = VarianceScale.fit(p, y)
    spread = 5 * factor / math.sqrt(2 * 20_000)  # of an estimated deviation
    assert ((fitted.scale - factor).abs() < spread).all()


def test_both_variances_are_scaled_and_the_mean_stays(generator):
    p = mixture(10, generator)
    q = VarianceScale(torch.tensor([0.5, 3.0]))(p)
    square = torch.tensor([0.25, 9.0])
    expected = (p.mean, square * p.aleatoric, square * p.epistemic)
    torch.testing.assert_close((q.mean, q.aleatoric, q.epistemic), expected)


def test_the_scale_minimises_the_likelihood_of_the_matched_gaussian(generator):
    p = mixture(50, generator, ())
    y = 2 * torch.randn(50, generator=generator)
    best = VarianceScale.fit(p, y)

    def loss(scale):
        return nll(VarianceScale(scale)(p).moment_matched(), y)

    assert loss(best.scale) < min(loss(best.scale * 0.99), loss(best.scale * 1.01))


def test_scaling_once_is_enough(generator):
    p = mixture(50, generator)
    y = 2 * torch.randn(50, 2, generator=generator)
    once = VarianceScale.fit(p, y)(p)
    torch.testing.assert_close(VarianceScale.fit(once, y).scale, torch.ones(2))


def test_a_scale_keeps_single_precision(generator):
    p = mixture(10, generator)
    single = Prediction(p.mean_draws.float(), p.log_std_draws.float())
    assert VarianceScale(torch.tensor([0.5, 3.0]))(single).std.dtype == torch.float32


@pytest.mark.parametrize("columns", [(), (2,), (3, 2)])
def test_a_scale_survives_a_text_file(columns, generator):
    p = mixture(60, generator, columns)
    y = torch.randn(60, *columns, generator=generator)
    fitted = VarianceScale.fit(p, y)
    torch.testing.assert_close(rebuilt(fitted)(p).quantile(0.9), fitted(p).quantile(0.9), rtol=0, atol=0)


def test_inputs_that_do_not_fit_a_scale_are_named(generator):
    p = mixture(60, generator)
    y = torch.randn(60, 2, generator=generator)
    with pytest.raises(ValueError, match="`y` must have shape"):
        VarianceScale.fit(p, y[:, :1])
    with pytest.raises(ValueError, match="`y` must be finite"):
        VarianceScale.fit(p, y * float("nan"))
    with pytest.raises(ValueError, match="at least one entry"):
        VarianceScale.fit(p[:0], y[:0])
    with pytest.raises(ValueError, match="first axis of rows"):
        VarianceScale.fit(p[0, 0], y[0, 0])
    with pytest.raises(ValueError, match="`prediction` must have shape .rows, ..2,."):
        VarianceScale.fit(p, y)(p[:, 0])


def test_errors_of_zero_have_no_scale():
    p = Prediction.gaussian(torch.zeros(5), torch.ones(5))
    with pytest.raises(ValueError, match="no scale above 0"):
        VarianceScale.fit(p, p.mean)


# Calibration


def gaussians(n, columns, generator):
    """Predictions with half the standard deviation of the targets, and targets."""
    mean, y = torch.zeros(n, columns), 2 * torch.randn(n, columns, generator=generator)
    return Prediction.gaussian(mean, torch.ones(n, columns)), y


def test_the_scale_brings_squared_errors_to_the_variance(generator):
    p, y = gaussians(4000, 2, generator)
    c = Calibration.fit(p, y)
    torch.testing.assert_close(c.scale**2, (PRIOR_ROWS + (y**2).sum(0)) / (PRIOR_ROWS + 4000))
    torch.testing.assert_close(c.apply(p).std[0], c.scale)


def test_without_missing_targets_the_interval_is_split_conformal(generator):
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


def test_intervals_have_their_nominal_coverage(generator):
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
    torch.testing.assert_close(lower[:, 0], -conformal_margin(c.scores, 0.9)[0] * c.scale[0].expand(12))


def test_a_column_that_was_never_observed_is_not_scaled(generator):
    p, y = gaussians(30, 2, generator)
    y[:, 0] = torch.nan
    c = Calibration.fit(p, y)
    assert c.scale[0] == 1 and math.isnan(c.scores[0, 0])


def test_a_perfect_prediction_leaves_a_scale_above_zero():
    p = Prediction.gaussian(torch.zeros(10, 1), torch.ones(10, 1))
    with warnings.catch_warnings():
        assert Calibration.fit(p, torch.zeros(10, 1)).scale > 0


def test_a_calibration_survives_its_tensors(generator):
    p, y = gaussians(20, 2, generator)
    y[3, 0] = torch.nan
    c = Calibration.fit(p, y)
    again = Calibration.from_tensors(c.to_tensors())
    torch.testing.assert_close(c.interval(p, 0.5), again.interval(p, 0.5), rtol=0, atol=0)


def test_the_interval_of_a_scaled_prediction_is_that_of_the_prediction(generator):
    p, y = gaussians(100, 3, generator)
    c = Calibration.fit(p, y)
    torch.testing.assert_close(c.scaled_interval(c.apply(p), 0.8), c.interval(p, 0.8), rtol=0, atol=0)


def test_an_affine_map_commutes_with_calibration(generator):
    p, y = gaussians(100, 3, generator)
    c, scale, shift = Calibration.fit(p, y), torch.tensor([2.0, 0.1, 1e3]), torch.tensor([0.0, 5.0, -1e4])
    lower, upper = c.interval(p, 0.8)
    mapped = c.scaled_interval(c.apply(p).affine(scale, shift), 0.8)
    torch.testing.assert_close(mapped, (scale * lower + shift, scale * upper + shift))
