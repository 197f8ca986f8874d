import tracemalloc

import numpy as np
import pytest
import torch

from nsac.lab.datasets import load_ettm1
from nsac.training import WindowData, typical_change, window_ends

SEGMENT = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2])


def test_no_window_crosses_a_change_of_segment():
    assert window_ends(SEGMENT, 2, 1).tolist() == [1, 2, 5, 6, 7, 10, 11]


def test_no_window_contains_an_excluded_row():
    whole = np.ones(13, dtype=bool)
    whole[6] = False
    assert window_ends(SEGMENT, 2, 1, whole).tolist() == [1, 2, 10, 11]


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
    shift, scale = windows.level(rows)
    torch.testing.assert_close(shift + scale * windows.batch(rows)["y"], values[None, end + 1 : end + 5, 2])


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
    assert len(windows) == 69609 and windows._past.untyped_storage().data_ptr() == values.untyped_storage().data_ptr()
    assert peak < 20e6 and _resident_bytes() - before < 100e6  # copies would be 187 MB


def _resident_bytes() -> int:
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096
