import numpy as np
import pytest
import torch

from nsac.estimators.stack import Parts, Stack, _nodes, predict_unseen


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def noisy(n: int = 4000, noise: torch.Tensor | None = None) -> tuple[Parts, torch.Tensor, torch.Tensor]:
    """One model, whose errors have variance 0.2 + 0.5 A + 2 E; the variances, and the targets."""
    a, e = (3 * normal(n, 1, seed=1)).square(), (2 * normal(n, 1, 1, seed=2)).square()
    variance = 0.2 + 0.5 * a + 2 * e[..., 0]
    mean = 10 * normal(1, n, 1, seed=3)
    return Parts(mean, a, e), variance, mean[0] + variance.sqrt() * (normal(n, 1) if noise is None else noise)


def some_stack(outputs: int = 2, freedom: float = 6.0) -> tuple[Stack, Parts]:
    weights = normal(3, outputs, seed=4).abs()
    factors = normal(5, outputs, seed=5).abs() + 0.1
    parts = Parts(normal(3, 40, outputs), normal(40, outputs, seed=6).square(), normal(40, outputs, 2, seed=7).square())
    limits = torch.tensor([[-50.0], [50.0]]).expand(2, outputs)
    return Stack(
        weights, factors[:2], factors[2:], torch.full((outputs,), freedom), limits, torch.full((outputs,), 1e6).double()
    ), parts


def test_exact_weights_are_recovered():
    means, weights = normal(3, 200, 2), torch.tensor([[0.3, 0.0], [0.0, 0.9], [0.7, 0.2]])
    y = (weights[:, None] * means).sum(0)
    stack = Stack.fit(Parts(means, torch.ones(200, 2), torch.ones(200, 2, 1)), y)
    torch.testing.assert_close(stack.weights, weights, atol=1e-9, rtol=0)


def test_a_model_that_would_count_negatively_does_not_count():
    means = normal(2, 200, 1)
    stack = Stack.fit(Parts(means, torch.ones(200, 1), torch.ones(200, 1, 1)), means[0] - means[1])
    assert stack.weights[1].item() == 0


def test_a_few_wild_rows_hardly_move_the_weights():
    means = normal(2, 300, 1)
    y = 0.5 * means[0] + 0.5 * means[1] + 0.1 * normal(300, 1, seed=8)
    y[:3] += 100 * means[0, :3].sign()
    stack = Stack.fit(Parts(means, torch.ones(300, 1), torch.ones(300, 1, 1)), y)
    torch.testing.assert_close(stack.weights, torch.full((2, 1), 0.5), atol=0.05, rtol=0)


def test_rows_of_weight_zero_do_not_count():
    parts, _, y = noisy(400)
    weight = torch.ones(400)
    weight[::2] = 0
    half = torch.arange(1, 400, 2)
    counted = Parts(parts.means[:, half], parts.aleatoric[half], parts.epistemic[half])
    weighted, alone = Stack.fit(parts, y, weight), Stack.fit(counted, y[half])
    torch.testing.assert_close(weighted.weights, alone.weights, atol=0.02, rtol=0)
    variances = [stack.predict(parts, 1).variance for stack in (weighted, alone)]
    assert (variances[0] / variances[1]).log().abs().median() < 0.1


@pytest.mark.parametrize("seed", [0, 1])
def test_factors_are_recovered_when_the_truth_is_a_sum_of_sources(seed):
    parts, variance, y = noisy(noise=normal(4000, 1, seed=10 + seed))
    stack = Stack.fit(parts, y)
    assert stack.aleatoric[1].item() == pytest.approx(0.5, rel=0.25)
    assert stack.epistemic[0].item() == pytest.approx(2.0, rel=0.25)
    predicted = stack.predict(parts, 20)
    ratio = predicted.variance / variance
    assert ratio.log().abs().median() < 0.15
    torch.testing.assert_close(predicted.mean, stack.weights[0] * parts.means[0])


@pytest.mark.parametrize(("noise", "low", "high"), [("gaussian", 20.0, 100.0), ("student", 3.0, 6.0)])
def test_degrees_of_freedom_tell_heavy_tails_from_gaussian_noise(noise, low, high):
    random = np.random.default_rng(0)
    draws = random.normal(size=(4000, 1)) if noise == "gaussian" else random.standard_t(4, (4000, 1)) / np.sqrt(2)
    parts, _, y = noisy(noise=torch.from_numpy(draws))
    assert low <= Stack.fit(parts, y).freedom.item() <= high


@pytest.mark.parametrize("num_samples", [2, 3, 20, 97])
@pytest.mark.parametrize("freedom", [3.0, 100.0])
def test_the_distribution_has_the_mean_and_the_variances_of_the_formula(num_samples, freedom):
    stack, parts = some_stack(freedom=freedom)
    p = stack.predict(parts, num_samples)
    mean = (stack.weights[:, None] * parts.means).sum(0)
    share = stack.weights / stack.weights.sum(0)
    centre = (share[:, None] * parts.means).sum(0)
    disagreement = (share[:, None] * (parts.means - centre).square()).sum(0)
    aleatoric = stack.aleatoric[0] + stack.aleatoric[1] * parts.aleatoric
    sources = torch.cat([parts.epistemic, disagreement[..., None]], -1)
    assert len(p.mean_draws) == num_samples
    torch.testing.assert_close(p.mean, mean)
    torch.testing.assert_close(p.aleatoric, aleatoric)
    torch.testing.assert_close(p.epistemic, (sources * stack.epistemic.T).sum(-1))


