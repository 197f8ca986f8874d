import pytest
import torch

from nsac.layers import Novelty
from nsac.layers.novelty import MIN_POSTERIOR_SHARE, MIN_SQUARED_DISTANCE
from nsac.uncertainty import ood_auroc


def known(n=500, dims=3, generator=None):
    return torch.randn(n, 1, dims, generator=generator) * torch.tensor([1.0, 5.0, 0.1][:dims])


def novelty_score(novelty, x):
    return novelty(x)[0]


def test_novelty_is_small_at_training_inputs_and_large_far_away(generator):
    x = known(generator=generator)
    novelty = Novelty(3, 1)
    novelty.fit(x)
    near, far = novelty_score(novelty, known(generator=generator)), novelty_score(novelty, x * 20)
    assert far.median() > 100 * near.median() and (far > near.quantile(0.9)).double().mean() > 0.9


def test_novelty_does_not_depend_on_the_units_of_features(generator):
    x, queries = known(generator=generator), 3 * known(50, generator=generator)
    one, two = Novelty(3, 1), Novelty(3, 1)
    unit = torch.tensor([10.0, 1.0, 100.0])
    one.fit(x)
    two.fit(unit * x - 7)
    # Not to the last digit: which of many equally unknown directions are kept depends on the rounding of the
    # eigenvectors, hence on the processor. Most rows do not depend on them, and the order of rows hardly changes.
    a, b = novelty_score(one, queries).log().flatten(), novelty_score(two, unit * queries - 7).log().flatten()
    assert torch.corrcoef(torch.stack([a, b]))[0, 1] > 0.99 and (a - b).abs().median() < 1e-6


def test_a_broken_correlation_is_novel(generator):
    a = torch.randn(1000, 1, 1, generator=generator)
    x = torch.cat([a, a + 0.1 * torch.randn(1000, 1, 1, generator=generator)], -1)
    novelty = Novelty(2, 1)
    novelty.fit(x[:900])
    unbroken = novelty_score(novelty, x[900:])
    broken = novelty_score(novelty, x[900:] * torch.tensor([1.0, -1.0]))
    assert broken.median() > 5 * unbroken.median()


def test_novelty_is_finite_for_constant_and_repeated_inputs(generator):
    x = known(generator=generator)
    x[..., 1] = 4.0
    for inputs in (x, x[:1].expand(200, -1, -1), x.repeat(2, 1, 1), x[:1]):
        novelty = Novelty(3, 1)
        novelty.fit(inputs)
        assert all(torch.isfinite(part).all() for part in novelty(x))


def test_the_variance_is_proportional_to_the_amplitude_nearby_and_the_prior_far_away(generator):
    novelty = Novelty(3, 1)
    novelty.fit(known(generator=generator))
    new, prior = torch.tensor([1e-6, 1e9]), torch.tensor([1.0, 2.5])
    for amplitude in (0.1, 10.0):
        novelty.log_amplitude.fill_(amplitude).log_()
        near, far = novelty.variance(new, prior)
        assert near == pytest.approx(amplitude * 1e-6, rel=1e-4) and far == pytest.approx(2.5, rel=1e-6)


def test_the_amplitude_gives_the_requested_mean_variance(generator):
    novelty = Novelty(3, 1)
    x = known(generator=generator)
    novelty.fit(x[:400])
    new, prior = novelty(x[400:])
    novelty.set_amplitude(new, prior, lambda v: v.mean() > 0.02)
    assert novelty.variance(new, prior).mean().item() == pytest.approx(0.02, rel=1e-3)


def test_novelty_is_posterior_variance_times_squared_distance_to_the_nearest_input(generator):
    x = known(generator=generator)
    novelty = Novelty(3, 1)
    novelty.fit(x)
    white = (torch.cat([x, 3 * x])[:, 0] - novelty.centre) @ novelty.whiten
    r = (novelty._features(white) @ novelty.factor).square().sum(-1)
    nearest = torch.cdist(white, novelty.kept, compute_mode="donot_use_mm_for_euclid_dist").amin(-1).square()
    torch.testing.assert_close(
        novelty_score(novelty, torch.cat([x, 3 * x]))[:, 0],
        r.clamp(min=MIN_POSTERIOR_SHARE) * nearest.clamp(min=MIN_SQUARED_DISTANCE),
    )


def test_cancellation_in_single_precision_stays_below_the_minimum(generator):
    x = known(generator=generator)
    novelty = Novelty(3, 1)
    novelty.fit(x)
    u = novelty_score(novelty, x)
    torch.testing.assert_close(novelty_score(novelty.float(), x.float()).double(), u, rtol=0.05, atol=1e-5)


def test_near_duplicates_do_not_make_all_inputs_novel(generator):
    x = torch.randn(1000, 1, 6, generator=generator)
    twice = torch.cat([x, x + 1e-2 * torch.randn(x.shape, generator=generator)])
    novelty = Novelty(6, 1)
    novelty.fit(twice)
    queries = torch.randn(500, 1, 6, generator=generator)
    assert ood_auroc(novelty_score(novelty, queries).flatten(), novelty_score(novelty, 2 * queries).flatten()) > 0.9


def test_with_fewer_rows_than_features_ordinary_inputs_are_not_novel(generator):
    x = torch.randn(400, 1, 300, generator=generator)
    novelty = Novelty(300, 1)
    novelty.fit(x[:100])
    new, prior = novelty(x[100:])
    assert prior.median() < 2 and ood_auroc(new.flatten(), novelty(1.5 * x[100:])[0].flatten()) > 0.9


def test_novelty_in_single_precision_agrees_with_double(generator):
    x, queries = torch.randn(4000, 1, 2, generator=generator), torch.randn(300, 1, 2, generator=generator)
    one, two = Novelty(2, 1), Novelty(2, 1).float()
    one.fit(x)
    two.load_state_dict(one.state_dict())
    torch.testing.assert_close(
        novelty_score(two, queries.float()).double(), novelty_score(one, queries), rtol=1e-2, atol=1e-4
    )
