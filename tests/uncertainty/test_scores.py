import math

import numpy as np
import pytest
import scoringrules
import torch
import uncertainty_toolbox as toolbox
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from nsac.uncertainty import (
    Isotonic,
    Prediction,
    ause,
    calibration_error,
    coverage,
    crps,
    ece_paper,
    error_correlation,
    interval_score,
    mae,
    mse,
    nll,
    pit,
    rmse,
    score_table,
    sharpness,
    sparsify,
    width,
)
from support import ALPHA

ENTRYWISE = [mse, mae, nll, crps, coverage, interval_score]
POOLED = [rmse, pit, calibration_error, ece_paper, ause, error_correlation, score_table]


def problem(n=6, shape=(40, 2), seed=0):
    g = torch.Generator().manual_seed(seed)
    mean, log_std = torch.randn(n, *shape, generator=g), torch.randn(n, *shape, generator=g) / 2
    return Prediction(mean, log_std), 2 * torch.randn(shape, generator=g)


def gaussian(n=500, seed=0, scale=1.0, shift=0.0):
    """A prediction and values from it; the prediction then gets `scale` and `shift` wrong."""
    g = torch.Generator().manual_seed(seed)
    mean, std = torch.randn(n, generator=g), 0.5 + torch.rand(n, generator=g)
    y = mean + std * torch.randn(n, generator=g)
    return Prediction.gaussian(mean + shift * std, scale * std), y


def flat(p, y):
    return p.mean.numpy(), p.std.numpy(), y.numpy()


# Oracles


def test_one_draw_has_the_crps_of_a_gaussian():
    p, y = gaussian()
    mean, std, values = flat(p, y)
    np.testing.assert_allclose(crps(p, y, reduce=False).numpy(), scoringrules.crps_normal(values, mean, std), rtol=1e-9)


def test_crps_is_the_integral_of_the_squared_distance_of_the_cdf_to_the_step():
    p, y = problem(shape=(5,))
    for i, value in enumerate(y.tolist()):
        one = p[i]

        def square(t, one=one, value=value):
            return (one.cdf(torch.tensor(t)).item() - (t >= value)) ** 2

        whole = sum(integrate.quad(square, *ends, epsabs=1e-10)[0] for ends in ((-40, value), (value, 40)))
        assert crps(one, y[i]) == pytest.approx(whole, rel=1e-6)


def test_crps_in_pieces_is_crps(monkeypatch):
    p, y = problem()
    whole = crps(p, y, reduce=False)
    monkeypatch.setattr("nsac.uncertainty.scores.CRPS_CHUNK_PAIRS", 7 * 36)  # 80 entries, seven at a time
    torch.testing.assert_close(crps(p, y, reduce=False), whole, rtol=0, atol=0)


@pytest.mark.parametrize("pairs, sizes", [(35, [1] * 4), (72, [2, 2]), (108, [3, 1]), (10_000, [4])])
def test_crps_compares_at_most_so_many_pairs_of_draws_at_once(pairs, sizes, monkeypatch):
    p, y = problem(6, (4,))  # 36 pairs an entry
    seen, crps_mixnorm = [], scoringrules.crps_mixnorm
    monkeypatch.setattr("nsac.uncertainty.scores.CRPS_CHUNK_PAIRS", pairs)
    monkeypatch.setattr(scoringrules, "crps_mixnorm", lambda y, m, s: seen.append(len(y)) or crps_mixnorm(y, m, s))
    crps(p, y)
    assert seen == sizes


def test_uncertainty_toolbox_agrees():
    p, y = gaussian()
    mean, std, values = flat(p, y)
    assert nll(p, y) == pytest.approx(toolbox.nll_gaussian(mean, std, values), rel=1e-6)
    assert crps(p, y) == pytest.approx(toolbox.crps_gaussian(mean, std, values), rel=1e-6)
    assert sharpness(p, reduce=False).square().mean().sqrt().item() == pytest.approx(toolbox.sharpness(std), rel=1e-6)
    by_level = [interval_score(p, y, level) for level in np.linspace(0.01, 0.99, 99)]
    assert np.mean(by_level) == pytest.approx(toolbox.interval_score(mean, std, values), rel=1e-6)
    inside = toolbox.get_proportion_in_interval(mean, std, values, 0.9)
    assert coverage(p, y) == pytest.approx(inside, abs=1e-12)


