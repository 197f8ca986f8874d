import math
import tracemalloc

import numpy as np
import pytest
import torch

from nsac.lab.datasets import load_ettm1
from nsac.training import WindowData, typical_change, window_ends

NAN = float("nan")
SEGMENT = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2])


def test_no_window_crosses_a_change_of_segment():
    assert window_ends(SEGMENT, 2, 1).tolist() == [1, 2, 5, 6, 7, 10, 11]


def test_no_window_contains_an_excluded_row():
    complete = np.ones(13, dtype=bool)
    complete[6] = False
    assert window_ends(SEGMENT, 2, 1, complete).tolist() == [1, 2, 10, 11]


def test_windows_of_one_segment_cover_everything():
    assert window_ends(np.zeros(13), 2, 1).tolist() == list(range(1, 12))


@pytest.mark.parametrize("rows", [13, 2])
def test_segments_that_are_too_short_have_no_window(rows):
    assert window_ends(SEGMENT[:rows], 4, 2).tolist() == []


@pytest.fixture
def values(generator):
    return torch.randn(60, 3, generator=generator).cumsum(0)


def test_a_window_has_the_rows_before_its_end_and_the_changes_after_it(values):
    ends = window_ends(np.zeros(60), 10, 4)
    unit = typical_change(values, ends, 4, [2])
    windows = WindowData(values, ends, 8, 4, [2], unit, season=5)
    batch = windows.batch(torch.tensor([3]))
    end = int(ends[3])
    torch.testing.assert_close(batch["x"][0], values[end - 7 : end + 1])
    torch.testing.assert_close(batch["y"][0] * unit[:, 0] + values[end, 2], values[end + 1 : end + 5, 2])
    torch.testing.assert_close(batch["seasonal"][0] * unit[:, 0] + values[end, 2], values[end - 4 : end, 2])
    assert (batch["persistence"] == 0).all()


def test_the_offset_and_scale_of_a_window_restore_its_values(values):
    ends = window_ends(np.zeros(60), 10, 4)
    windows = WindowData(values, ends, 8, 4, [2], typical_change(values, ends, 4, [2]))
    rows, end = torch.tensor([3]), int(ends[3])
    offset, scale = windows.offset_and_scale(rows)
    torch.testing.assert_close(offset + scale * windows.batch(rows)["y"], values[None, end + 1 : end + 5, 2])


def test_the_season_before_a_long_horizon_is_always_an_observed_one():
    values = torch.arange(40.0)[:, None]
    windows = WindowData(values, torch.tensor([19]), 6, 10, [0], torch.ones(10, 1), season=4)
    before = windows.batch(torch.tensor([0]))["seasonal"][0] + values[19, 0]
    assert before.tolist() == [16, 17, 18, 19, 16, 17, 18, 19, 16, 17]


@pytest.mark.parametrize(
    ("ends", "season"),
    [
        ([6, 20], 0),  # a row short of the lookback
        ([7, 20], 9),  # a row short of the season
        ([20, 36], 0),  # a row beyond the last forecast
    ],
)
def test_a_window_that_would_wrap_around_the_series_is_refused(ends, season):
    values = torch.arange(40.0)[:, None]
    with pytest.raises(ValueError, match="`ends` must be from . to 35: .* Got .* instead. Take them from `window_ends"):
        WindowData(values, torch.tensor(ends), 8, 4, [0], torch.ones(4, 1), season=season)


@pytest.mark.parametrize("ends", [[7, 35], []])
def test_the_first_and_last_possible_windows_are_accepted(ends):
    values, ends = torch.arange(40.0)[:, None], torch.tensor(ends, dtype=torch.long)
    assert len(WindowData(values, ends, 8, 4, [0], torch.ones(4, 1), season=8)) == len(ends)


