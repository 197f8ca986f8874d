import pytest
import torch

from nsac.core import decompose, matched_normal, mixture_cdf, mixture_log_prob, mixture_quantile
from support import ALPHA


def test_matched_draws_have_exact_sample_moments(generator):
    draws = matched_normal(20, 5, 8, generator=generator).flatten(1)
    torch.testing.assert_close(draws.mean(0), torch.zeros(40))
    torch.testing.assert_close(draws.var(0, correction=0), torch.ones(40))
    block = draws[:, :19]
    torch.testing.assert_close(block.T @ block / 20, torch.eye(19))


def test_a_matched_draw_is_a_coordinate_of_a_random_direction(generator):
    from scipy import stats

    entries = torch.stack([matched_normal(20, 19, generator=generator)[:, 3] for _ in range(2000)]).flatten()
    # An entry of a random direction in 19 dimensions, times the root of 20, is a scaled beta, not quite normal
    law = stats.beta(9, 9, loc=-(19**0.5), scale=2 * 19**0.5)
    assert stats.kstest(entries.numpy(), law.cdf).pvalue > ALPHA
    assert abs(entries.square().mean().item() - 1) < 1e-6


def test_two_draws_are_not_changed():
    one, two = (torch.Generator().manual_seed(3) for _ in range(2))
    assert torch.equal(matched_normal(2, 7, generator=one), torch.randn(2, 7, generator=two))


@pytest.mark.parametrize("entries", [1, 2, 3, 5])
def test_three_draws_are_the_fewest_with_exact_moments(entries, generator):
    draws = matched_normal(3, entries, generator=generator)
    torch.testing.assert_close(draws.mean(0), torch.zeros(entries))
    torch.testing.assert_close(draws.square().mean(0), torch.ones(entries))


def test_matched_draws_have_the_signs_of_the_draws_they_are_made_from():
    """The first entry of each block is only centred and scaled."""
    one, two = (torch.Generator().manual_seed(3) for _ in range(2))
    plain, matched = torch.randn(20, 40, generator=one), matched_normal(20, 40, generator=two)
    for first in (0, 19, 38):
        centred = plain[:, first] - plain[:, first].mean()
        torch.testing.assert_close(matched[:, first], centred / centred.square().mean().sqrt())


def test_matched_draws_of_half_precision_keep_it(generator):
    draws = matched_normal(8, 5, generator=generator, dtype=torch.bfloat16)
    assert draws.dtype == torch.bfloat16 and draws.float().mean(0).abs().max() < 0.02


def test_the_moments_of_draws_are_those_of_numpy():
    mean, log_std = torch.tensor([[1.0], [4.0]]), torch.tensor([[0.0], [1.0]]).log1p()
    assert [part.item() for part in decompose(mean, log_std)] == pytest.approx([2.5, (1 + 4) / 2, 1.5**2])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_a_quantile_has_the_precision_of_its_mixture(dtype):
    mean, std = torch.tensor([0.0, 2.0], dtype=dtype), torch.tensor([1.0, 1.0], dtype=dtype)
    median = mixture_quantile(mean, std, torch.tensor(0.5, dtype=dtype))
    assert median.dtype == dtype and abs(median.item() - 1) < 10 * torch.finfo(dtype).eps


@pytest.mark.parametrize("spread", [0.3, 3.0, 100.0])
@pytest.mark.parametrize("level", [1e-9, 0.025, 0.5, 0.9, 1 - 1e-9])
def test_the_cdf_of_a_quantile_is_its_level(spread, level):
    generator = torch.Generator().manual_seed(0)
    mean, log_std = torch.randn(2, 30, 500, generator=generator, dtype=torch.float64)
    mean, std, q = spread * mean, log_std.exp(), torch.tensor(level, dtype=torch.float64)
    x = mixture_quantile(mean, std, q)
    density = mixture_log_prob(mean, std, x).exp()
    error = (mixture_cdf(mean, std, x) - q).abs()  # from rounding x, and probabilities
    assert (error <= 1e-15 * density * x.abs() + 1e-13).all()


def test_quantiles_of_several_levels_are_those_of_each():
    mean, std = torch.randn(2, 5, 1, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    std, q = std.exp(), torch.linspace(0.1, 0.9, 3, dtype=torch.float64)
    together = mixture_quantile(mean, std, q[:, None].expand(3, 7))
    each = torch.stack([mixture_quantile(mean[:, 0], std[:, 0], level) for level in q])
    torch.testing.assert_close(together, each, rtol=1e-13, atol=1e-13)


def test_the_density_of_a_mixture_is_the_mean_of_its_components():
    mean, std, y = torch.tensor([0.0, 1.0, 5.0]), torch.tensor([1.0, 2.0, 0.5]), torch.tensor(0.7)
    each = torch.distributions.Normal(mean, std)
    torch.testing.assert_close(mixture_log_prob(mean, std, y), each.log_prob(y).exp().mean().log())
    torch.testing.assert_close(mixture_cdf(mean, std, y), each.cdf(y).mean())