def test_the_calibration_error_is_that_of_shares_below_quantiles():
    p, y = problem()
    levels = [k / 20 for k in range(1, 20)]
    shares = [(y <= p.quantile(q)).double().mean().item() for q in levels]
    assert calibration_error(p, y) == pytest.approx(np.abs(np.array(shares) - levels).mean(), abs=1e-12)
    assert coverage(p, y, 0.8) == pytest.approx(shares[17] - shares[1])


def test_a_value_on_the_end_of_the_interval_is_covered():
    """Above one of two components and in the middle of the other: the level is exactly 3/4."""
    p = Prediction(torch.tensor([[0.0], [1e3]]), torch.zeros(2, 1))
    assert coverage(p, torch.tensor([1e3]), 0.5) == 1 and coverage(p, torch.tensor([1e3]), 0.49) == 0


def test_error_correlation_is_spearmans_with_ties():
    p, y = problem()
    doubt = p.std.round(decimals=1)
    expected = stats.spearmanr(doubt.flatten(), (y - p.mean).abs().flatten()).statistic
    assert error_correlation(p, y, doubt) == pytest.approx(expected, rel=1e-9)


def test_plain_errors_are_those_of_numpy():
    p, y = problem()
    error = (y - p.mean).numpy()
    assert mse(p, y) == pytest.approx(np.mean(error**2))
    assert rmse(p, y) == pytest.approx(np.mean(error**2) ** 0.5)
    assert mae(p, y) == pytest.approx(np.mean(np.abs(error)))


def test_width_is_the_distance_of_the_ends():
    p, _ = problem()
    lower, upper = p.interval(0.8)
    torch.testing.assert_close(width(p, 0.8, reduce=False), upper - lower)


# What a score is for


@pytest.mark.parametrize("score", [nll, crps, interval_score])
@pytest.mark.parametrize("wrong", [{"scale": 0.8}, {"scale": 1.25}, {"shift": 0.3}, {"shift": -0.3}])
def test_a_proper_score_prefers_the_truth(score, wrong, seed):
    truth, y = gaussian(20_000, seed)
    other, _ = gaussian(20_000, seed, **wrong)
    worse = (score(other, y, reduce=False) - score(truth, y, reduce=False)).numpy()
    assert stats.ttest_1samp(worse, 0, alternative="greater").pvalue < ALPHA


@pytest.mark.parametrize("wrong", [{"scale": 0.8}, {"scale": 1.25}, {"shift": 0.5}])
@pytest.mark.parametrize("score", [calibration_error, ece_paper])
def test_calibration_is_near_zero_for_the_truth_and_not_for_others(score, wrong, seed):
    truth, y = gaussian(20_000, seed)
    other, _ = gaussian(20_000, seed, **wrong)
    assert score(truth, y) < 3 * 0.5 / 20_000**0.5  # the spread of a share is at most 0.5 / sqrt(n)
    assert score(other, y) > 0.015


def test_the_pit_of_the_truth_is_uniform(generator):
    p, _ = problem(shape=(20_000,))
    y = p.sample(1, generator)[0]
    assert stats.kstest(pit(p, y).numpy(), "uniform").pvalue > ALPHA


