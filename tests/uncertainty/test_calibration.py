import json
import math
import warnings

import pytest
import torch
from scipy import stats

from nsac.uncertainty import (
    Calibration,
    Isotonic,
    Prediction,
    SplitConformal,
    VarianceScale,
    calibration_error,
    conformal_margin,
    coverage,
    ece_paper,
    error_correlation,
    interval_score,
    mse,
    nll,
    width,
)
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


def test_one_row_of_calibration_is_a_conformal_margin_for_one_half():
    p = Prediction.gaussian(torch.zeros(1, 1), torch.ones(1, 1))
    c = Calibration.fit(p, torch.tensor([[3.0]]))
    scale = ((PRIOR_ROWS + 9) / (PRIOR_ROWS + 1)) ** 0.5
    assert c.scale.item() == pytest.approx(scale) and c.scores.item() == pytest.approx(3 / scale)
    lower, upper = c.interval(p, 0.5)  # no warning
    assert (lower.item(), upper.item()) == pytest.approx((-3.0, 3.0))
    with pytest.warns(UserWarning, match="1 rows of calibration are too few .* 0.51.*lower the coverage to 0.5"):
        c.interval(p, 0.51)


@pytest.mark.parametrize(
    "change",
    [
        {"scores": torch.ones(5, 3)},  # of three columns
        {"scores": torch.ones(2)},  # no axis of rows
        {"scale": torch.tensor([1.0, 0.0])},
        {"scale": torch.tensor([1.0, torch.nan])},
    ],
)
def test_tensors_that_are_no_calibration_are_refused(change):
    with pytest.raises(ValueError, match="`scores` must have shape"):
        Calibration.from_tensors({"scale": torch.ones(2), "scores": torch.ones(5, 2), **change})


# Isotonic


def gaussian(n, generator, columns=()):
    return Prediction.gaussian(torch.zeros(n, *columns), torch.ones(n, *columns))


def skewed(n, generator):
    """Exponential values, predicted as the Gaussian of the same mean and variance."""
    return gaussian(n, generator), torch.empty(n).exponential_(generator=generator) - 1


def test_isotonic_repairs_a_wrong_shape(generator):
    q = Isotonic.fit(*skewed(2000, generator))
    p, y = skewed(20_000, generator)
    assert calibration_error(p, y) > 0.05
    assert calibration_error(q(p), y) < 0.015  # 0.5 / sqrt(2000) is the map's own error
    assert interval_score(q(p), y) < interval_score(p, y)
    assert coverage(q(p), y, 0.8) == pytest.approx(0.8, abs=0.03)


def test_a_scale_cannot_repair_a_wrong_shape(generator):
    p, y = skewed(20_000, generator)
    assert calibration_error(VarianceScale.fit(p, y)(p), y) > 0.05


def test_moments_after_recalibration_are_those_of_the_true_distribution(generator):
    """The exponential distribution has mean and deviation 1; here it is shifted by -1."""
    p, y = skewed(20_000, generator)
    q = Isotonic.fit(p, y)(p[:3])
    torch.testing.assert_close(q.mean, torch.zeros(3), rtol=0, atol=5 / 20_000**0.5)
    torch.testing.assert_close(q.std, torch.ones(3), rtol=0, atol=0.05)  # a heavy tail between two knots
    torch.testing.assert_close(q.quantile(0.5), torch.full((3,), math.log(2) - 1), rtol=0, atol=0.05)


def test_the_map_of_three_rows_by_hand():
    """Of four gaps between three values a new one falls into each alike: levels 1/4, 2/4, 3/4."""
    p = Prediction.gaussian(torch.zeros(3), torch.ones(3))
    y = torch.special.ndtri(torch.tensor([0.9, 0.2, 0.5]))
    torch.testing.assert_close(Isotonic.fit(p, y)(p).cdf(y), torch.tensor([0.75, 0.25, 0.5]))


