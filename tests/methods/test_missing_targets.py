"""Missing targets: every method ignores them."""

import math
from dataclasses import replace

import pytest
import torch

from nsac.layers.loss import gaussian_nll
from nsac.methods import METHODS, AbstractTrainable, fit
from nsac.training import TensorData, TrainConfig
from support.problems import sine, walk

SHORT = TrainConfig(max_steps=4, batch_size=16, validate_every=2)
WINDOWS = [name for name, cls in METHODS.items() if "windows" in cls.kinds]


def with_missing_targets(data: TensorData, fraction: float, generator: torch.Generator) -> TensorData:
    y = data.columns["y"]
    missing = torch.rand(y.shape, generator=generator, dtype=y.dtype) < fraction
    return TensorData(**{**data.columns, "y": y.masked_fill(missing, math.nan)})


def fitted(name, generator, fraction=0.4):
    split = walk(200, generator=generator)
    train = with_missing_targets(split.train, fraction, generator)
    validation = with_missing_targets(split.validation, fraction, generator)
    method = METHODS[name](replace(split.problem, missing_targets=True), seed=0)
    fit(method, train, validation, SHORT)
    return method, split, validation


@pytest.mark.parametrize("name", WINDOWS)
def test_predictions_are_finite_after_fitting_missing_targets(name, generator):
    method, split, _ = fitted(name, generator)
    p = method.predict(split.test.columns)
    assert p.mean.isfinite().all() and p.std.isfinite().all() and (p.epistemic > 0).any() == method.has_epistemic


@pytest.mark.parametrize("name", WINDOWS)
def test_the_validation_score_is_over_observed_targets(name, generator):
    method, split, validation = fitted(name, generator)
    y = validation.columns["y"]
    total, count = method.validation(validation.columns)
    each = -method.predict(split.validation.columns, 10).log_prob(split.validation.columns["y"])
    assert count == (~y.isnan()).sum()
    torch.testing.assert_close(total, each[~y.isnan()].sum())


@pytest.mark.parametrize("name", WINDOWS)
def test_an_output_that_was_never_observed_has_a_finite_prediction(name, generator):
    split = walk(200, generator=generator)
    splits = []
    for data in (split.train, split.validation):
        y = data.columns["y"].clone()
        y[:, 2] = math.nan
        splits.append(TensorData(**{**data.columns, "y": y}))
    method = METHODS[name](replace(split.problem, missing_targets=True), seed=0)
    fit(method, *splits, SHORT)
    p = method.predict(split.test.columns)
    assert p.mean.isfinite().all() and p.std.isfinite().all()


@pytest.mark.parametrize("name", [name for name in WINDOWS if issubclass(METHODS[name], AbstractTrainable)])
def test_rows_without_observed_targets_have_no_gradient(name, generator):
    split = walk(40, generator=generator)
    batch = split.train.batch(torch.arange(8))
    batch["y"] = torch.full_like(batch["y"], math.nan)
    method = METHODS[name](replace(split.problem, missing_targets=True), seed=0)
    method.loss(batch, generator).backward()
    head = [p.grad for key, p in method.named_parameters() if ("head" in key or "reader" in key) and p.grad is not None]
    assert head and all((grad == 0).all() for grad in head)


@pytest.mark.parametrize("name", WINDOWS)
def test_a_missing_target_is_refused_unless_the_problem_has_missing_targets(name, generator):
    split = walk(40, generator=generator)
    with pytest.raises(ValueError, match="`y` must be finite"):
        fit(METHODS[name](split.problem), with_missing_targets(split.train, 0.5, generator), split.validation, SHORT)


@pytest.mark.parametrize("name", ["ridge", "mean", "persistence"])
def test_an_output_is_solved_from_the_rows_in_which_it_is_observed(name, generator):
    split = walk(300, generator=generator)
    y = split.train.columns["y"].clone()
    y[::2, 1] = math.nan
    some = TensorData(**{key: column[1::2] for key, column in split.train.columns.items()})
    with_gaps = METHODS[name](replace(split.problem, missing_targets=True))
    fewer = METHODS[name](split.problem)
    fit(with_gaps, TensorData(**{**split.train.columns, "y": y}), split.validation)
    fit(fewer, some, split.validation)
    for a, b in zip(*(m.predict(split.test.columns).interval() for m in (with_gaps, fewer)), strict=True):
        torch.testing.assert_close(a[:, 1], b[:, 1])
        assert not torch.allclose(a[:, 0], b[:, 0])


def test_the_mean_likelihood_is_over_observed_targets(generator):
    mean, log_std = torch.randn(2, 5, 6, 3, generator=generator).unbind(0)
    y = torch.randn(6, 3, generator=generator)
    y[2, 1] = y[4, 0] = math.nan
    known = ~y.isnan()
    expected = gaussian_nll(mean[:, known], log_std[:, known], y[known])
    torch.testing.assert_close(gaussian_nll(mean, log_std, y), expected)


def test_tables_may_have_missing_targets(generator):
    split = sine(200, generator)
    method = METHODS["nsac"](replace(split.problem, missing_targets=True), seed=0)
    fit(
        method,
        with_missing_targets(split.train, 0.3, generator),
        with_missing_targets(split.validation, 0.3, generator),
        SHORT,
    )
    assert method.predict(split.test.columns).mean.isfinite().all()
