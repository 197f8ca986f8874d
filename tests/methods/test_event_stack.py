import math
from dataclasses import replace

import pytest
import torch

from nsac.layers import Draws
from nsac.methods import NSACMethod, fit
from nsac.methods.event_stack import NETWORK_ALONE, pool
from nsac.methods.nsac import MAX_LIKELIHOOD_LOSS
from nsac.training import TrainConfig
from support.problems import sporadic

SHORT = TrainConfig(max_steps=30, accelerator="cpu")


@pytest.fixture
def draws(generator):
    return Draws(torch.randn(20, 7, generator=generator), 0.1 * torch.randn(20, 7, generator=generator))


@pytest.mark.parametrize("n", [1, 3, 20])
@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_the_mean_of_a_pool_is_the_weighted_mean(draws, n, share):
    few = Draws(draws.mean[:n], draws.log_std[:n])
    trees = torch.linspace(-1, 1, 7)
    wanted = (1 - share) * few.mean.mean(0) + share * trees
    torch.testing.assert_close(pool(few, trees, torch.ones(7), share, 0.0).mean(0), wanted)


def test_half_of_the_draws_stay_where_they_are(draws):
    moved = pool(draws, torch.linspace(-1, 1, 7), torch.ones(7), 0.5, 0.0)
    same = (moved == draws.mean).all(1)
    assert same.sum() == 10 and same[::2].all()  # every other one: neighbours have similar standard deviations


def test_the_variance_of_a_pool_is_that_of_the_draws_and_of_the_disagreement(draws):
    r"""$p (1 - p) (t - m)^2$ is added if draws and moves are unrelated."""
    equal = Draws(torch.zeros(20, 7), draws.log_std)
    trees = torch.linspace(-1, 1, 7)
    moved = pool(equal, trees, torch.ones(7), 0.25, 0.0)
    torch.testing.assert_close(moved.var(0, correction=0), 0.25 * 0.75 * trees.square())


def test_a_network_that_is_sure_is_hardly_moved(draws):
    sure = Draws(draws.mean, draws.log_std - 5)
    trees, error = torch.full((7,), 9.0), torch.ones(7)
    shifts = [(pool(each, trees, error, 1.0, 1.0) - each.mean).mean() for each in (draws, sure)]
    assert shifts[0] > 3 and shifts[1] < 0.01


def test_narrow_draws_stay_near_the_network_and_wide_ones_go_to_the_trees():
    log_std = torch.tensor([-6.0, 3.0]).repeat(10).unsqueeze(-1)
    moved = pool(Draws(torch.zeros(20, 1), log_std), torch.full((1,), 2.0), torch.ones(1), 1.0, 1.0)
    assert (moved[::2].abs() < 1e-4).all() and (moved[1::2] > 1.9).all()


def stacked(split):
    method = NSACMethod(replace(split.problem, trees=True))
    fit(method, split.train, split.validation, SHORT)
    return method.eval()


def test_trees_help_a_network_that_has_hardly_been_trained(generator):
    split = sporadic(600, generator=generator)
    method = stacked(split)
    assert method.stack.choice[0] > 0
    batch = split.test.columns
    errors = []
    for choice in (method.stack.choice.tolist(), NETWORK_ALONE):
        method.stack.choice = torch.tensor(choice)
        errors.append((method.predict(batch).mean - batch["y"]).square().mean().item())
    assert errors[0] < 0.9 * errors[1]


def test_a_factor_of_0_leaves_the_anchor(generator):
    split = sporadic(240, generator=generator)
    method = stacked(split)
    method.stack.shrink(0.0)
    batch = split.test.columns
    anchor = method.anchor(method.network.encoder(batch))
    torch.testing.assert_close(method.predict(batch).mean, anchor)


def test_a_network_without_trees_is_the_same_as_before_they_are_fitted(generator):
    split = sporadic(generator=generator)
    batch = split.test.columns
    means = [NSACMethod(replace(split.problem, trees=trees)).predict(batch).mean for trees in (False, True)]
    assert torch.equal(*means)


def test_epistemic_variance_has_the_unit_of_the_last_value_s_error(generator):
    split = sporadic(600, generator=generator)
    method = NSACMethod(split.problem)
    fit(method, split.train, split.validation, SHORT)
    batch = split.test.columns
    before = method.predict(batch).epistemic
    method.persistence.log_std += torch.tensor(2.0).log()
    torch.testing.assert_close(method.predict(batch).epistemic, 4 * before, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("trees", [False, True])
def test_epistemic_variance_costs_validation_rows_of_events_hardly_any_likelihood(generator, trees):
    split = sporadic(600, generator=generator)
    method = NSACMethod(replace(split.problem, trees=trees))
    fit(method, split.train, split.validation, SHORT)
    batch = split.validation.batch(torch.arange(len(split.validation)))
    known = (~batch["y"].isnan()).sum((1, 2))

    def nll(log_amplitude):
        method.novelty.log_amplitude.fill_(log_amplitude)
        return -method.predict(batch).log_prob(batch["y"]).nansum((1, 2))

    def cost(log_amplitude):
        """Nats per target, less a standard error over rows."""
        each = nll(log_amplitude) - nll(-math.inf)
        deviation = each - MAX_LIKELIHOOD_LOSS * known
        return (each.sum() - (deviation - deviation.mean()).norm()) / known.sum()

    assert cost(method.novelty.log_amplitude.item()) <= MAX_LIKELIHOOD_LOSS + 1e-6
    method.novelty.log_amplitude.fill_(20.0)
    method._limit_amplitude(method.novelty, split.validation)
    lowered = method.novelty.log_amplitude.item()
    assert lowered < 20
    assert cost(lowered) <= MAX_LIKELIHOOD_LOSS + 1e-6 < cost(lowered + 1)
