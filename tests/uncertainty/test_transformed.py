import numpy as np
import pytest
import scoringrules
import torch
from scipy import integrate, stats

from nsac.core import mixture_quantile
from nsac.uncertainty import (
    Link,
    Prediction,
    TransformedPrediction,
    ause,
    coverage,
    crps,
    interval_score,
    nll,
    pit,
    prediction_columns,
    score_table,
    width,
)
from support import ALPHA

TINY = 1e-12
LINKS = [
    Link("log", 0.0, margin=0.05),
    Link("log", upper=2.0, margin=0.05),
    Link("softplus", 1.0, scale=2.0, margin=0.1),
    Link("logit", 0.0, 3.0, margin=0.01),
]
ALL = pytest.mark.parametrize("link", LINKS, ids=[f"{link.name}, {link.lower}, {link.upper}" for link in LINKS])
STDS = pytest.mark.parametrize("std", [0.01, 0.5, 2.0, 5.0])


def mixture(n=6, shape=(40, 2), seed=0):
    g = torch.Generator().manual_seed(seed)
    return Prediction(torch.randn(n, *shape, generator=g), torch.randn(n, *shape, generator=g) / 2 - 0.5)


def lognormal(std: float, mean=0.3, shift=0.0):
    p = Prediction.gaussian(torch.tensor([mean]), torch.tensor([std]))
    return TransformedPrediction(p, Link("log", shift, margin=TINY)), stats.lognorm(std, shift, np.exp(mean))


# Oracles


def test_the_identity_changes_nothing(generator):
    p = mixture()
    t, y = TransformedPrediction(p, Link("identity")), p.sample(1, generator)[0]
    for name in ("mean", "aleatoric", "epistemic", "variance", "std"):
        torch.testing.assert_close(getattr(t, name), getattr(p, name), rtol=0, atol=0)
    torch.testing.assert_close(t.quantile([0.1, 0.7]), p.quantile([0.1, 0.7]), rtol=0, atol=0)
    torch.testing.assert_close(t.cdf(y), p.cdf(y), rtol=0, atol=0)
    torch.testing.assert_close(t.log_prob(y), p.log_prob(y), rtol=0, atol=0)
    assert score_table(t, y) == score_table(p, y)


@STDS
def test_one_draw_with_a_log_link_has_the_moments_of_a_lognormal(std: float):
    t, d = lognormal(std)
    assert t.mean.item() == pytest.approx(d.mean(), rel=1e-7)
    assert t.variance.item() == pytest.approx(d.var(), rel=1e-3)


@STDS
def test_one_draw_with_a_log_link_is_a_lognormal(std: float):
    t, d = lognormal(std, shift=-2.0)
    for q in (0.01, 0.5, 0.99):
        y = torch.tensor([d.ppf(q)])
        assert t.quantile(q).item() == pytest.approx(y.item())
        assert t.cdf(y).item() == pytest.approx(q, rel=1e-6)  # -2 + 1e-5 has lost some digits
        assert nll(t, y) == pytest.approx(-d.logpdf(y.item()), abs=1e-4)


@STDS
@pytest.mark.parametrize("q", [1e-6, 0.1, 0.5, 0.9, 0.999])
def test_one_draw_with_a_log_link_has_the_crps_of_a_lognormal(std: float, q: float):
    t, d = lognormal(std)
    y = d.ppf(q)
    assert crps(t, torch.tensor([y])) == pytest.approx(float(scoringrules.crps_lognormal(y, 0.3, std)), rel=1e-6)


@ALL
def test_the_crps_is_the_integral_of_the_squared_error_of_the_cdf(link: Link, generator):
    t = TransformedPrediction(mixture(20, (8,)), link)
    y = t.sample(1, generator)[0]
    for i, score in enumerate(crps(t, y, reduce=False)):
        ends = link.inverse(torch.tensor([-25.0, 25.0])).tolist()
        below, above = (
            np.geomspace(1e-9, y[i] - ends[0] + 1e-9, 20001),
            np.geomspace(1e-9, ends[1] - y[i] + 1e-9, 20001),
        )
        total = 0.0
        for x, passed in ((y[i] - torch.as_tensor(below), 0.0), (y[i] + torch.as_tensor(above), 1.0)):
            error = cdf_at(t, i, x) - passed
            total += abs(integrate.trapezoid(error.square().numpy(), x.numpy()))
        assert score.item() == pytest.approx(total, rel=1e-3)


