import json

import pytest
import torch
from scipy import stats

from nsac.uncertainty import Prediction, SplitConformal, conformal_margin
from support import ALPHA


def problem(n, generator, columns=(), wrong=1.0):
    """Heavy-tailed errors on a prediction that knows their scale up to the factor `wrong`."""
    shape = (n, *columns)
    mean, std = torch.randn(shape, generator=generator), 0.5 + torch.rand(shape, generator=generator)
    t = torch.randn(shape, generator=generator) / torch.rand(shape, generator=generator).sqrt()
    return Prediction.gaussian(mean, wrong * std), mean + std * t


def inside(interval, y):
    return (y >= interval[0]) & (y <= interval[1])


def rebuilt(fitted):
    """Through a text file and back."""
    return type(fitted).from_dict(json.loads(json.dumps(fitted.to_dict(), allow_nan=False)))


def test_the_margin_is_the_score_of_its_rank():
    scores = torch.tensor([[0.3, 3.0], [0.1, torch.nan], [0.2, 1.0]])
    torch.testing.assert_close(conformal_margin(scores, 0.5), torch.tensor([0.2, 3.0]))  # ranks 2 of 3 and 2 of 2


def test_too_few_scores_have_an_infinite_margin():
    scores = torch.tensor([[0.3, torch.nan], [0.1, torch.nan]])
    assert conformal_margin(scores, 0.9).isinf().all()
    assert conformal_margin(scores[:0], 0.9).isinf().all()


def test_a_rank_below_one_has_a_margin_of_zero():
    assert conformal_margin(torch.tensor([[0.3], [0.1]]), torch.tensor([-0.5])).tolist() == [0.0]


def test_a_margin_has_the_shape_of_its_coverages(generator):
    scores = torch.rand(50, 2, 3, generator=generator)
    coverages = torch.tensor([0.5, 0.9]).reshape(2, 1, 1).expand(2, 2, 3)
    margin = conformal_margin(scores, coverages)
    torch.testing.assert_close(margin[1], conformal_margin(scores, 0.9), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_rank_does_not_depend_on_the_default_precision(dtype):
    """In single precision 25 * 0.6 is a little more than 15."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        margin = conformal_margin(torch.arange(1, 25, dtype=torch.float64), 0.6)
    finally:
        torch.set_default_dtype(before)
    assert margin == 15


def test_the_margin_of_a_toy_by_hand():
    """Nine scores 0.1 to 0.9: nine in ten of the ten possible ranks are at most the ninth score."""
    p = Prediction.gaussian(torch.zeros(9), torch.full((9,), 2.0))
    fitted = SplitConformal.fit(p, 2 * torch.arange(9, 0, -1) / 10 * torch.tensor([1, -1, 1, -1, 1, -1, 1, -1, 1]))
    new = Prediction.gaussian(torch.tensor([5.0]), torch.tensor([10.0]))
    for level, margin in ((0.9, 9.0), (0.5, 5.0), (0.51, 6.0), (0.7, 7.0)):
        lower, upper = fitted.interval(new, level)
        assert (lower.item(), upper.item()) == pytest.approx((5 - margin, 5 + margin))


@pytest.mark.parametrize("n, k", [(50, 46), (200, 181)])
def test_coverage_over_repeats_follows_its_beta_distribution(n, k, generator):
    """Given the calibration rows, coverage is Beta(k, n + 1 - k), k = ceil(0.9 (n + 1)), whatever the data."""
    cdf = []
    for _ in range(200):
        fitted = SplitConformal.fit(*problem(n, generator, wrong=0.3))
        p, y = problem(4000, generator, wrong=0.3)
        hits = int(inside(fitted.interval(p, 0.9), y).sum())
        law = stats.betabinom(4000, k, n + 1 - k)
        cdf.append((law.cdf(hits) + law.cdf(hits - 1)) / 2)  # halfway up the step: all but continuous
    assert stats.kstest(cdf, "uniform").pvalue > ALPHA
    assert all(ALPHA / 200 < c < 1 - ALPHA / 200 for c in cdf)


def test_columns_are_covered_each_by_itself(generator):
    wrong = torch.tensor([0.2, 5.0])
    p, y = problem(4000, generator, (2,), wrong)
    fitted = SplitConformal.fit(p, y)
    p, y = problem(20_000, generator, (2,), wrong)
    share = inside(fitted.interval(p, 0.8), y).double().mean(0)
    assert ((share - 0.8).abs() < 0.03).all()  # 0.4 / sqrt(4000) is 0.006


def test_a_joint_band_covers_all_columns_at_once(generator):
    fitted = SplitConformal.fit(*problem(4000, generator, (6,)))
    p, y = problem(20_000, generator, (6,))
    single, joint = (inside(band, y).all(1).double().mean() for band in (fitted.interval(p), fitted.joint_interval(p)))
    assert abs(joint - 0.9) < 0.02  # 0.3 / sqrt(4000) is 0.005
    assert single < 0.7  # 0.9^6 = 0.53


def test_one_column_is_its_own_joint_band(generator):
    p, y = problem(100, generator)
    fitted = SplitConformal.fit(p, y)
    torch.testing.assert_close(fitted.interval(p), fitted.joint_interval(p))


def test_the_error_of_too_few_rows_names_how_many_are_needed(generator):
    p, y = problem(50, generator)
    with pytest.raises(ValueError, match="`coverage`.*n = 8 .*Got 0.9 instead, which needs 9 rows"):
        SplitConformal.fit(p[:8], y[:8]).interval(p, 0.9)
    SplitConformal.fit(p[:9], y[:9]).interval(p, 0.9)
    with pytest.raises(ValueError, match="needs 99 rows"):
        SplitConformal.fit(p, y).joint_interval(p, 0.99)


@pytest.mark.parametrize("columns", [(), (2,), (3, 2)])
def test_the_split_state_survives_a_text_file(columns, generator):
    p, y = problem(60, generator, columns)
    fitted = SplitConformal.fit(p, y)
    again = rebuilt(fitted)
    torch.testing.assert_close(again.interval(p), fitted.interval(p), rtol=0, atol=0)


def test_split_inputs_that_do_not_fit_are_named(generator):
    p, y = problem(60, generator, (2,))
    with pytest.raises(ValueError, match="`y` must have shape"):
        SplitConformal.fit(p, y[:, :1])
    with pytest.raises(ValueError, match="`y` must be finite"):
        SplitConformal.fit(p, y * float("nan"))
    with pytest.raises(ValueError, match="at least one entry"):
        SplitConformal.fit(p[:0], y[:0])
    with pytest.raises(ValueError, match="standard deviation"):
        SplitConformal.fit(Prediction(p.mean_draws, p.log_std_draws - float("inf")), y)
    with pytest.raises(ValueError, match="`prediction` must have shape .rows, ..2,."):
        SplitConformal.fit(p, y).interval(p[:, 0])
