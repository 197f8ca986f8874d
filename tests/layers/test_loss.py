import math

import pytest
import torch

from nsac import NSAC, NSACLoss
from nsac.layers import Draws
from nsac.layers.loss import RELATIVE_EPS, gaussian_nll
from nsac.uncertainty import Adversarial, FeatureShuffle, GaussianNoise

SMALL = {"d_model": 16, "num_heads": 4, "topk": 4, "circuit_units": 12}


def problem(generator, batch=16):
    return torch.randn(batch, 6, 3, generator=generator), torch.randn(batch, 2, generator=generator)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


class Fixed:
    """Stands in for a layer: returns given draws, whatever it is asked, and remembers what it saw."""

    def __init__(self, mean, log_std):
        self.draws, self.seen = Draws(mean, log_std), None

    def __call__(self, x, **inputs):
        self.seen = x, inputs
        return self.draws


def test_nll_is_minus_the_log_density(generator):
    mean, log_std, y = torch.randn(3, 4, generator=generator).unbind(0)
    expected = -torch.distributions.Normal(mean, log_std.exp()).log_prob(y).mean()
    torch.testing.assert_close(gaussian_nll(mean, log_std, y), expected)


def test_beta_goes_from_the_gradient_of_the_likelihood_to_that_of_least_squares(generator):
    mean, log_std, y = torch.randn(3, 4, generator=generator, dtype=torch.float64).unbind(0)
    mean.requires_grad_()
    for beta in (0.0, 0.5, 1.0):
        (found,) = torch.autograd.grad(gaussian_nll(mean, log_std, y, beta), mean)
        torch.testing.assert_close(found, (mean.detach() - y) / 4 * torch.exp(2 * (beta - 1) * log_std))


def test_the_standard_deviation_that_minimises_the_loss_does_not_depend_on_beta(generator):
    y = 3 * torch.randn(1000, generator=generator, dtype=torch.float64)
    log_std = y.square().mean().sqrt().log().expand(1000).clone().requires_grad_()
    for beta in (0.0, 1.0):
        (gradient,) = torch.autograd.grad(gaussian_nll(torch.zeros_like(y), log_std, y, beta), log_std)
        assert gradient.sum().abs() < 1e-9


def test_the_loss_is_algorithm_1(generator):
    x, y = torch.randn(4, 1, 3, generator=generator), torch.randn(4, 2, generator=generator)
    mean, log_std = torch.randn(2, 5, 6, 2, generator=generator).unbind(0)  # 4 rows of the batch, 2 surrogates
    layer, loss = Fixed(mean, log_std), NSACLoss(reg_weight=0.7, ood_fraction=0.5)
    value = loss(layer, x, y, generator=generator)
    nll = -torch.distributions.Normal(mean[:, :4], log_std[:, :4].exp()).log_prob(y).mean()
    v_id, v_ood = mean[:, :4].var(0, correction=0).mean(), mean[:, 4:].var(0, correction=0).mean()
    reg = math.log(1 + v_id / (v_ood + RELATIVE_EPS * y.var(correction=0)))
    torch.testing.assert_close(value, nll + 0.7 * reg)
    torch.testing.assert_close(loss.parts["reg"].item(), reg)
    torch.testing.assert_close((loss.parts["var_id"], loss.parts["var_ood"]), (v_id, v_ood))


def test_rows_and_surrogates_go_through_the_layer_once_with_their_own_inputs(generator):
    x, y = torch.randn(4, 5, 3, generator=generator), torch.randn(4, 2, generator=generator)
    layer = Fixed(torch.randn(5, 8, 2, generator=generator), torch.zeros(5, 8, 2))
    times, shared = torch.arange(20.0).view(4, 5), torch.rand(7, generator=generator)
    NSACLoss(ood_fraction=1.0)(layer, x, y, generator=generator, times=times, query_times=shared, causal=True)
    seen, inputs = layer.seen
    assert torch.equal(seen[:4], x) and seen.shape == (8, 5, 3)
    assert inputs["query_times"] is shared and inputs["causal"] is True
    assert torch.equal(inputs["times"][:4], times)
    rows = (inputs["times"][4:, 0] / 5).long()  # which row each surrogate was made from
    assert sorted(rows.tolist()) == [0, 1, 2, 3]
    assert (seen[4:] - x[rows]).abs().mean().item() == pytest.approx(5 * math.sqrt(2 / math.pi), rel=0.3)


