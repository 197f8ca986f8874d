"""The paper's regulariser separates perturbed inputs from data, at no cost in accuracy and without collapse."""

import pytest
import torch

from nsac.methods import METHODS, TableProblem, fit
from nsac.training import TensorData, TrainConfig

CONFIG = TrainConfig(max_steps=800, batch_size=128, validate_every=100)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def curved(n=4000):
    """Eight features, one output, noise of 0.3."""
    g = seeded(4)
    x = torch.randn(n, 8, generator=g)
    y = torch.sin(x[:, :1] * x[:, 1:2]) + 0.5 * x[:, 2:3] + 0.3 * torch.randn(n, 1, generator=g)
    return [TensorData(x=x[rows], y=y[rows]) for rows in (slice(0, 2500), slice(2500, 3000), slice(3000, n))]


@pytest.fixture(scope="module")
def trained():
    train, validation, test = curved()
    models = {}
    for weight in (0.5, 0.0):
        model = METHODS["nsac"](TableProblem(8, 1), seed=0, objective="paper", reg_weight=weight)
        fit(model, train, validation, CONFIG)
        models[weight] = model
    return models, test.columns


def ratio(model, x):
    far = x + 5 * torch.randn(x.shape, generator=seeded(9))
    return (model.predict({"x": far}).epistemic.mean() / model.predict({"x": x}).epistemic.mean()).item()


@pytest.mark.slow
def test_epistemic_variance_is_ten_times_larger_on_perturbed_inputs_with_the_regulariser(trained):
    models, test = trained
    with_reg = ratio(models[0.5], test["x"])
    without = ratio(models[0.0], test["x"])
    print(f"epistemic variance, perturbed / clean: {with_reg:.0f} with the regulariser, {without:.1f} without")
    assert with_reg >= 10 and without < with_reg


@pytest.mark.slow
def test_the_regulariser_costs_no_accuracy(trained):
    models, test = trained
    error = {w: (m.predict(test).mean - test["y"]).square().mean().sqrt().item() for w, m in models.items()}
    print(f"RMSE: {error[0.5]:.4f} with the regulariser, {error[0.0]:.4f} without")
    assert error[0.5] < 1.05 * error[0.0]


@pytest.mark.slow
def test_the_variances_do_not_collapse_and_are_logged(trained):
    models, test = trained
    model = models[0.5]
    assert {"nll", "reg", "var_id", "var_ood"} <= set(model.parts)
    p = model.predict(test)
    assert p.aleatoric.mean() > 0.05 and model.predict({"x": 5 * test["x"]}).epistemic.mean() > 1e-4
