import numpy as np
import pandas as pd
import pytest
import torch

from nsac.estimators.observations import SeriesColumns, find_columns, read_observations
from nsac.estimators.preprocessing import SeriesPreprocessor, fit_scaling, prepare, rms_change
from nsac.estimators.windows import WindowShape, to_grid
from nsac.training import WindowData
from nsac.uncertainty import Prediction
from support.series import HOUR, daily_cycle, hourly, irregular_series

SHAPE = WindowShape(lookback=12, horizon=6)


def prepared(frame):
    return prepare(frame, find_columns(frame, "t", None, "y", None), None, SHAPE)


@pytest.fixture(scope="module")
def regular():
    return prepared(daily_cycle())


def test_training_windows_are_in_single_precision(regular):
    assert regular.windows.batch(torch.arange(3))["x"].dtype == torch.float32


def test_windows_are_either_for_calibration_or_not(regular):
    assert not set(regular.calibration.ends.tolist()) & set(
        regular.windows.ends[torch.from_numpy(regular.rest)].tolist()
    )


def test_the_calibration_split_changes_no_statistic(regular):
    frame = daily_cycle()
    frame.loc[220:, "y"] *= 100
    changed = prepared(frame).preprocessor
    for name in ("offset", "scale", "roughness", "change"):
        np.testing.assert_array_equal(getattr(changed, name), getattr(regular.preprocessor, name))


def test_an_irregular_series_has_the_offsets_from_its_slots_as_input():
    problem = prepared(irregular_series()).problem
    assert problem.input_dim == 3 and problem.missing and problem.missing_targets


def test_a_regular_series_has_no_further_input(regular):
    assert regular.problem.input_dim == 2 and not regular.problem.missing


def test_the_latest_window_ends_with_the_last_row(regular):
    frame, preprocessor = daily_cycle(), regular.preprocessor
    windows = preprocessor.latest(preprocessor.read(frame))
    x = windows.batch(torch.tensor([0]))["x"][0, :, 0].numpy()
    np.testing.assert_allclose(x * preprocessor.scale[0] + preprocessor.offset[0], frame["y"][-12:])


def test_last_and_observed_values_are_in_the_unit_of_the_target(regular):
    frame, preprocessor = daily_cycle(), regular.preprocessor
    _, windows = preprocessor.past(preprocessor.read(frame))
    row = windows.ends.tolist().index(100)
    assert preprocessor.last_values(windows)[row].item() == pytest.approx(frame["y"][100])
    np.testing.assert_allclose(preprocessor.observed(windows)[row], frame["y"][101:107])


def test_a_standardised_target_as_prediction_is_the_observed_value(regular):
    preprocessor = regular.preprocessor
    _, windows = preprocessor.past(preprocessor.read(daily_cycle()))
    y = windows.batch(torch.arange(len(windows)))["y"]
    p = preprocessor.prediction_in_unit(windows, Prediction.gaussian(y.nan_to_num(), torch.ones_like(y)))
    known = ~y.isnan()
    torch.testing.assert_close(p.mean[known], preprocessor.observed(windows)[known])


def test_times_must_be_of_the_kind_that_was_fitted(regular):
    frame = daily_cycle().assign(t=np.arange(260.0))
    with pytest.raises(ValueError, match="must hold dates without a zone, as in `fit`. Got numbers instead"):
        regular.preprocessor.read(frame)


def test_a_window_without_a_known_target_is_refused(regular):
    frame = daily_cycle()
    frame.loc[frame.index[-12:], "y"] = np.nan
    with pytest.raises(ValueError, match="Column 'y' must have a value in the last 12 steps"):
        regular.preprocessor.latest(regular.preprocessor.read(frame))


def test_plain_values_make_the_same_preprocessor(regular):
    copy = SeriesPreprocessor.from_dict(*regular.preprocessor.to_dict(), SHAPE, regular.problem)
    assert str(copy) == str(regular.preprocessor)


def test_columns_that_do_not_fit_the_problem_are_refused(regular):
    facts, arrays = regular.preprocessor.to_dict()
    facts["columns"] = ["t", None, "y", []]
    with pytest.raises(ValueError, match="`columns` do not fit the problem"):
        SeriesPreprocessor.from_dict(facts, arrays, SHAPE, regular.problem)


def test_arrays_of_another_shape_are_refused(regular):
    facts, arrays = regular.preprocessor.to_dict()
    with pytest.raises(ValueError, match=r"Tensor 'change' must have shape \(17,\). Got \(5,\)"):
        SeriesPreprocessor.from_dict(facts, arrays | {"change": np.ones(5)}, SHAPE, regular.problem)


def test_a_given_step_is_used():
    frame = daily_cycle(520).iloc[::2]
    columns = find_columns(frame, "t", None, "y", None)
    assert prepare(frame, columns, "1h", SHAPE).preprocessor.axis.step == pd.Timedelta("1h").value


SHORT = WindowShape(lookback=4, horizon=2)


def scaled(y, a=1.0, rows=60):
    observations = read_observations(hourly(len(y), y=y, a=a), SeriesColumns("t", None, "y", ("a",)))
    grid = to_grid(observations, HOUR, 100)
    return fit_scaling(grid, grid.values, np.arange(len(y)) < rows, SHORT)


def test_offset_and_scale_are_mean_and_standard_deviation_of_the_training_split():
    y = np.random.default_rng(0).normal(size=80)
    offset, scale, *_ = scaled(y)
    np.testing.assert_allclose([offset[0], scale[0]], [y[:60].mean(), y[:60].std()])


def test_a_constant_has_scale_one():
    assert scaled(np.arange(80.0))[1][1] == 1


def test_an_input_that_begins_after_the_training_split_has_scale_one():
    a = np.where(np.arange(80) < 60, np.nan, 5.0)
    assert scaled(np.arange(80.0), a)[1][1] == 1


def test_roughness_is_the_typical_step_of_the_target():
    y = 3 * np.arange(80.0)
    assert scaled(y)[2] == pytest.approx(3 / y[:60].std())


def test_an_amplitude_is_the_typical_difference_to_the_last_value():
    y = 3 * np.arange(80.0)
    assert scaled(y)[3][0] == pytest.approx(3 * np.sqrt(14 / 4) / y[:60].std())


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