def test_the_epsilon_scales_with_the_unit_of_the_target(generator):
    """The regulariser is the same for metres and millimetres."""
    mean, y = torch.randn(5, 8, 2, generator=generator), torch.randn(4, 2, generator=generator)
    x = torch.randn(4, 1, 3, generator=generator)
    losses = []
    for unit in (1.0, 1e-6, 1e6):
        loss = NSACLoss(ood_fraction=1.0)
        loss(Fixed(unit * mean, torch.zeros_like(mean)), x, unit * y)
        losses.append(loss.parts["reg"])
    torch.testing.assert_close(losses[1], losses[0])
    torch.testing.assert_close(losses[2], losses[0])


def test_without_weight_the_loss_is_the_likelihood_and_has_no_surrogates(generator):
    x, y = problem(generator)
    layer = NSAC(3, 2, **SMALL)
    loss = NSACLoss(reg_weight=0.0)
    value = loss(layer, x, y, generator=seeded())
    torch.testing.assert_close(value, gaussian_nll(*layer(x, generator=seeded()), y))
    assert loss.parts["reg"] == 0 and "var_ood" not in loss.parts


@pytest.mark.parametrize("surrogate", ["gaussian", "shuffle", "adversarial"])
def test_each_surrogate_gives_a_finite_loss_and_the_same_bits_for_the_same_generator(surrogate, generator):
    x, y = problem(generator)
    layer, loss = NSAC(3, 2, **SMALL), NSACLoss(surrogate=surrogate)
    one, two = (loss(layer, x, y, generator=seeded(1)) for _ in range(2))
    assert torch.equal(one, two) and one.isfinite()
    one.backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("surrogate", ["gaussian", "shuffle", "adversarial"])
def test_masked_values_do_not_enter_a_surrogate(surrogate, generator):
    x, y = problem(generator)
    mask = torch.rand(16, 6, generator=generator) < 0.4
    mask[:, :2] = False
    layer, loss = NSAC(3, 2, **SMALL), NSACLoss(surrogate=surrogate)
    values = [
        loss(layer, x.masked_fill(mask[..., None], hidden), y, generator=seeded(), mask=mask)
        for hidden in (0.0, 7.0, math.nan)
    ]
    assert torch.equal(values[0], values[1]) and torch.equal(values[0], values[2])


def test_shuffling_uses_two_rows_even_of_a_small_batch(generator):
    x, y = problem(generator, batch=4)
    seen = []
    NSACLoss(surrogate=lambda x, epistemic, generator: seen.append(len(x)) or x)(NSAC(3, 2, **SMALL), x, y)
    assert seen == [2]


def test_a_function_can_be_the_surrogate(generator):
    x, y = problem(generator)
    called = []
    NSACLoss(surrogate=lambda x, epistemic, generator: called.append(x) or -x)(NSAC(3, 2, **SMALL), x, y)
    assert called[0].shape == (4, 6, 3)


def test_gaussian_noise_has_its_moments(generator):
    x = torch.zeros(200, 10, 50)
    noise = GaussianNoise(mean=2.0, std=3.0)(x, None, generator)  # pyright: ignore[reportArgumentType]
    assert noise.mean().item() == pytest.approx(2.0, abs=5 * 3 / 100_000**0.5)
    assert noise.std().item() == pytest.approx(3.0, rel=5 / 200_000**0.5)


@pytest.mark.parametrize("shape", [(50, 4, 6), (50, 6)], ids=["sequences", "table"])
def test_shuffling_keeps_each_marginal_and_breaks_the_rows(shape, generator):
    x = torch.randn(shape, generator=generator)
    mixed = FeatureShuffle()(x, None, generator)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(mixed.sort(0).values, x.sort(0).values)
    assert ((mixed == x).all(-1).double().mean() < 0.1).all()


def test_adversarial_rows_are_as_distant_as_noise_and_harder_to_detect(generator):
    layer = NSAC(3, 2, **SMALL)
    x, _ = problem(generator, batch=64)

    def epistemic(z):
        return layer(z, num_samples=30, generator=seeded(5)).mean.var(0, correction=0).flatten(1).mean(1)

    plain, hard = (kind(0.0, 2.0)(x, epistemic, seeded(9)) for kind in (GaussianNoise, Adversarial))
    torch.testing.assert_close((hard - x).square().mean((1, 2)), (plain - x).square().mean((1, 2)))
    assert epistemic(hard).log().mean() < epistemic(plain).log().mean() - 0.05
    assert not hard.requires_grad


