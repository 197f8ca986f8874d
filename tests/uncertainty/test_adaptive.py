import json

import numpy as np
import pytest
import torch

from nsac.uncertainty import AdaptiveConformal, LeadTimeConformal, Prediction, SplitConformal
from nsac.uncertainty.adaptive import COVERAGES


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
