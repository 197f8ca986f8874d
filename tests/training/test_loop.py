import pytest
import torch
from torch import nn

from nsac.training import Progress, TrainConfig, train


def problem(seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 3, generator=g)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]])
    model = nn.Linear(3, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model, lambda m: (m(x) - y).square().mean()


def test_training_solves_a_linear_problem_and_says_how_it_goes():
    model, loss = problem()
    seen: list[Progress] = []
    best = train(model, loss, lambda m: loss(m).item(), TrainConfig(steps=300, learning_rate=0.1), seen.append)
    assert loss(best).item() < 1e-3
    assert [p.step for p in seen] == list(range(1, 301)) and seen[-1].validation is not None


def test_the_best_weights_on_validation_are_kept_not_the_last():
    model, loss = problem()
    scores = iter([3.0, 1.0, 2.0, 5.0])
    found = []

    def validate(m):
        found.append(m.weight.detach().clone())
        return next(scores)

    best = train(model, loss, validate, TrainConfig(steps=40, validate_every=10))
    assert torch.equal(best.weight, found[1]) and not torch.equal(best.weight, found[3])


def test_the_same_start_gives_the_same_bits():
    results = []
    for _ in range(2):
        model, loss = problem()
        results.append(train(model, loss, lambda m: 0.0, TrainConfig(steps=20)).weight)
    assert torch.equal(*results)


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step():
    model, loss = problem()
    values = iter([1.0, 1.0, float("nan")])
    with pytest.raises(FloatingPointError, match="step 3"):
        train(model, lambda m: loss(m) * next(values), lambda m: 0.0, TrainConfig(steps=9))