def cdf_at(t: TransformedPrediction, i: int, x: torch.Tensor) -> torch.Tensor:
    p = t.prediction[i]
    n = len(p.mean_draws)
    many = Prediction(p.mean_draws.reshape(n, 1).expand(n, len(x)), p.log_std_draws.reshape(n, 1).expand(n, len(x)))
    return TransformedPrediction(many, t.link).cdf(x)


@ALL
def test_the_crps_of_narrow_draws_far_apart_is_accurate(link: Link):
    """Standard deviations of 0.02 to 1: each narrow draw is a step of the CDF."""
    mean, std = torch.linspace(-1, 1, 20), torch.logspace(-1.7, 0, 20)
    t = TransformedPrediction(Prediction(mean[:, None], std.log()[:, None]), link)
    y = link.inverse(torch.tensor([0.4]))
    levels, weights = np.polynomial.legendre.leggauss(1000)
    q = torch.as_tensor((levels + 1) / 2)
    quantiles = link.inverse(mixture_quantile(mean[:, None], std[:, None], q))
    pinball = torch.where(y < quantiles, (1 - q) * (quantiles - y), q * (y - quantiles))
    assert crps(t, y) == pytest.approx((torch.as_tensor(weights) * pinball).sum().item(), rel=0.01)


@ALL
def test_moments_are_those_of_samples(link: Link, generator):
    t = TransformedPrediction(mixture(5, (3,)), link)
    sample = t.sample(200_000, generator)
    z = (sample.mean(0) - t.mean) / (sample.std(0) / 200_000**0.5)
    assert (2 * stats.norm.sf(z.abs().numpy()) > ALPHA).all()
    torch.testing.assert_close(sample.median(0).values, t.quantile(0.5), rtol=0.02, atol=0.02)


@ALL
def test_total_variance_is_that_of_the_draws(link: Link):
    """Law of total variance: the moments of the mixture are the means of those of its draws."""
    t = TransformedPrediction(mixture(), link)
    means, squares = [], []
    for mean, log_std in zip(t.prediction.mean_draws, t.prediction.log_std_draws, strict=True):
        draw = TransformedPrediction(Prediction(mean[None], log_std[None]), link)
        assert (draw.epistemic == 0).all()
        means.append(draw.mean)
        squares.append(draw.variance + draw.mean.square())
    mean = torch.stack(means).mean(0)
    torch.testing.assert_close(t.mean, mean)
    torch.testing.assert_close(t.variance, torch.stack(squares).mean(0) - mean.square())
    torch.testing.assert_close(t.variance, t.aleatoric + t.epistemic, rtol=0, atol=0)


# Bounds


@ALL
@pytest.mark.parametrize("mean", [-1e3, -5.0, 0.0, 5.0, 1e3])
@pytest.mark.parametrize("std", [1e-3, 1.0, 50.0])
def test_no_value_leaves_the_bounds_and_all_are_finite(link: Link, mean: float, std: float):
    t = TransformedPrediction(Prediction(torch.tensor([[mean], [mean + 1]]), torch.tensor([[std], [std]]).log()), link)
    lower, upper = t.interval(0.99)
    for value in (t.mean, lower, upper, t.quantile(1e-9)):
        assert value.isfinite().all() and torch.equal(value, link.clamp(value))
    assert t.variance.isfinite().all() and (t.std > 0).all()


@ALL
def test_scores_of_values_on_a_bound_are_finite(link: Link):
    t = TransformedPrediction(mixture(), link)
    for bound in (link.lower, link.upper):
        if bound is not None:
            assert np.isfinite(list(score_table(t, torch.full((40, 2), bound)).values())).all()


def test_a_value_on_a_bound_is_in_an_interval_that_ends_there():
    t = TransformedPrediction(Prediction.gaussian(torch.full((4,), -9.0), torch.ones(4)), Link("log", 0.0, margin=0.1))
    assert t.interval(0.9)[0].tolist() == t.interval(0.9)[1].tolist() == [0.0] * 4
    assert coverage(t, torch.zeros(4)) == score_table(t, torch.zeros(4))["coverage_90"] == 1
    assert coverage(t, torch.ones(4)) == 0


