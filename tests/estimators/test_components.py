from dataclasses import replace

import numpy as np
import pytest
import torch

from nsac.estimators.boosting import Trees
from nsac.estimators.components import Components, LeftOutModels, Moments, design_groups, flatten, join_parts
from nsac.estimators.stack import Stack
from nsac.estimators.stacked import make_splits
from nsac.methods import TableProblem
from nsac.uncertainty import Prediction

PROBLEM = TableProblem(2, 1, categories=(3, 1), missing=True)


def rows(n: int = 60) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, c = torch.randn(n, 2, generator=generator), torch.randint(2, (n, 2), generator=generator)
    y = torch.sin(x[:, :1]) + c[:, :1] + 0.1 * torch.randn(n, 1, generator=generator)
    x[::5, 0] = torch.nan
    return {"x": x, "c": c}, (y - y.mean()) / y.std()


@pytest.fixture(scope="module")
def fitted():
    torch.set_default_dtype(torch.float64)
    columns, y = rows()
    splits = make_splits(60, 2, np.random.RandomState(0))
    return splits, LeftOutModels.fit(PROBLEM, columns, y, splits, None, seed=0)


def ensemble(n: int) -> Moments:
    return Moments(torch.zeros(n, 1), torch.ones(n, 1), torch.full((n, 1), 0.5))


def test_the_spread_of_the_ensemble_is_within_its_members():
    draws = torch.tensor([1.0, 3.0, 11.0, 15.0])[:, None, None]  # two members of two draws each
    moments = Moments.of(Prediction(draws, torch.zeros(4, 1, 1)), 2)
    assert (moments.mean.item(), moments.aleatoric.item(), moments.epistemic.item()) == (7.5, 1.0, 2.5)


def test_columns_of_one_category_share_a_length_scale():
    columns, _ = rows()
    groups = design_groups(PROBLEM)
    assert groups == [0, 1, 2, 3, 4, 4, 4, 4, 5, 5]
    assert flatten(PROBLEM, columns).shape == (60, len(groups)) and flatten(PROBLEM, columns).isfinite().all()


def test_left_out_rows_are_predicted_and_the_others_are_not(fitted):
    splits, models = fitted
    left_out = np.concatenate([out for _, out in splits])
    others = np.setdiff1d(np.arange(60), left_out)
    assert models.means[:, left_out].isfinite().all() and (models.variance[left_out] > 0).all()
    assert models.means[:, others].isnan().all() and models.variance[others].isnan().all()


def test_the_noise_is_the_smaller_squared_error(fitted):
    splits, models = fitted
    left_out, (_, y) = torch.from_numpy(splits[0][1]), rows()
    errors = (models.means[:, left_out] - y[left_out]).square().mean((1, 2))
    assert models.noise(y, left_out) == errors.min().item()


def test_the_models_are_stacked_in_one_order(fitted):
    splits, models = fitted
    left_out = torch.from_numpy(splits[0][1])
    parts = models.parts(ensemble(len(left_out)), left_out)
    torch.testing.assert_close(parts.means, torch.cat([torch.zeros(1, len(left_out), 1), models.means[:, left_out]]))
    assert (parts.epistemic[..., 0] == 0.5).all()
    torch.testing.assert_close(parts.epistemic[:, 0, 1], models.variance[left_out])


def test_the_variance_of_the_kernel_is_that_of_every_output():
    parts = join_parts(Moments(*[torch.zeros(3, 2)] * 3), torch.zeros(3, 2), torch.arange(3.0), torch.zeros(3, 2))
    torch.testing.assert_close(parts.epistemic[..., 1], torch.arange(3.0)[:, None].expand(3, 2))


def test_all_tensors_come_back(fitted):
    splits, models = fitted
    columns, y = rows()
    left_out = torch.from_numpy(splits[0][1])
    stack = Stack.fit(models.parts(ensemble(len(left_out)), left_out), y[left_out])
    components = models.stacked(stack)
    tensors = {
        name: each.clone(memory_format=torch.contiguous_format) for name, each in components.to_tensors().items()
    }
    again = Components.from_tensors(tensors, PROBLEM)
    mine, theirs = (each.predict(PROBLEM, columns, ensemble(60), 9, None) for each in (components, again))
    assert torch.equal(mine.mean_draws, theirs.mean_draws) and torch.equal(mine.log_std_draws, theirs.log_std_draws)


def test_rows_beyond_the_training_range_have_more_epistemic_variance(fitted):
    splits, models = fitted
    columns, y = rows()
    left_out = torch.from_numpy(splits[0][1])
    components = models.stacked(Stack.fit(models.parts(ensemble(len(left_out)), left_out), y[left_out]))
    variances = []
    for size in (10.0, 100.0):
        far = {"x": torch.full((1, 2), size), "c": columns["c"][:1]}
        variances.append(components.predict(PROBLEM, far, ensemble(1), 9, None).epistemic.item())
    assert variances[1] > variances[0] > 1


def test_trees_without_weight_are_not_evaluated(fitted, monkeypatch):
    splits, models = fitted
    columns, y = rows()
    left_out = torch.from_numpy(splits[0][1])
    stack = Stack.fit(models.parts(ensemble(len(left_out)), left_out), y[left_out])
    components = models.stacked(replace(stack, weights=torch.tensor([[0.5], [0.5], [0.0]])))
    expected = components.predict(PROBLEM, columns, ensemble(60), 9, None)
    monkeypatch.setattr(Trees, "predict", None)
    without = components.predict(PROBLEM, columns, ensemble(60), 9, None)
    assert torch.equal(without.mean_draws, expected.mean_draws)
