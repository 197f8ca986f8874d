import numpy as np
import pandas as pd
import pytest

from nsac.estimators.observations import SeriesColumns, read_observations
from nsac.estimators.steps import typical_step
from nsac.estimators.windows import WindowShape, count_between, subsample, to_grid

SHAPE = WindowShape(lookback=4, horizon=2)
NAN = float("nan")


def gridded(y, a=0.0):
    frame = pd.DataFrame({"t": np.arange(len(y)) * 1.0, "y": y, "a": a})
    return to_grid(read_observations(frame, SeriesColumns("t", None, "y", ("a",))), 1.0, 100)


def test_a_usable_slot_has_a_known_target_before_and_after_it():
    y = [NAN, 1.0, NAN, NAN, NAN, NAN, NAN, 2.0, NAN]
    assert np.flatnonzero(SHAPE.usable(gridded(y))).tolist() == []
    y[6] = 3.0
    assert np.flatnonzero(SHAPE.usable(gridded(y))).tolist() == [4, 6]


def test_windows_of_a_complete_series_are_all_of_it():
    ends, missing = SHAPE.select(gridded(np.arange(30.0)))
    assert ends.tolist() == list(range(3, 28)) and not missing


def test_few_incomplete_windows_are_left_out():
    y = np.arange(400.0)
    y[100] = NAN
    ends, missing = SHAPE.select(gridded(y))
    assert len(ends) == 395 - 6 and not missing


def test_many_incomplete_windows_are_used():
    y = np.arange(60.0)
    y[::10] = NAN
    ends, missing = SHAPE.select(gridded(y))
    assert len(ends) > 50 and missing


def test_a_missing_covariate_makes_a_window_incomplete():
    a = np.zeros(60)
    a[::10] = NAN
    assert SHAPE.select(gridded(np.arange(60.0), a))[1]


def test_a_series_must_be_as_long_as_a_window():
    with pytest.raises(ValueError, match=r"Got 4 \+ 2 = 6 steps, and the longest stretch without a long gap has 5"):
        SHAPE.check_length(gridded(np.arange(5.0)), "1")


def test_the_latest_tenth_is_for_calibration():
    rest, calibration = SHAPE.calibration_split(np.arange(1000.0))
    assert calibration.tolist() == list(range(900, 1000)) and rest.max() == 898  # a gap of the horizon between them


@pytest.mark.parametrize(("windows", "size"), [(100, 20), (300, 40), (50_000, 2000)])
def test_the_calibration_split_is_neither_too_small_nor_too_large(windows, size):
    assert len(SHAPE.calibration_split(np.arange(windows * 1.0))[1]) == size


def test_twenty_windows_are_needed():
    with pytest.raises(ValueError, match=r"at least 20 windows of 4 \+ 2 steps. Got 19"):
        SHAPE.calibration_split(np.arange(19.0))


def test_members_are_validated_on_disjoint_blocks():
    splits = SHAPE.member_splits(np.arange(900), np.arange(1000.0), 5)
    blocks = np.concatenate([validation for _, validation in splits])
    assert len(splits) == 5 and len(np.unique(blocks)) == len(blocks) == 450


def test_no_training_window_overlaps_the_validation_block():
    for train, validation in SHAPE.member_splits(np.arange(900), np.arange(1000.0), 5):
        assert np.abs(train[:, None] - validation).min() >= SHAPE.horizon


def test_a_single_member_is_validated_on_the_latest_windows():
    ((train, validation),) = SHAPE.member_splits(np.arange(900), np.arange(1000.0), 1)
    assert validation.tolist() == list(range(750, 900)) and train.max() == 748


def test_a_subsample_is_evenly_spaced_between_the_ends():
    assert subsample(np.arange(10, 21), 3).tolist() == [10, 15, 20]


def test_few_rows_are_all_kept():
    assert subsample(np.arange(3), 3).tolist() == [0, 1, 2]


def put_on_grid(times, values, step, max_gap=100, **options):
    frame = pd.DataFrame({"t": times, "y": values})
    return to_grid(read_observations(frame, SeriesColumns("t", None, "y", ())), step, max_gap, **options)


def test_rows_that_share_a_slot_are_averaged():
    grid = put_on_grid([0.0, 1.1, 1.4, 4.0], [1.0, 2.0, 4.0, 5.0], 1.0)
    np.testing.assert_array_equal(grid.values[:, 0], [1, 3, np.nan, np.nan, 5])


def test_offsets_from_slots_are_in_steps():
    grid = put_on_grid([0.0, 1.1, 1.4, 4.0], [1.0, 2.0, 4.0, 5.0], 1.0)
    np.testing.assert_allclose(grid.offset, [0, 0.25, np.nan, np.nan, 0])


def test_rows_off_their_slots_make_a_series_irregular():
    assert put_on_grid([0.0, 1.1, 1.4, 4.0], [1.0] * 4, 1.0).irregular


def test_missing_rows_do_not_make_a_series_irregular():
    assert not put_on_grid([0.0, 1, 2, 4], [1.0] * 4, 1.0).irregular


def test_slots_may_be_counted_from_the_last_row():
    grid = put_on_grid([0.0, 1.1, 2.0, 3.3], [1.0, 2.0, 3.0, 4.0], 1.0, to_last=True)
    np.testing.assert_allclose(grid.times, [0.3, 1.3, 2.3, 3.3])
    np.testing.assert_allclose(grid.offset, [-0.3, -0.2, -0.3, 0])


def test_every_month_has_its_own_slot():
    months = pd.date_range("2020-01-01", periods=48, freq="MS")
    step = typical_step(months.to_numpy().astype("datetime64[ns]").astype(np.int64), np.zeros(48))
    assert put_on_grid(months, np.arange(48.0), step).values[:, 0].tolist() == list(range(48))


def test_a_long_gap_begins_a_new_stretch():
    minutes = [*range(50), *range(5_000_000, 5_000_050)]
    grid = put_on_grid(pd.Timestamp("2020") + pd.to_timedelta(minutes, "min"), np.arange(100.0), 60 * 10**9)
    assert len(grid.times) == 100 and grid.start[60] == 50 and grid.stop[0] == 50


def test_the_number_of_slots_is_proportional_to_the_rows():
    sparse = np.cumsum(np.where(np.arange(1000) % 2, 1, 90)).astype(float)  # every other gap is long, and allowed
    assert len(put_on_grid(sparse, sparse, 1.0, max_gap=100).times) <= 5 * 1000


def test_flags_are_counted_from_the_first_to_before_the_last():
    flags = np.array([True, False, True, True])
    assert count_between(flags, np.array([0, 1, 2]), np.array([1, 4, 2])).tolist() == [1, 2, 0]
