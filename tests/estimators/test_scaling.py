import numpy as np
import pytest
import torch

from nsac.estimators.grid import to_grid
from nsac.estimators.observations import SeriesColumns, read_observations
from nsac.estimators.scaling import fit_scaling, rms_change
from nsac.estimators.windows import WindowShape
from nsac.training import WindowData
from support.series import HOUR, hourly

SHAPE = WindowShape(lookback=4, horizon=2)


def fitted(y, a=1.0, rows=60):
    observations = read_observations(hourly(len(y), y=y, a=a), SeriesColumns("t", None, "y", ("a",)))
    grid = to_grid(observations, HOUR, 100)
    return fit_scaling(grid, grid.values, np.arange(len(y)) < rows, SHAPE)


def test_offset_and_scale_are_mean_and_standard_deviation_of_the_training_split():
    y = np.random.default_rng(0).normal(size=80)
    scaling, _ = fitted(y)
    np.testing.assert_allclose([scaling.offset[0], scaling.scale[0]], [y[:60].mean(), y[:60].std()])


def test_a_constant_has_scale_one():
    assert fitted(np.arange(80.0))[0].scale[1] == 1


def test_an_input_that_begins_after_the_training_split_has_scale_one():
    a = np.where(np.arange(80) < 60, np.nan, 5.0)
    assert fitted(np.arange(80.0), a)[0].scale[1] == 1


def test_roughness_is_the_typical_step_of_the_target():
    y = 3 * np.arange(80.0)
    scaling, _ = fitted(y)
    assert scaling.roughness == pytest.approx(3 / y[:60].std())


def test_an_amplitude_is_the_typical_difference_to_the_last_value():
    y = 3 * np.arange(80.0)
    assert fitted(y)[1][0] == pytest.approx(3 * np.sqrt(14 / 4) / y[:60].std())


def test_standardised_values_have_mean_zero_and_standard_deviation_one():
    y = np.random.default_rng(0).normal(size=60)
    z = fitted(y)[0].standardise(np.column_stack([y, np.ones(60)]))
    np.testing.assert_allclose([z[:, 0].mean(), z[:, 0].std()], [0, 1], atol=1e-12)


def windows(values):
    values = torch.tensor(values)[:, None]
    n = len(values)
    bounds = torch.zeros(n, dtype=torch.long), torch.full((n,), n)
    return WindowData(values, torch.arange(3, n - 2), 4, 2, [0], torch.ones(2, 1), bounds=bounds)


def test_missing_values_do_not_count_in_the_typical_change():
    line = windows([0.0, 1, 2, 3, 4, float("nan"), 6, 7, 8])
    np.testing.assert_allclose(rms_change(line, np.array([0])), [1.0, 1.0])  # the second is replaced by the mean


def test_a_target_that_never_changes_has_typical_change_one():
    assert rms_change(windows([5.0] * 9), np.arange(4)).tolist() == [1, 1]
