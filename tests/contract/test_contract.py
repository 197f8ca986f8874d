"""The interface of uncertainty methods, tested over the registry."""

import pytest
import torch

from nsac.methods import METHODS, AbstractSolved, fit
from nsac.training import TrainConfig
from support.problems import PROBLEMS, sine

SHORT = TrainConfig(max_steps=6, batch_size=16, validate_every=3)
CASES = [(name, kind) for name, cls in METHODS.items() for kind in cls.kinds]
CAPABLE = ("nsac", "gmle", "mcd", "de", "der", "sdenet")
"""Methods that can fit a curve with heteroscedastic noise."""


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def fitted(name, kind, seed=0):
    split = PROBLEMS[kind](generator=seeded())
    method = METHODS[name](split.problem, seed=seed)
    fit(method, split.train, split.validation, SHORT, seed=seed)
    return method, split


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def case(request):
    return (*request.param, *fitted(*request.param))


def test_a_prediction_has_one_row_per_input(case):
    name, kind, method, split = case
    batch = split.test.columns
    p = method.predict(batch)
    assert p.mean.shape == p.aleatoric.shape == p.epistemic.shape == batch["y"].shape


def test_variances_are_finite_and_add_up(case):
    name, kind, method, split = case
    p = method.predict(split.test.columns)
    assert p.mean.isfinite().all() and (p.aleatoric > 0).all() and p.aleatoric.isfinite().all()
    assert (p.epistemic >= 0).all() and p.epistemic.isfinite().all()
    torch.testing.assert_close(p.variance, p.aleatoric + p.epistemic)


def test_has_epistemic_is_true_if_the_epistemic_variance_is_not_zero(case):
    name, kind, method, split = case
    assert bool((method.predict(split.test.columns).epistemic > 0).any()) == method.has_epistemic


def test_two_predictions_are_the_same(case):
    name, kind, method, split = case
    one, two = method.predict(split.test.columns), method.predict(split.test.columns)
    assert torch.equal(one.mean_draws, two.mean_draws) and torch.equal(one.log_std_draws, two.log_std_draws)


def test_prediction_does_not_touch_the_global_random_state(case):
    name, kind, method, split = case
    before = torch.get_rng_state()
    method.predict(split.test.columns)
    assert torch.equal(before, torch.get_rng_state())


def test_a_fitted_method_depends_on_the_seed_alone(case):
    name, kind, method, split = case
    same, _ = fitted(name, kind)
    assert torch.equal(method.predict(split.test.columns).mean, same.predict(split.test.columns).mean)
    if not isinstance(method, AbstractSolved):
        other, _ = fitted(name, kind, seed=1)
        assert not torch.equal(method.predict(split.test.columns).mean, other.predict(split.test.columns).mean)


def test_parameters_and_buffers_are_the_whole_state(case):
    name, kind, method, split = case
    other = METHODS[name](split.problem, seed=0)
    other.load_state_dict({key: value.clone() for key, value in method.state_dict().items()})
    one, two = method.predict(split.test.columns), other.predict(split.test.columns)
    assert torch.equal(one.mean_draws, two.mean_draws) and torch.equal(one.log_std_draws, two.log_std_draws)


def test_the_prediction_of_a_row_does_not_depend_on_other_rows(case):
    name, kind, method, split = case
    alone = method.predict({key: value[:1] for key, value in split.test.columns.items()})
    together = method.predict(split.test.batch(torch.arange(3)))
    torch.testing.assert_close(alone.mean_draws[:, 0], together.mean_draws[:, 0])


def test_a_target_of_the_wrong_shape_is_refused_before_it_broadcasts(case):
    name, kind, method, split = case
    flat = type(split.train)(**{**split.train.columns, "y": split.train.columns["y"][..., 0]})
    with pytest.raises(ValueError, match="`y` must have shape"):
        fit(METHODS[name](split.problem, seed=0), flat, flat, SHORT)


def test_inputs_that_are_not_finite_are_refused_by_name(case):
    name, kind, method, split = case
    if isinstance(method, AbstractSolved) and name in ("mean", "persistence", "seasonal", "zero"):
        pytest.skip("it does not use x")
    for value in (float("nan"), float("inf")):
        batch = {key: column.clone() for key, column in split.test.columns.items()}
        batch.pop("mask", None)
        batch["x"].view(-1)[0] = value
        with pytest.raises(ValueError, match="`x` must be finite"):
            method.predict(batch)


def test_a_prediction_needs_at_least_one_draw(case):
    name, kind, method, split = case
    with pytest.raises(ValueError, match="`num_samples`"):
        method.predict(split.test.columns, num_samples=0)


def test_every_parameter_of_a_trainable_method_has_a_gradient(case):
    name, kind, method, split = case
    if isinstance(method, AbstractSolved):
        pytest.skip("it is not trained by gradient descent")
    fresh = METHODS[name](split.problem, seed=3)
    fresh.loss(split.train.batch(torch.arange(16 if kind != "frames" else 4)), seeded()).backward()
    assert not [key for key, p in fresh.named_parameters() if p.grad is None or not (p.grad != 0).any()]
    assert all(isinstance(value, torch.Tensor) and not value.requires_grad for value in fresh.parts.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPABLE)
def test_a_neural_method_learns_a_heteroscedastic_sine(name):
    split = sine(6000, generator=seeded(1))
    method = METHODS[name](split.problem, seed=0)
    config = TrainConfig(max_steps=1500, batch_size=128, validate_every=100, learning_rate=3e-3)
    fit(method, split.train, split.validation, config)
    test = split.test.columns
    nll = -method.predict(test, num_samples=50).log_prob(test["y"]).mean().item()
    print(f"{name}: NLL {nll:.3f}, true density {split.true_nll:.3f}")
    assert nll < split.true_nll + 0.1