def test_the_regulariser_separates_noise_from_data(generator):
    """A few steps suffice to make the epistemic variance larger on what the loss calls OOD."""
    x, y = problem(generator, batch=64)
    y = x[:, -1, :2]
    layer, loss = NSAC(3, 2, **SMALL), NSACLoss()
    optimiser = torch.optim.Adam(layer.parameters(), lr=1e-2)
    ratios = []
    for _ in range(60):
        optimiser.zero_grad()
        loss(layer, x, y, generator=generator).backward()
        optimiser.step()
        ratios.append((loss.parts["var_ood"] / loss.parts["var_id"]).item())
    assert ratios[-1] > 3 * ratios[0]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({"num_samples": 1}, "num_samples"), ({"reg_weight": -1.0}, "reg_weight"), ({"ood_fraction": 0.0}, "ood_fraction"),
     ({"surrogate": "gauss"}, "surrogate")],
)  # fmt: skip
def test_an_invalid_setting_is_refused_by_name(arguments, word):
    with pytest.raises(ValueError, match=f"`{word}`"):
        NSACLoss(**arguments)


def test_a_target_of_the_wrong_shape_is_refused_before_it_broadcasts(generator):
    x, y = problem(generator)
    with pytest.raises(ValueError, match=r"`y` must have the shape .*\(16, 2\).*Got \(16,\)"):
        NSACLoss()(NSAC(3, 2, **SMALL), x, y[:, 0])


def test_a_target_that_was_not_observed_does_not_count(generator):
    mean, log_std = torch.randn(2, 5, 4, 2, generator=generator).unbind(0)
    mean.requires_grad_()
    y = torch.randn(4, 2, generator=generator)
    y[1] = y[3, 0] = torch.nan
    known = ~y.isnan()
    expected = -torch.distributions.Normal(mean[:, known], log_std[:, known].exp()).log_prob(y[known]).mean()
    found = gaussian_nll(mean, log_std, y)
    torch.testing.assert_close(found, expected)
    found.backward()
    assert (mean.grad[:, ~known] == 0).all() and (mean.grad[:, known] != 0).all()


def test_without_observed_targets_the_likelihood_is_zero(generator):
    mean, log_std = torch.randn(2, 5, 4, 2, generator=generator).unbind(0)
    assert gaussian_nll(mean, log_std, torch.full((4, 2), torch.nan)) == 0


def test_the_defaults_of_the_loss_are_those_of_its_documentation(generator):
    loss = NSACLoss()
    assert (loss.reg_weight, loss.num_samples, loss.ood_fraction) == (0.5, 5, 0.25)
    assert loss.surrogate == GaussianNoise(0.0, 5.0)
    assert NSACLoss(ood_fraction=1.0).ood_fraction == 1  # the largest


def test_the_layer_makes_as_many_draws_as_the_loss_has(generator):
    layer = Fixed(torch.randn(7, 4, 2, generator=generator), torch.zeros(7, 4, 2))
    NSACLoss(reg_weight=0.0, num_samples=7)(layer, torch.zeros(4, 1, 3), torch.zeros(4, 2))
    assert layer.seen[1]["num_samples"] == 7


@pytest.mark.parametrize(
    "batch, fraction, surrogates", [(1, 0.25, 1), (2, 0.25, 2), (16, 0.5, 8), (10, 0.26, 3), (10, 1.0, 10)]
)
def test_the_number_of_surrogates_is_a_share_of_the_batch_and_at_least_two_rows(batch, fraction, surrogates):
    seen = []

    def surrogate(x, epistemic, generator):
        seen.append(len(x))
        return x

    total = batch + surrogates
    layer = Fixed(torch.arange(2.0 * total).reshape(2, total, 1), torch.zeros(2, total, 1))
    NSACLoss(ood_fraction=fraction, surrogate=surrogate)(layer, torch.zeros(batch, 1, 3), torch.zeros(batch, 1))
    assert seen == [surrogates]


def test_a_surrogate_sees_the_epistemic_variance_of_each_row(generator):
    mean = torch.randn(5, 4, 6, 2, generator=generator)
    seen = []

    def surrogate(x, epistemic, generator):
        seen.append(epistemic(x))
        return x

    layer = Fixed(mean, torch.zeros_like(mean))
    with pytest.raises(ValueError, match="`y`"):  # these draws are of the surrogates alone
        NSACLoss(ood_fraction=1.0, surrogate=surrogate)(layer, torch.zeros(4, 6, 3), torch.zeros(4, 2))
    torch.testing.assert_close(seen[0], mean.var(0, correction=0).mean((1, 2)))
