import json

import numpy as np
import pytest
import torch
from scipy import stats

from nsac.uncertainty import AdaptiveConformal, LeadTimeConformal, Prediction, SplitConformal, conformal_margin
from nsac.uncertainty.conformal import COVERAGES
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


# Adaptive

STEADY = 500
"""Rows before the stream drifts."""


def stream(n, generator):
    """The predicted std stays 1; that of the data is 1 for `STEADY` rows and then grows to 3."""
    drift = torch.cat([torch.ones(STEADY), torch.linspace(1, 3, n)])
    y = drift * torch.randn(len(drift), generator=generator)
    return Prediction.gaussian(torch.zeros_like(y), torch.ones_like(y)), y


@pytest.mark.parametrize("steps, within", [(2000, 0.02), pytest.param(10_000, 0.01, marks=pytest.mark.slow)])
def test_adaptive_intervals_keep_their_coverage_on_a_drifting_stream(steps, within, generator):
    p, y = stream(steps, generator)
    split = SplitConformal.fit(p[:STEADY], y[:STEADY])
    adaptive = AdaptiveConformal.fit(p[:STEADY], y[:STEADY])
    hits = []
    for t in range(STEADY, len(y)):
        now = slice(t, t + 1)
        hits.append(inside(adaptive.interval(p[now]), y[now]))
        adaptive.update(p[now], y[now])
    assert inside(split.interval(p[STEADY:], 0.9), y[STEADY:]).double().mean() < 0.8
    assert torch.cat(hits).double().mean().item() == pytest.approx(0.9, abs=within)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_misses_stay_within_the_bound_against_an_adversary(coverage):
    """Each value is put just outside the interval, if that is possible."""
    one = Prediction.gaussian(torch.zeros(1), torch.ones(1))
    adaptive = AdaptiveConformal.fit(one, torch.ones(1), coverage=coverage, gamma=0.05, window=20)
    misses, steps = 0, 1000
    for _ in range(steps):
        _, upper = adaptive.interval(one)
        y = torch.where(upper.isinf(), torch.zeros(1), 1 + upper.clamp(max=1e3))
        misses += int((y > upper).item())
        adaptive.update(one, y)
    bound = (max(coverage, 1 - coverage) + 0.05) / (0.05 * steps)
    assert abs(misses / steps - (1 - coverage)) <= bound


def test_delayed_values_are_compared_with_the_interval_that_was_issued(generator):
    """Horizon 24: the interval for t is checked when 24 later ones have been issued."""
    late = 24
    p, y = stream(3000, generator)
    adaptive = AdaptiveConformal.fit(p[:STEADY], y[:STEADY])
    issued, hits = {}, []
    for t in range(STEADY, len(y)):
        issued[t] = adaptive.interval(p[t : t + 1])
        if (then := t - late) in issued:
            interval = issued.pop(then)
            adaptive.update(p[then : then + 1], y[then : then + 1], interval=interval)
            hits.append(inside(interval, y[then : then + 1]))
    assert torch.cat(hits).double().mean().item() == pytest.approx(0.9, abs=0.02)


def test_an_update_is_one_step_of_the_recursion():
    p = Prediction.gaussian(torch.zeros(20, 2), torch.ones(20, 2))
    adaptive = AdaptiveConformal.fit(p, torch.arange(40.0).reshape(20, 2), gamma=0.01, window=20)
    adaptive.update(p[:1], torch.tensor([[0.0, 100.0]]))  # a hit, a miss
    torch.testing.assert_close(adaptive.alpha, torch.tensor([0.1 + 0.01 * 0.1, 0.1 - 0.01 * 0.9]))
    assert adaptive.scores.shape == (20, 2) and adaptive.scores[-1].tolist() == [0, 100]
    assert adaptive.scores[0].tolist() == [2, 3]  # the oldest row is forgotten


def test_rows_at_once_are_rows_one_by_one(generator):
    p, y = problem(80, generator, (2,))
    both = [AdaptiveConformal.fit(p[:40], y[:40], window=30) for _ in range(2)]
    both[0].update(p[40:], y[40:])
    for t in range(40, 80):
        both[1].update(p[t : t + 1], y[t : t + 1])
    torch.testing.assert_close(both[0].interval(p), both[1].interval(p), rtol=0, atol=0)


def test_nothing_left_to_miss_means_an_infinite_interval():
    p = Prediction.gaussian(torch.zeros(5), torch.ones(5))
    adaptive = AdaptiveConformal.fit(p, torch.arange(5.0))  # 0.9 needs nine scores
    assert adaptive.interval(p)[1].isinf().all()
    adaptive.alpha = torch.tensor(1.5)
    torch.testing.assert_close(adaptive.interval(p)[1], p.mean)


@pytest.mark.parametrize("columns", [(), (2,), (3, 2)])
def test_the_adaptive_state_survives_a_text_file(columns, generator):
    p, y = problem(60, generator, columns)
    fitted = AdaptiveConformal.fit(p, y)
    again = rebuilt(fitted)
    for one in (fitted, again):
        one.update(p, y)
    torch.testing.assert_close(again.interval(p), fitted.interval(p), rtol=0, atol=0)