def test_the_cdf_is_zero_below_the_range_and_one_from_its_upper_end_on():
    t = TransformedPrediction(Prediction.gaussian(torch.zeros(4), torch.ones(4)), Link("logit", 0.0, 1.0, margin=0.2))
    level = t.cdf(torch.tensor([-1.0, 0.0, 1.0, 2.0]))
    atom = stats.norm.cdf(np.log(0.2 / 1.2))
    assert level.tolist() == pytest.approx([0.0, atom, 1.0, 1.0])
    assert pit(t[:2], torch.tensor([0.0, 1.0])).tolist() == pytest.approx([atom / 2, 1 - atom / 2])


def test_a_score_refuses_values_outside_the_bounds():
    t = TransformedPrediction(mixture(), Link("log", 0.0))
    for score in (crps, nll, pit):
        with pytest.raises(ValueError, match="`target_range` must contain"):
            score(t, torch.full((40, 2), -1.0))


# Interface


@ALL
def test_intervals_have_their_nominal_coverage_and_the_pit_is_uniform(link: Link, generator):
    fine = Link(link.name, link.lower, link.upper, link.scale, TINY)
    t = TransformedPrediction(mixture(5, (4000,)), fine)
    y = t.sample(1, generator)[0]
    assert stats.kstest(pit(t, y).numpy(), "uniform").pvalue > ALPHA
    assert stats.binomtest(int(coverage(t, y, 0.8, reduce=False).sum()), 4000, 0.8).pvalue > ALPHA


@ALL
def test_the_density_is_the_slope_of_the_cdf(link: Link):
    t = TransformedPrediction(mixture(5, (50,)), link)
    y = t.quantile(0.3).detach().requires_grad_()
    (slope,) = torch.autograd.grad(t.prediction.cdf(link.forward(y)).sum(), y)
    torch.testing.assert_close(t.log_prob(y.detach()), slope.log())


def test_rows_of_a_prediction_are_those_of_its_scores(generator):
    t = TransformedPrediction(mixture(), LINKS[0])
    y = t.sample(1, generator)[0]
    torch.testing.assert_close(crps(t[5:9, 1], y[5:9, 1], reduce=False), crps(t, y, reduce=False)[5:9, 1])
    assert t[5:9].shape == (4, 2) and t[5:9].mean.shape == (4, 2)


def test_chunks_do_not_change_the_crps(generator, monkeypatch):
    t = TransformedPrediction(mixture(), LINKS[0])
    y = t.sample(1, generator)[0]
    whole = crps(t, y, reduce=False)
    monkeypatch.setattr("nsac.uncertainty.transformed.CRPS_CHUNK", 1)
    torch.testing.assert_close(crps(t, y, reduce=False), whole)


def test_single_precision_is_scored_as_double_precision(generator):
    p = mixture()
    single = Prediction(p.mean_draws.float(), p.log_std_draws.float())
    t = TransformedPrediction(p, LINKS[3])
    y = t.sample(1, generator)[0]
    other = score_table(TransformedPrediction(single, LINKS[3]), y.float())
    assert other == pytest.approx(score_table(t, y), rel=1e-4)


def test_other_scores_and_tables_take_it(generator):
    t = TransformedPrediction(mixture(), LINKS[3])
    y = t.sample(1, generator)[0]
    assert interval_score(t, y) >= width(t) > 0 and np.isfinite(ause(t, y, by="epistemic"))
    columns = prediction_columns(t, {0.9: t.interval(0.9)}, {0.5: t.quantile(0.5)}, ["a", "b"])
    np.testing.assert_array_equal(t.to_frame(names=["a", "b"])["lower_90_b"], columns["lower_90_b"])
    torch.testing.assert_close(t.moment_matched().std, t.std)


def test_a_prediction_without_a_proper_distribution_is_refused():
    p = Prediction(torch.tensor([[torch.nan]]), torch.zeros(1, 1))
    with pytest.raises(ValueError, match="mean must be finite"):
        crps(TransformedPrediction(p, LINKS[0]), torch.ones(1))