def test_the_windows_of_ettm1_are_views(data):
    values = torch.as_tensor(load_ettm1().drop(columns="date").to_numpy())
    tracemalloc.start()
    before = _resident_bytes()
    ends = window_ends(np.zeros(len(values)), 48, 24)
    windows = WindowData(values, ends, 48, 24, [6], torch.ones(24, 1))
    windows.batch(torch.arange(128))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(windows) == 69609 and windows._views.untyped_storage().data_ptr() == values.untyped_storage().data_ptr()
    assert peak < 20e6 and _resident_bytes() - before < 100e6  # copies would be 187 MB


def with_missing(values, ends, targets=(0,), **options):
    """Windows of 4 rows of one stretch, and a horizon of 2 whose typical changes are 1 and 2."""
    values = torch.as_tensor(values)
    values = values[:, None] if values.ndim == 1 else values
    n, change = len(values), torch.tensor([1.0, 2.0])[:, None].expand(2, len(targets))
    bounds = torch.zeros(n, dtype=torch.long), torch.full((n,), n)
    return WindowData(values, torch.as_tensor(ends), 4, 2, targets, change, **{"bounds": bounds, **options})


def test_the_target_is_the_change_from_the_last_known_value():
    batch = with_missing([0.0, 1, 2, NAN, 5, NAN, 8], [3, 5]).batch(torch.arange(2))
    torch.testing.assert_close(batch["y"], torch.tensor([[3.0, NAN], [3.0, NAN]]), equal_nan=True)


def test_missing_inputs_are_nan():
    x = with_missing([0.0, 1, 2, NAN, 5, NAN, 8], [3]).batch(torch.arange(1))["x"]
    torch.testing.assert_close(x[0, :, 0], torch.tensor([0.0, 1, 2, NAN]), equal_nan=True)


def test_missing_inputs_may_be_interpolated():
    x = with_missing([0.0, NAN, 2, 3, 5, 6], [3], interpolate=True).batch(torch.arange(1))["x"]
    assert x[0, :, 0].tolist() == [0, 1, 2, 3]


def test_a_rough_window_has_a_larger_unit():
    values = [0.0, 0, 0, 7, 7, 9]
    _, scale = with_missing(values, [3], roughness=2.0).offset_and_scale(torch.tensor([0]))
    torch.testing.assert_close(scale, torch.tensor([[1.0, 2.0]]) * (3.5**2 + 0.3**2) ** 0.25)


def test_a_window_at_rest_has_a_unit_above_zero():
    _, scale = with_missing([5.0] * 6, [3], roughness=2.0).offset_and_scale(torch.tensor([0]))
    torch.testing.assert_close(scale, torch.tensor([[1.0, 2.0]]) * 0.3**0.5)


FOUR_CHANGES = torch.tensor([1.0, 2, 3, 4])[:, None]
"""Typical changes at lead times 1 to 4, for a horizon of 2."""


def outage(values, steps, **options):
    """The window of the first four values without the last ones, and its horizon of 2."""
    hidden = torch.tensor([[steps]])
    bounds = torch.zeros(6, dtype=torch.long), torch.full((6,), 6)
    values = torch.tensor(values)[:, None]
    return WindowData(values, torch.tensor([3]), 4, 2, [0], FOUR_CHANGES, bounds=bounds, hidden=hidden, **options)


@pytest.mark.parametrize(("steps", "unit"), [(0, [1, 2]), (1, [2, 3]), (2, [3, 4]), (3, [3, 4])])
def test_the_unit_is_the_typical_change_since_the_last_known_value(steps, unit):
    assert outage([0.0, 1, 2, 3, 4, 5], steps).offset_and_scale(torch.tensor([0]))[1].tolist() == [unit]


def test_hidden_values_are_missing():
    batch = outage([0.0, 1, 2, 3, 4, 5], 2).batch(torch.tensor([0]))
    torch.testing.assert_close(batch["x"][0, :, 0], torch.tensor([0.0, 1, NAN, NAN]), equal_nan=True)
    torch.testing.assert_close(batch["y"], torch.tensor([[(4 - 1) / 3, (5 - 1) / 4]]))