def test_adaptive_inputs_that_do_not_fit_are_named(generator):
    p, y = problem(60, generator, (2,))
    with pytest.raises(ValueError, match="`y` must have shape"):
        AdaptiveConformal.fit(p, y[:, :1])
    with pytest.raises(ValueError, match="`y` must be finite"):
        AdaptiveConformal.fit(p, y * float("nan"))
    with pytest.raises(ValueError, match="at least one entry"):
        AdaptiveConformal.fit(p[:0], y[:0])
    with pytest.raises(ValueError, match="standard deviation"):
        AdaptiveConformal.fit(Prediction(p.mean_draws, p.log_std_draws - float("inf")), y)
    with pytest.raises(ValueError, match="`prediction` must have shape .rows, ..2,."):
        AdaptiveConformal.fit(p, y).interval(p[:, 0])


@pytest.mark.parametrize("setting", [{"coverage": 1.0}, {"gamma": 0.0}, {"window": 0}])
def test_adaptive_settings_are_checked(setting, generator):
    p, y = problem(60, generator)
    with pytest.raises(ValueError, match=f"`{next(iter(setting))}`"):
        AdaptiveConformal.fit(p, y, **setting)


def test_an_update_is_checked(generator):
    p, y = problem(60, generator)
    adaptive = AdaptiveConformal.fit(p, y)
    with pytest.raises(ValueError, match="`y` must be finite"):
        adaptive.update(p[:1], torch.tensor([float("nan")]))
    with pytest.raises(ValueError, match="`interval` must have shape .1,."):
        adaptive.update(p[:1], y[:1], interval=adaptive.interval(p[:2]))
    with pytest.raises(ValueError, match="`interval` must hold numbers"):
        adaptive.update(p[:1], y[:1], interval=(y[:1] * float("nan"), y[:1]))


# Lead times


def test_margins_of_lead_times_keep_their_coverage_on_a_drifting_stream():
    random = np.random.default_rng(0)
    adaptive = LeadTimeConformal(np.abs(random.normal(size=(200, 5))))
    drift = np.abs(random.normal(size=(5000, 5))) * np.linspace(1, 3, 5000)[:, None]
    margins = adaptive.update(np.arange(5000), drift)
    covered = (drift[:, None] <= margins).mean(0)
    assert np.abs(covered - COVERAGES[:, None]).max() < 0.01


def test_margins_of_lead_times_rise_with_the_coverage():
    adaptive = LeadTimeConformal(np.abs(np.random.default_rng(0).normal(size=(200, 5))))
    assert (np.diff([adaptive.margin(c) for c in (0.5, 0.7, 0.9, 0.97)], axis=0) > 0).all()


def test_lead_times_that_were_not_observed_do_not_adapt():
    adaptive = LeadTimeConformal(np.ones((50, 2)))
    before = adaptive.alpha.copy()
    adaptive.update(np.arange(3), np.array([[9.0, np.nan]] * 3))
    assert (adaptive.alpha[:, 0] < before[:, 0]).all() and (adaptive.alpha[:, 1] == before[:, 1]).all()


@pytest.mark.parametrize(("scores", "margin"), [([[1.0], [3.0]], 6.0), ([[np.nan]], 0.0)])
def test_too_few_scores_of_a_lead_time_have_a_finite_margin(scores, margin):
    assert LeadTimeConformal(np.array(scores)).margin(0.99).tolist() == [margin]


def test_one_score_is_the_margin_up_to_one_half():
    score = torch.tensor([[0.3]])
    assert [conformal_margin(score, c).item() for c in (0.1, 0.5, 0.51)] == [0.3, 0.3, np.inf]


def test_the_margin_rises_to_the_largest_score_at_n_over_n_plus_one():
    scores = torch.tensor([3.0, 1.0, 2.0])
    found = [conformal_margin(scores, c).item() for c in (0.0, 0.2, 0.25, 0.3, 0.5, 0.75, 0.76)]
    assert found == [0.0, 1.0, 1.0, 2.0, 2.0, 3.0, np.inf]


def test_a_value_on_the_end_of_the_interval_is_no_miss():
    p = Prediction.gaussian(torch.zeros(9), torch.ones(9))
    for given in (False, True):
        adaptive = AdaptiveConformal.fit(p, torch.arange(1.0, 10.0), gamma=0.01)  # the margin is 9
        interval = adaptive.interval(p[:1]) if given else None
        adaptive.update(p[:1], torch.tensor([-9.0]), interval)
        assert adaptive.alpha.item() == pytest.approx(0.1 + 0.01 * 0.1)


def test_both_ends_of_an_issued_interval_can_be_missed():
    p = Prediction.gaussian(torch.zeros(9), torch.ones(9))
    for y, missed in ((-2.1, True), (-1.9, False), (0.9, False), (1.1, True)):
        adaptive = AdaptiveConformal.fit(p, torch.arange(1.0, 10.0), gamma=0.01)
        adaptive.update(p[:1], torch.tensor([y]), (torch.tensor([-2.0]), torch.tensor([1.0])))
        assert adaptive.alpha.item() == pytest.approx(0.1 + 0.01 * (0.1 - missed))


