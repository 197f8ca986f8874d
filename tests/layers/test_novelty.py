import pytest
import torch

from nsac.layers import Novelty
from nsac.layers.novelty import MIN_POSTERIOR_SHARE, MIN_SQUARED_DISTANCE, NOISE_SHARE, _typical_distance
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


@pytest.mark.parametrize(
    ("error", "aleatoric", "rows", "variance"),
    [
        ([0.6], 0.3, 10**6, 0.3),  # aleatoric and epistemic variance add up to the squared error
        ([5.0], 0.1, 10**6, 0.5),  # at most one half of the target's variance
        ([0.1], 0.4, 10_000, 0.02 * 0.1),  # at least 2 / sqrt(rows) of the squared error
        ([0.1], 0.4, 100, 0.1 * 0.1),  # of few rows, a tenth
        ([0.1] * 9 + [10.0], 0.2, 10**6, 0.1 / 0.455 - 0.2),  # few large errors do not widen all intervals
        ([0.6, 0.6, torch.nan], 0.3, 10**6, 0.3),  # a target that was not observed does not count
    ],
)
def test_the_amplitude_is_calibrated_on_errors(error, aleatoric, rows, variance):
    novelty, error = Novelty(3, 1), torch.tensor(error)[:, None]
    noise = torch.full_like(error, aleatoric).masked_fill(error.isnan(), torch.nan)
    new, prior = torch.ones_like(error), torch.full_like(error, 2.0)
    assert not novelty.calibrated
    novelty.calibrate(error, noise, new, prior, train_rows=rows)
    assert novelty.calibrated
    torch.testing.assert_close(novelty.variance(new, prior), torch.full_like(error, variance), rtol=1e-6, atol=0)
    torch.testing.assert_close(novelty.usual, torch.tensor([aleatoric]))


def test_an_output_without_observed_targets_has_the_usual_noise_of_the_others():
    novelty, error = Novelty(3, 3), torch.full((20, 3), 0.5)
    aleatoric = torch.tensor([0.1, 0.3, torch.nan]).expand(20, 3)
    error[:, 2] = torch.nan
    novelty.calibrate(error, aleatoric, torch.ones(20, 1), torch.ones(20, 1), train_rows=100)
    torch.testing.assert_close(novelty.usual, torch.tensor([0.1, 0.3, 0.2]))


def test_the_least_noise_is_the_usual_one_times_the_share_of_the_prior(generator):
    novelty, x = Novelty(3, 2), known(generator=generator)
    novelty.fit(x)
    novelty.log_amplitude.fill_(-1.0)
    novelty.usual.copy_(torch.tensor([0.1, 0.4]))
    new, prior = novelty(3 * x)
    found = novelty.epistemic(3 * x)
    torch.testing.assert_close(found.variance, novelty.variance(new, prior))
    share = (found.variance / prior)[..., None]
    torch.testing.assert_close((2 * found.min_log_std).exp(), share * novelty.usual)


def test_the_prior_is_one_at_typical_inputs_one_half_at_the_centre_and_at_most_nine(generator):
    x = known(20_000, generator=generator)
    novelty = Novelty(3, 1)
    novelty.fit(x)
    assert novelty(x)[1].mean().item() == pytest.approx(1.0, abs=0.02)  # the shrinkage is a hundredth
    assert novelty(x.mean(0, keepdim=True))[1].item() == pytest.approx(0.5, abs=0.01)
    assert novelty(100 * x[:50])[1].median() == 9
    size = ((x[:50, 0] - novelty.centre) @ novelty.whiten * novelty.scale).square().mean(-1)
    torch.testing.assert_close(novelty(x[:50])[1][:, 0], ((1 + size) / 2).clamp(max=9))


def test_far_from_all_inputs_the_posterior_share_is_one_on_average(generator):
    x = known(generator=generator)
    novelty = Novelty(3, 1)
    novelty.fit(x)
    white = 1e3 * torch.randn(4000, 3, generator=generator)
    r = (novelty._features(white) @ novelty.factor).square().sum(-1)
    assert r.mean().item() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("points", "distance"),
    [
        (torch.arange(40.0), 3.0),  # neighbours at 1, 1, 2, 2, 3
        (torch.arange(40.0).repeat(2), 1.0),  # in pairs: 0, 1, 1, 1, 1
        (torch.tensor([0.0, 1.0, 5.0]), 5.0),  # of three points the second neighbour: 5, 4, 5
        (torch.tensor([0.0, 2.0]), 2.0),
        (torch.zeros(20), 1.0),  # all equal: no unit
        (torch.zeros(1), 1.0),
    ],
    ids=["line", "pairs", "three", "two", "equal", "one"],
)
def test_the_unit_of_distance_is_the_median_to_the_fifth_neighbour(points, distance):
    assert _typical_distance(points[:, None]).item() == pytest.approx(distance)


def test_inputs_are_whitened_with_a_hundredth_of_shrinkage(generator):
    x = known(20_000, generator=generator)
    x[..., 0] += 0.3 * x[..., 1]  # correlated
    novelty = Novelty(3, 1)
    novelty.fit(x)
    white = (x[:, 0] - novelty.centre) @ novelty.whiten * novelty.scale
    torch.testing.assert_close(white.mean(0), torch.zeros(3), atol=1e-9, rtol=0)
    correlation = torch.corrcoef(x[:, 0].T)
    variances = torch.linalg.eigvalsh(correlation)
    expected = variances / (0.99985 * variances + 0.01)  # 3 inputs over 20,003 rows and inputs
    torch.testing.assert_close(white.T @ white / len(white), expected.diag(), rtol=1e-6, atol=1e-9)


def test_novelty_of_several_queries_uses_all_of_them(generator):
    x = torch.randn(300, 2, 3, generator=generator) + torch.tensor([[[0.0]], [[50.0]]]).squeeze(1)[None]
    novelty = Novelty(3, 1)
    novelty.fit(x)
    assert novelty(x[:, 0])[0].median() < 10 and novelty(x[:, 1])[0].median() < 10
    torch.testing.assert_close(novelty.centre, x.flatten(0, 1).mean(0))


def test_kept_directions_are_weighed_by_their_posterior_variance(generator):
    """S has eigenvalues 1 / (1 + e), e those of the features' second moment over the noise; the weights sum to R."""
    x = torch.randn(2000, 1, 30, generator=generator)  # no direction is left unknown
    novelty = Novelty(30, 1)
    novelty.fit(x)
    features = novelty._features((x[:, 0] - novelty.centre) @ novelty.whiten)
    variance = 1 / (1 + torch.linalg.eigvalsh(features.T @ features / NOISE_SHARE)[: novelty.factor.shape[1]])
    found = novelty.factor.square().sum(0)
    torch.testing.assert_close(found, variance / variance.sum() * len(novelty.factor), rtol=1e-6, atol=0)
