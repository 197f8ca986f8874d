"""Targets that were not observed: no method may learn from them, or be stopped by them."""

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


def holey(part: TensorData, share: float, generator) -> TensorData:
    y = part.columns["y"]
    holes = torch.rand(y.shape, generator=generator, dtype=y.dtype) < share
    return TensorData(**{**part.columns, "y": y.masked_fill(holes, math.nan)})


def fitted(name, generator, share=0.4):
    split = walk(200, generator=generator)
    parts = [holey(part, share, generator) for part in (split.train, split.validation)]
    method = METHODS[name](replace(split.problem, missing_targets=True), seed=0)
    fit(method, *parts, SHORT)
    return method, split, parts


@pytest.mark.parametrize("name", WINDOWS)
def test_every_method_fits_a_target_with_holes(name, generator):
    method, split, (train, validation) = fitted(name, generator)
    p = method.predict(split.test.columns)
    assert p.mean.isfinite().all() and p.std.isfinite().all() and (p.epistemic > 0).any() == method.has_epistemic
    y = validation.columns["y"]
    total, count = method.validation(validation.columns)
    each = -method.predict(split.validation.columns, 10).log_prob(split.validation.columns["y"])
    assert count == (~y.isnan()).sum()
    torch.testing.assert_close(total, each[~y.isnan()].sum())


@pytest.mark.parametrize("name", WINDOWS)
def test_an_output_that_was_never_observed_has_a_finite_prediction(name, generator):
    split = walk(200, generator=generator)
    parts = []
    for part in (split.train, split.validation):
        y = part.columns["y"].clone()
        y[:, 2] = math.nan
        parts.append(TensorData(**{**part.columns, "y": y}))
    method = METHODS[name](replace(split.problem, missing_targets=True), seed=0)
    fit(method, *parts, SHORT)
    p = method.predict(split.test.columns)
    assert p.mean.isfinite().all() and p.std.isfinite().all()


@pytest.mark.parametrize("name", [name for name in WINDOWS if issubclass(METHODS[name], AbstractTrainable)])
def test_a_row_without_a_known_target_has_no_gradient(name, generator):
    split = walk(40, generator=generator)
    batch = split.train.batch(torch.arange(8))
    batch["y"] = torch.full_like(batch["y"], math.nan)
    method = METHODS[name](replace(split.problem, missing_targets=True), seed=0)
    method.loss(batch, generator).backward()
    head = [p.grad for key, p in method.named_parameters() if ("head" in key or "reader" in key) and p.grad is not None]
    assert head and all((grad == 0).all() for grad in head)


@pytest.mark.parametrize("name", WINDOWS)
def test_a_missing_target_is_refused_unless_the_problem_says_otherwise(name, generator):
    split = walk(40, generator=generator)
    with pytest.raises(ValueError, match="`y` must be finite"):
        fit(METHODS[name](split.problem), holey(split.train, 0.5, generator), split.validation, SHORT)


@pytest.mark.parametrize("name", ["ridge", "mean", "persistence"])
def test_an_output_is_solved_from_the_rows_that_have_it(name, generator):
    split = walk(300, generator=generator)
    y = split.train.columns["y"].clone()
    y[::2, 1] = math.nan
    some = TensorData(**{key: column[1::2] for key, column in split.train.columns.items()})
    holes, fewer = METHODS[name](replace(split.problem, missing_targets=True)), METHODS[name](split.problem)
    fit(holes, TensorData(**{**split.train.columns, "y": y}), split.validation)
    fit(fewer, some, split.validation)
    for a, b in zip(*(m.predict(split.test.columns).interval() for m in (holes, fewer)), strict=True):
        torch.testing.assert_close(a[:, 1], b[:, 1])
        assert not torch.allclose(a[:, 0], b[:, 0])


def test_the_mean_likelihood_is_over_known_targets(generator):
    mean, log_std = torch.randn(2, 5, 6, 3, generator=generator).unbind(0)
    y = torch.randn(6, 3, generator=generator)
    y[2, 1] = y[4, 0] = math.nan
    known = ~y.isnan()
    expected = gaussian_nll(mean[:, known], log_std[:, known], y[known])
    torch.testing.assert_close(gaussian_nll(mean, log_std, y), expected)


def test_tables_may_miss_targets_too(generator):
    split = sine(200, generator)
    method = METHODS["nsac"](replace(split.problem, missing_targets=True), seed=0)
    fit(method, holey(split.train, 0.3, generator), holey(split.validation, 0.3, generator), SHORT)
    assert method.predict(split.test.columns).mean.isfinite().all()