def test_the_defaults_of_adaptive_intervals_are_those_of_their_authors():
    p = Prediction.gaussian(torch.zeros(600), torch.ones(600))
    adaptive = AdaptiveConformal.fit(p, torch.arange(600.0))
    assert (adaptive.coverage, adaptive.gamma, adaptive.window) == (0.9, 0.005, 500)
    assert adaptive.scores.tolist() == list(range(100, 600))


def updated(steps, scores, horizon=3):
    """Lead-time margins after each time step, and those that were compared; one update a time step."""
    adaptive = LeadTimeConformal(np.abs(np.random.default_rng(1).normal(size=(30, horizon))))
    issued, compared = {-np.inf: adaptive.issued[0].copy()}, []
    for step in np.unique(steps):
        compared.append(adaptive.update(steps[steps == step], scores[steps == step]))
        issued[step] = adaptive.issued[0].copy()
    return adaptive, issued, np.concatenate(compared)


STEPS = np.array([0, 1, 2, 2, 3, 7, 8, 9, 9, 9, 30, 31])
"""Time steps of observations, of up to three series, with gaps that are shorter and longer than the horizon."""


@pytest.mark.parametrize("first", [0, 4])
def test_a_forecast_is_compared_with_the_margin_that_was_issued_at_its_origin(first):
    scores = 3 * np.abs(np.random.default_rng(2).normal(size=(len(STEPS), 3)))
    _, issued, compared = updated(STEPS + first, scores)
    for row, step in enumerate(STEPS + first):
        for lead in (1, 2, 3):
            origin = max(then for then in issued if then <= step - lead)
            np.testing.assert_array_equal(compared[row, :, lead - 1], issued[origin][:, lead - 1])


def test_lead_times_of_many_steps_at_once_are_those_of_one_step_at_a_time():
    scores = 3 * np.abs(np.random.default_rng(2).normal(size=(len(STEPS), 3)))
    apart, _, compared = updated(STEPS, scores)
    together = LeadTimeConformal(np.abs(np.random.default_rng(1).normal(size=(30, 3))))
    np.testing.assert_array_equal(together.update(STEPS, scores), compared)
    np.testing.assert_array_equal(together.issued, apart.issued)
    assert together.now == 31 and together.begun


def test_a_step_of_lead_times_is_the_recursion_with_the_share_of_misses():
    adaptive = LeadTimeConformal(np.ones((99, 1)))  # every margin is 1
    adaptive.update(np.array([0, 0, 0, 0]), np.array([[0.5], [1.0], [2.0], [np.nan]]))  # one miss of three
    expected = 1 - COVERAGES + 0.005 * (1 - COVERAGES - 1 / 3)
    np.testing.assert_allclose(adaptive.alpha[:, 0], expected)


def test_the_margin_of_a_tracked_coverage_is_the_one_that_is_issued():
    scores = 3 * np.abs(np.random.default_rng(2).normal(size=(len(STEPS), 3)))
    adaptive, _, _ = updated(STEPS, scores)
    found = np.stack([adaptive.margin(c) for c in COVERAGES])
    np.testing.assert_array_equal(found, adaptive.issued[0])


def test_between_tracked_coverages_the_correction_is_interpolated():
    adaptive = LeadTimeConformal(np.arange(1.0, 1000.0)[:, None])  # the latest 500: 500 to 999
    adaptive.alpha[COVERAGES == 0.8] += 0.02
    adaptive.alpha[COVERAGES == 0.9] += 0.04
    expected = conformal_margin(torch.arange(500.0, 1000.0), 0.85 - 0.03)
    assert adaptive.margin(0.85).tolist() == [expected.item()]


def test_only_the_latest_scores_are_kept():
    adaptive = LeadTimeConformal(np.arange(600.0)[:, None])
    assert adaptive.scores[:, 0].tolist() == list(range(100, 600))
    adaptive.update(np.array([0]), np.array([[7.0]]))
    assert adaptive.scores[:, 0].tolist() == [*range(101, 600), 7.0]


def test_an_update_without_rows_changes_nothing():
    adaptive = LeadTimeConformal(np.ones((5, 2)))
    assert adaptive.update(np.zeros(0, int), np.zeros((0, 2))).shape == (0, len(COVERAGES), 2)
    assert not adaptive.begun


def test_a_second_update_of_the_same_step_counts_as_the_next_one():
    scores = 3 * np.abs(np.random.default_rng(2).normal(size=(2, 3)))
    found = []
    for second in (5, 6):
        adaptive = LeadTimeConformal(np.abs(np.random.default_rng(1).normal(size=(30, 3))))
        adaptive.update(np.array([5]), scores[:1])
        found.append((adaptive.update(np.array([second]), scores[1:]), adaptive.issued))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