def test_the_identity_map_changes_nothing(generator):
    p = mixture(6, generator)
    q = Isotonic(torch.linspace(0, 1, 201)[:, None].expand(-1, 2))(p)
    y = torch.randn(6, 2, generator=generator)
    torch.testing.assert_close((q.cdf(y), q.quantile(0.3)), (p.cdf(y), p.quantile(0.3)))
    assert ((q.mean - p.mean).abs() < 0.01 * p.std).all()  # of the integral over 61 quantiles
    assert ((q.std / p.std - 1).abs() < 0.01).all()
    assert q.shape == p.shape


def test_recalibrated_quantiles_invert_the_recalibrated_cdf(generator):
    p = mixture(300, generator)
    q = Isotonic.fit(p, 2 * torch.randn(300, 2, generator=generator))(p)
    for level, values in zip((0.02, 0.5, 0.97), q.quantile([0.02, 0.5, 0.97]), strict=True):
        torch.testing.assert_close(q.cdf(values), torch.full((300, 2), level), rtol=1e-6, atol=1e-9)
    lower, upper = q.interval(0.9)
    torch.testing.assert_close((lower, upper), (q.quantile(0.05), q.quantile(0.95)))


def test_columns_have_maps_of_their_own(generator):
    p = gaussian(5000, generator, (2,))
    y = torch.tensor([0.5, 2.0]) * torch.randn(5000, 2, generator=generator)
    q = Isotonic.fit(p, y)(p)
    inside = coverage(q, y, 0.8, reduce=False).mean(0)
    assert ((inside - 0.8).abs() < 0.02).all()
    expected = torch.tensor([0.5, 2.0]) * stats.norm.ppf(0.9)
    torch.testing.assert_close(q.quantile(0.9)[0], expected, rtol=0.1, atol=0)  # 5000 rows


def test_recalibrated_predictions_can_be_scored(generator):
    p, y = skewed(200, generator)
    q = Isotonic.fit(p, y)(p)
    for score in (mse, ece_paper, error_correlation, interval_score):
        assert math.isfinite(score(q, y))
    assert width(q) > 0
    with pytest.raises(ValueError, match="`by` must be one of 'std'"):
        error_correlation(q, y, "epistemic")


def test_values_beyond_all_predictions_keep_quantiles_finite():
    p = Prediction.gaussian(torch.zeros(50), torch.full((50,), 1e-3))
    y = torch.linspace(-1, 1, 50)  # up to a thousand deviations away: levels are 0 or 1
    q = Isotonic.fit(p, y)(p)
    assert torch.isfinite(q.quantile([0.001, 0.5, 0.999])).all() and torch.isfinite(q.std).all()


@pytest.mark.parametrize("columns", [(), (2,), (3, 2)])
def test_a_map_survives_a_text_file(columns, generator):
    p = mixture(60, generator, columns)
    y = torch.randn(60, *columns, generator=generator)
    fitted = Isotonic.fit(p, y)
    torch.testing.assert_close(rebuilt(fitted)(p).quantile(0.9), fitted(p).quantile(0.9), rtol=0, atol=0)


def test_inputs_that_do_not_fit_a_map_are_named(generator):
    p = mixture(60, generator)
    y = torch.randn(60, 2, generator=generator)
    with pytest.raises(ValueError, match="`y` must have shape"):
        Isotonic.fit(p, y[:, :1])
    with pytest.raises(ValueError, match="`y` must be finite"):
        Isotonic.fit(p, y * float("nan"))
    with pytest.raises(ValueError, match="at least one entry"):
        Isotonic.fit(p[:0], y[:0])
    with pytest.raises(ValueError, match="first axis of rows"):
        Isotonic.fit(p[0, 0], y[0, 0])
    with pytest.raises(ValueError, match="`prediction` must have shape .rows, ..2,."):
        Isotonic.fit(p, y)(p[:, 0])


def test_the_moments_of_a_map_that_changes_nothing_are_those_of_the_prediction():
    p = Prediction.gaussian(torch.tensor([3.0, -1.0]), torch.tensor([1.0, 20.0]))
    q = Isotonic(torch.linspace(0, 1, 201))(p)
    torch.testing.assert_close((q.mean, q.std), (p.mean, p.std), rtol=1e-4, atol=1e-6)  # tails end at five std
