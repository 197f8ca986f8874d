import torch

from nsac.core import matched_normal
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