@given(st.floats(0.01, 100), st.floats(-100, 100), st.integers(1, 5), st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_units_only_rescale(scale, shift, n, seed):
    """Celsius or Fahrenheit: errors scale, likelihood shifts, calibration and order stay."""
    p, y = problem(n, (20,), seed)
    other = Prediction(scale * p.mean_draws + shift, p.log_std_draws + math.log(scale))
    before, after = score_table(p, y), score_table(other, scale * y + shift)
    tight = {"rel": 1e-6, "abs": 1e-9}
    for name in ("rmse", "mae", "crps", "width_90", "interval_score_90", "sharpness"):
        assert after[name] == pytest.approx(scale * before[name], **tight)
    for name in ("mse", "aleatoric", "epistemic"):
        assert after[name] == pytest.approx(scale**2 * before[name], **tight)
    assert after["nll"] == pytest.approx(before["nll"] + math.log(scale), **tight)
    assert after["ece_paper"] == pytest.approx(before["ece_paper"], **tight)
    assert ause(other, scale * y + shift) == pytest.approx(ause(p, y), **tight)


# The paper's calibration error


def test_ece_paper_of_a_toy_by_hand():
    """Confidences 0.02, 0.12, 0.52, 0.58: midpoints 0.05, 0.15, 0.55, shares below 1/4, 2/4, 3/4, 3/4."""
    c = torch.tensor([0.02, 0.12, 0.52, 0.58])
    y = torch.special.ndtri((1 + c) / 2) * torch.tensor([1.0, -1.0, 1.0, -1.0])
    p = Prediction.gaussian(torch.zeros(4), torch.ones(4))
    by_hand = (1 * (0.25 - 0.05) + 1 * (0.50 - 0.15) + 2 * (0.75 - 0.55)) / 4
    assert ece_paper(p, y) == pytest.approx(by_hand)


def test_the_paper_taken_literally_scores_perfection_with_thirteen_per_cent():
    """z against the midpoint of bins of c; every bin holds a tenth of a perfect prediction's samples."""
    midpoints = (np.arange(10) + 0.5) / 10
    literal = np.abs(2 * stats.norm.cdf(midpoints) - 1 - midpoints).mean()
    assert literal == pytest.approx(0.13, abs=0.005)


def test_ece_paper_hardly_sees_a_shift():
    """It looks at |y - mean| only; values above and below make up for each other."""
    p, y = gaussian(20_000, shift=0.3)
    assert ece_paper(p, y) < 0.02 < 0.05 < calibration_error(p, y)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_ece_paper_is_largest_when_the_deviation_is_absurd(scale):
    p, y = gaussian(1000, scale=scale)
    assert ece_paper(p, y) == pytest.approx(0.95, abs=0.01)


# Order by uncertainty


def test_sparsification_of_a_toy_by_hand():
    p = Prediction.gaussian(torch.zeros(3), torch.tensor([1.0, 2.0, 3.0]))
    y = torch.tensor([1.0, 5.0, 2.0])
    left_out, curve, oracle = sparsify(p, y)
    torch.testing.assert_close(left_out, torch.tensor([0, 1 / 3, 2 / 3]))
    torch.testing.assert_close(curve, torch.tensor([10.0, 13, 1]).sqrt() / 10**0.5)
    torch.testing.assert_close(oracle, torch.tensor([10.0, 2.5, 1]).sqrt() / 10**0.5)
    assert ause(p, y) == pytest.approx((13**0.5 - 2.5**0.5) / 10**0.5 / 3)


def test_uncertainty_that_is_the_error_has_no_area():
    p, y = problem()
    assert ause(p, y, (y - p.mean).abs()) == pytest.approx(0, abs=1e-12)
    assert error_correlation(p, y, (y - p.mean).abs()) == pytest.approx(1)


def test_constant_uncertainty_is_worth_nothing_whatever_the_order_of_rows():
    p, y = problem(n=1)
    order = (y - p.mean).abs().flatten().argsort()
    q, z = Prediction(p.mean_draws.flatten(1)[:, order], p.log_std_draws.flatten(1)[:, order]), y.flatten()[order]
    _, curve, _ = sparsify(q, z, "epistemic")  # one draw: 0 everywhere
    torch.testing.assert_close(curve, torch.ones(80))
    assert ause(q, z, "epistemic") == pytest.approx(ause(p, y, "epistemic"))
    assert error_correlation(p, y, "epistemic") == 0


def test_a_perfect_mean_has_nothing_to_sparsify():
    p, _ = problem()
    assert ause(p, p.mean) == 0 and error_correlation(p, p.mean) == 0


# One table, floats, entries


def test_the_table_holds_the_scores():
    p, y = problem()
    table = score_table(p, y)
    single = (mse, rmse, mae, nll, crps, ece_paper, calibration_error)
    expected = {score.__name__: score(p, y) for score in single}
    expected |= {"coverage_90": coverage(p, y), "width_90": width(p), "interval_score_90": interval_score(p, y)}
    expected |= {"sharpness": sharpness(p), "aleatoric": p.aleatoric.mean().item()}
    expected |= {"epistemic": p.epistemic.mean().item()}
    assert table == pytest.approx(expected, rel=1e-12)
    assert all(type(value) is float for value in table.values())


@pytest.mark.parametrize("score", ENTRYWISE)
def test_a_score_is_the_mean_of_its_entries(score):
    p, y = problem()
    entries = score(p, y, reduce=False)
    assert entries.shape == y.shape
    assert type(score(p, y)) is float
    assert score(p, y) == pytest.approx(entries.mean().item())


@pytest.mark.parametrize("score", [*ENTRYWISE, *POOLED])
def test_single_precision_scores_alike(score):
    p, y = problem()
    single = score(Prediction(p.mean_draws.float(), p.log_std_draws.float()), y.float())
    if isinstance(single, torch.Tensor):
        single = single.double()
    double = score(p, y)
    assert single == pytest.approx(double, rel=1e-4, abs=1e-5)  # of single precision


def test_scores_do_not_depend_on_the_default_precision():
    p, y = problem()
    table, correlation = score_table(p, y), error_correlation(p, y)
    torch.set_default_dtype(torch.float32)
    try:
        assert (score_table(p, y), error_correlation(p, y)) == (table, correlation)
    finally:
        torch.set_default_dtype(torch.float64)


# Bad input


@pytest.mark.parametrize("score", [*ENTRYWISE, *POOLED, sparsify])
@pytest.mark.parametrize(
    "change, named",
    [
        (lambda m, s, y: (m, s, y[:, :1]), "`y` must have shape"),  # would broadcast
        (lambda m, s, y: (m, s, y[0]), "`y` must have shape"),
        (lambda m, s, y: (m, s, y * float("nan")), "`y` must be finite.*nan"),
        (lambda m, s, y: (m, s, y / 0), "`y` must be finite.*inf"),
        (lambda m, s, y: (m, s, y.numpy()), "`y` must be a tensor"),
        (lambda m, s, y: (m * float("nan"), s, y), "prediction's mean must be finite"),
        (lambda m, s, y: (m, s - math.inf, y), "standard deviation must be finite and above 0. Got 0.0"),
        (lambda m, s, y: (m, s + 1e4, y), "standard deviation must be finite and above 0. Got inf"),
        (lambda m, s, y: (m[:, :0], s[:, :0], y[:0]), "must have at least one entry"),
    ],
)
def test_what_cannot_be_scored_is_named(score, change, named):
    p, y = problem()
    m, s, y = change(p.mean_draws, p.log_std_draws, y)
    with pytest.raises(ValueError, match=named):
        score(Prediction(m, s), y)


@pytest.mark.parametrize("score", [width, sharpness])
def test_what_has_no_spread_is_named(score):
    p, _ = problem()
    with pytest.raises(ValueError, match="standard deviation"):
        score(Prediction(p.mean_draws, p.log_std_draws - math.inf))


@pytest.mark.parametrize("nominal", [0, 1, 90, float("nan")])
def test_a_coverage_is_a_probability(nominal):
    p, y = problem()
    for call in (lambda: coverage(p, y, nominal), lambda: width(p, nominal), lambda: interval_score(p, y, nominal)):
        with pytest.raises(ValueError, match="`coverage`"):
            call()


def test_an_uncertainty_must_be_known_or_fit():
    p, y = problem()
    with pytest.raises(ValueError, match="`by` must be one of 'std', 'epistemic', 'aleatoric'"):
        ause(p, y, "total")
    with pytest.raises(ValueError, match="`by` must have shape"):
        ause(p, y, p.std[:, :1])
    with pytest.raises(ValueError, match="`by` must be finite"):
        error_correlation(p, y, p.std * float("nan"))


@pytest.mark.parametrize("score", [nll, crps])
def test_scores_of_a_density_need_a_mixture(score):
    p, y = problem()
    with pytest.raises(ValueError, match="must be a Prediction.*Recalibrated"):
        score(Isotonic.fit(p, y)(p), y)