def test_recent_roughness_is_that_before_an_outage():
    scales = [outage([0.0, 2, 7, 7, 7, 7], n, roughness=2.0).offset_and_scale(torch.tensor([0]))[1] for n in (0, 1, 2)]
    unit = [scale[0, 0].item() / change for scale, change in zip(scales, (1, 2, 3), strict=True)]
    assert unit == pytest.approx([(x**2 + 0.3**2) ** 0.25 for x in (0, 2.5, 1)])


def test_the_age_of_the_last_known_value_may_be_an_input():
    calendar = torch.arange(6.0)[:, None]
    found = outage([0.0, 1, 2, 3, 4, 5], 2, calendar=calendar, with_age=True).batch(torch.tensor([0]))["calendar"]
    torch.testing.assert_close(found, torch.tensor([[3.0, math.log(3)]]))


def test_the_seasonal_baseline_does_not_see_hidden_values():
    seasonal = outage([0.0, 1, 2, 3, 4, 5], 1, season=2).batch(torch.tensor([0]))["seasonal"]
    torch.testing.assert_close(seasonal, torch.tensor([[0.0, 0.0]]))  # the last known value, 2, twice


def test_windows_end_with_their_stretch():
    n = 7
    start, stop = torch.full((n,), 2), torch.full((n,), 5)
    batch = with_missing([0.0, 1, 2, 3, 4, 5, 6], [3], bounds=(start, stop)).batch(torch.tensor([0]))
    assert batch["x"][0, :, 0].isnan().tolist() == [True, True, False, False]
    assert batch["y"].isnan().tolist() == [[False, True]]


def test_the_seasonal_baseline_repeats_the_season_before():
    batch = with_missing([0.0, 1, 2, 3, 4, 5, 6], [4], season=3).batch(torch.tensor([0]))
    assert batch["seasonal"].tolist() == [[(2 - 4) / 1, (3 - 4) / 2]]


def test_an_unknown_season_is_replaced_by_the_last_value():
    batch = with_missing([0.0, 1, NAN, 3, 4, 5, 6], [4], season=3).batch(torch.tensor([0]))
    assert batch["seasonal"].tolist() == [[0, (3 - 4) / 2]]


def test_complete_windows_are_those_of_a_series_where_nothing_is_missing(values, generator):
    ends, change = torch.arange(9, 56), torch.rand(4, 2, generator=generator)
    bounds = torch.zeros(60, dtype=torch.long), torch.full((60,), 60)
    complete = WindowData(values, ends, 8, 4, [0, 2], change, season=5).batch(torch.arange(40))
    bounded = WindowData(values, ends, 8, 4, [0, 2], change, season=5, bounds=bounds).batch(torch.arange(40))
    assert complete.keys() == bounded.keys() and all(torch.equal(complete[name], bounded[name]) for name in complete)


def test_windows_may_end_elsewhere(values):
    windows = WindowData(values, torch.tensor([20]), 8, 4, [0], torch.ones(4, 1))
    assert torch.equal(windows.with_ends(torch.tensor([30])).batch(torch.tensor([0]))["x"][0], values[23:31])


def test_the_typical_change_is_the_root_mean_square():
    values = torch.tensor([0.0, 3.0, 7.0])[:, None]
    torch.testing.assert_close(typical_change(values, torch.tensor([0, 1]), 1, [0]), torch.tensor([[12.5**0.5]]))


def test_a_million_rows_are_stored_once():
    n = 1_000_000
    values = torch.zeros(n, 8, dtype=torch.float32)
    bounds = torch.zeros(n, dtype=torch.long), torch.full((n,), n)
    windows = WindowData(values, torch.arange(48, n - 100), 48, 24, [0], torch.ones(24, 1), bounds=bounds)
    assert windows.values.data_ptr() == values.data_ptr()


def _resident_bytes() -> int:
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096