def test_one_draw_has_the_mean_and_the_aleatoric_variance():
    stack, parts = some_stack()
    p = stack.predict(parts, 1)
    torch.testing.assert_close(p.mean, (stack.weights[:, None] * parts.means).sum(0))
    torch.testing.assert_close(p.aleatoric, stack.aleatoric[0] + stack.aleatoric[1] * parts.aleatoric)


def test_extra_variance_is_epistemic():
    stack, parts = some_stack()
    extra = torch.linspace(0, 5, 40)
    before, after = stack.predict(parts, 20), stack.predict(parts, 20, extra)
    torch.testing.assert_close(after.epistemic, before.epistemic + extra[:, None])
    torch.testing.assert_close((after.mean, after.aleatoric), (before.mean, before.aleatoric))


def test_the_variance_of_the_mean_has_a_limit_if_one_is_given():
    stack, parts = some_stack()
    free, limit = stack.predict(parts, 20), torch.tensor([0.5, 1e9])
    limited = stack.predict(parts, 20, max_epistemic=limit)
    torch.testing.assert_close(limited.epistemic, free.epistemic.minimum(limit))
    torch.testing.assert_close((limited.mean, limited.aleatoric), (free.mean, free.aleatoric))


def test_means_stay_within_half_a_range_of_the_targets_seen():
    parts, _, y = noisy(100)
    far = Parts(1e6 * parts.means, parts.aleatoric, parts.epistemic)
    p = Stack.fit(parts, y).predict(far, 20)
    low, high = y.min(), y.max()
    torch.testing.assert_close(p.mean.min(), low - (high - low) / 2)
    torch.testing.assert_close(p.mean.max(), high + (high - low) / 2)


def test_few_degrees_of_freedom_have_heavy_tails():
    quantiles = []
    for freedom in (3.0, 100.0):
        stack, parts = some_stack(freedom=freedom)
        p = stack.predict(parts, 200)
        quantiles.append((p.quantile(0.999) - p.mean) / p.std)
    assert (quantiles[0] > quantiles[1]).all()


def test_scales_of_the_noise_are_not_related_to_the_draws_of_the_mean():
    z, scale = _nodes(50, torch.tensor([4.0]))
    assert abs(np.corrcoef(z, scale[:, 0])[0, 1]) < 0.15 and abs(np.corrcoef(z.abs(), scale[:, 0])[0, 1]) < 0.15


def test_models_that_agree_leave_nothing_to_disagreement():
    stack, parts = some_stack()
    same = Parts(parts.means[:1].expand(3, -1, -1), parts.aleatoric, torch.zeros_like(parts.epistemic))
    torch.testing.assert_close(stack.predict(same, 20).epistemic, torch.zeros(40, 2))


def test_perfect_predictions_still_have_a_variance_above_zero():
    means = normal(2, 50, 1)
    stack = Stack.fit(Parts(means, torch.zeros(50, 1), torch.zeros(50, 1, 1)), means[0])
    assert (stack.predict(Parts(means, torch.zeros(50, 1), torch.zeros(50, 1, 1)), 5).std > 0).all()


def test_models_that_know_nothing_get_no_weight_and_the_variance_of_the_target():
    y = normal(500, 1)
    parts = Parts(torch.zeros(2, 500, 1), torch.ones(500, 1), torch.ones(500, 1, 1))
    p = Stack.fit(parts, y).predict(parts, 20)
    assert p.mean.abs().max() < 1e-12 and p.variance[0].item() == pytest.approx(1, rel=0.2)


def test_tensors_come_back():
    stack, parts = some_stack()
    again = Stack.from_tensors(stack.to_tensors(), 3, 2, 2)
    assert torch.equal(again.predict(parts, 7).mean_draws, stack.predict(parts, 7).mean_draws)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("weights", lambda t: t[:2], "of shapes"),
        ("aleatoric", lambda t: t[:, :1], "of shapes"),
        ("epistemic", lambda t: t[1:], "of shapes"),
        ("freedom", lambda t: t[:1], "of shapes"),
        ("limits", lambda t: t[:1], "of shapes"),
        ("weights", lambda t: -t, "non-negative"),
        ("aleatoric", lambda t: 0 * t, "positive variance"),
        ("freedom", lambda t: 0 * t + 2, "more than 2 degrees"),
    ],
)
def test_wrong_tensors_are_refused(name, change, message):
    tensors = some_stack()[0].to_tensors()
    with pytest.raises(ValueError, match=message):
        Stack.from_tensors(tensors | {name: change(tensors[name])}, 3, 2, 2)


def test_the_noise_of_a_row_has_a_largest_variance():
    stack, parts = some_stack()
    wild = parts._replace(aleatoric=1e12 * torch.ones_like(parts.aleatoric))
    assert torch.allclose(stack.predict(wild, 20).aleatoric, stack.max_noise)


def test_each_fold_is_predicted_by_a_stack_that_has_not_seen_its_targets():
    parts, _, y = noisy(60)
    folds, own = [10, 20, 30], slice(10, 30)
    before = predict_unseen(parts, y, None, folds, 3)
    assert [len(p.mean) for p in before] == folds
    changed = y.clone()
    changed[own] += 5
    after = predict_unseen(parts, changed, None, folds, 3)
    assert torch.equal(after[1].mean_draws, before[1].mean_draws)
    assert not torch.equal(after[0].mean_draws, before[0].mean_draws)
    alone = Stack.fit(parts.rows(torch.arange(60) < 30), y[:30]).predict(parts.rows(torch.arange(60) >= 30), 3)
    assert torch.equal(before[2].mean_draws, alone.mean_draws)


def test_one_draw_counts_as_two():
    stack, parts = some_stack()
    one, two = stack.predict(parts, 1), stack.predict(parts, 2)
    assert torch.equal(one.mean_draws, two.mean_draws) and (one.epistemic > 0).all()
