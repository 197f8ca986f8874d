import math

import pytest
import torch

from nsac.core import mixture_log_prob
from nsac.layers.loss import gaussian_nll
from nsac.layers.tails import MAX_TAIL, scale_levels, scale_offsets, spread_scales, tail_width, tailed_nll


@pytest.mark.parametrize("n", [2, 5, 20])
def test_levels_have_mean_0_and_variance_1(n):
    z = scale_levels(n, torch.ones(1))
    torch.testing.assert_close(torch.stack([z.mean(), z.square().mean()]), torch.tensor([0.0, 1.0]))


def test_without_a_tail_the_likelihood_is_gaussian(generator):
    mean, log_std, y = torch.randn(3, 4, 5, 6, 1, generator=generator)
    y = y[0]
    y[1, 2] = math.nan
    torch.testing.assert_close(tailed_nll(mean, log_std, torch.zeros_like(mean), y), gaussian_nll(mean, log_std, y))


def test_the_likelihood_is_that_of_the_draws_that_represent_it(generator):
    mean, log_std, y = torch.randn(3, 1, 50, generator=generator)
    tail = torch.rand(1, 50, generator=generator)
    draws = spread_scales(mean, log_std, tail, 9)
    expected = -mixture_log_prob(draws[0], draws[1].exp(), y[0]).mean()
    torch.testing.assert_close(tailed_nll(mean, log_std, tail, y[0]), expected)


def test_a_tail_does_not_change_the_mean_of_any_draw(generator):
    mean, log_std, tail = torch.rand(3, 7, 50, generator=generator)
    assert torch.equal(spread_scales(mean, log_std, tail, 20)[0], mean)
    one = spread_scales(mean[:1], log_std[:1], tail[:1], 20)
    assert one[0].shape == one[1].shape == (20, 50) and (one[0] == mean[0]).all()
    assert (one[0].var(0, correction=0) == 0).all()


def test_scaled_offsets_keep_mean_and_variance(generator):
    mean, log_std = torch.randn(2, 20, 50, generator=generator)
    scaled = scale_offsets(mean, log_std)
    torch.testing.assert_close(scaled.mean(0), mean.mean(0))
    torch.testing.assert_close(scaled.var(0, correction=0), mean.var(0, correction=0))


def test_offsets_of_draws_are_in_units_of_their_standard_deviation(generator):
    mean, log_std = torch.randn(2, 20, 50, generator=generator)
    units = (scale_offsets(mean, log_std) - mean.mean(0)) / log_std.exp()  # c (e_n - mean of e)
    factor = units.std(0) / mean.std(0)
    torch.testing.assert_close(units - units.mean(0), factor * (mean - mean.mean(0)))


def test_offsets_of_equal_draws_stay_as_they_are(generator):
    mean = torch.randn(20, 50, generator=generator)
    torch.testing.assert_close(scale_offsets(mean, torch.zeros_like(mean)), mean)
    assert torch.equal(scale_offsets(torch.ones(20, 3), mean[:, :3]), torch.ones(20, 3))


def test_an_uncertain_mean_leaves_the_density_of_repeated_values(generator):
    zero, levels = torch.zeros(1), 2.0 * scale_levels(20, torch.ones(1)).unsqueeze(-1)
    mean = 0.5 * torch.randn(20, 1, generator=generator)
    mean = mean - mean.mean(0)
    before, after = (mixture_log_prob(each, levels.exp(), zero) for each in (mean, scale_offsets(mean, levels)))
    assert after > before + 0.5


def test_a_wider_tail_is_more_likely_for_extreme_values():
    y, zero = torch.tensor([6.0]), torch.zeros(1, 1)
    assert tailed_nll(zero, zero, zero + 1, y) < tailed_nll(zero, zero, zero, y)


def test_the_width_of_a_tail_is_positive_and_bounded():
    width = tail_width(torch.tensor([-50.0, 0, 50]))
    assert (width >= 0).all() and width.max() == MAX_TAIL


def test_a_value_that_is_repeated_exactly_has_a_bounded_likelihood():
    zero = torch.zeros(1, 1)
    assert tailed_nll(zero, zero - 10, zero, zero[0]) == pytest.approx(math.log(0.01) + 0.5 * math.log(2 * math.pi))
