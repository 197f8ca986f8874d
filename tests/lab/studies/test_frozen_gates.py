import math

import pytest
import torch

from nsac import NSAC
from nsac.lab.studies.frozen_gates import REGIMES, frozen_errors, step, step_series, trained_layer


@pytest.fixture(scope="module")
def layer() -> NSAC:
    return NSAC(1, 1, d_model=16, num_heads=4, circuit_units=16)


@pytest.fixture(scope="module")
def errors(layer):
    return frozen_errors(layer)


def test_all_numbers_are_positive_percentages(errors):
    numbers = [number for each in errors.values() for number in each.values()]
    assert all(math.isfinite(number) and number > 0 for number in numbers)


def test_the_largest_error_is_no_less_than_the_average(errors):
    for each in errors.values():
        assert each["mean_error"] <= each["max_error"] and each["std_mean_error"] <= each["std_max_error"]


def test_more_updates_shrink_every_error(layer, errors):
    for regime, fine in frozen_errors(layer, updates=40).items():
        # about half: the error has order 1 in the length of an update
        assert fine["mean_error"] < 0.6 * errors[regime]["mean_error"]
        assert fine["std_mean_error"] < 0.6 * errors[regime]["std_mean_error"]


@pytest.mark.parametrize("updates", [1, 7, 20])
def test_no_error_exceeds_its_bound(layer, updates):
    assert all(each["bound_use"] <= 100 for each in frozen_errors(layer, updates).values())


@pytest.mark.parametrize("updates", [1, 7, 20])
def test_the_bounds_are_not_vacuous(layer, updates):
    assert all(each["bound_use"] > 10 for each in frozen_errors(layer, updates).values())


def test_constant_gates_have_no_error():
    blind = NSAC(1, 1, d_model=16, num_heads=4, circuit_units=16)
    with torch.no_grad():
        blind.attention.key.synapses.weight.zero_()  # the key is its bias for any input
    for each in frozen_errors(blind).values():
        assert each["max_error"] == pytest.approx(0.0, abs=1e-9) and each["bound_use"] <= 100


def test_no_jump_is_at_the_start_of_an_update():
    grid = torch.linspace(0, 1, 21)[1:-1]
    assert torch.equal(step(grid - 1e-9), step(grid + 1e-9))


@pytest.mark.parametrize("regime", REGIMES)
def test_drive_signals_are_between_minus_one_and_one(regime):
    assert REGIMES[regime](torch.linspace(0, 1, 100)).abs().max() <= 1


def test_frozen_gates_of_the_step_have_one_value_per_update(layer):
    assert len(step_series(layer, updates=7)["held_phi"]) == 7


@pytest.mark.slow
def test_no_error_of_a_trained_layer_exceeds_its_bound(seed):
    assert all(each["bound_use"] <= 100 for each in frozen_errors(trained_layer(seed)).values())
