import numpy as np
import pandas as pd

from nsac.estimators.grid import count_between, to_grid
from nsac.estimators.observations import SeriesColumns, read_observations
from nsac.estimators.times import typical_step


def gridded(times, values, step, max_gap=100, **options):
    frame = pd.DataFrame({"t": times, "y": values})
    return to_grid(read_observations(frame, SeriesColumns("t", None, "y", ())), step, max_gap, **options)


def test_rows_that_share_a_slot_are_averaged():
    grid = gridded([0.0, 1.1, 1.4, 4.0], [1.0, 2.0, 4.0, 5.0], 1.0)
    np.testing.assert_array_equal(grid.values[:, 0], [1, 3, np.nan, np.nan, 5])


def test_offsets_from_slots_are_in_steps():
    grid = gridded([0.0, 1.1, 1.4, 4.0], [1.0, 2.0, 4.0, 5.0], 1.0)
    np.testing.assert_allclose(grid.offset, [0, 0.25, np.nan, np.nan, 0])


def test_rows_off_their_slots_make_a_series_irregular():
    assert gridded([0.0, 1.1, 1.4, 4.0], [1.0] * 4, 1.0).irregular


def test_missing_rows_do_not_make_a_series_irregular():
    assert not gridded([0.0, 1, 2, 4], [1.0] * 4, 1.0).irregular


def test_slots_may_be_counted_from_the_last_row():
    grid = gridded([0.0, 1.1, 2.0, 3.3], [1.0, 2.0, 3.0, 4.0], 1.0, to_last=True)
    np.testing.assert_allclose(grid.times, [0.3, 1.3, 2.3, 3.3])
    np.testing.assert_allclose(grid.offset, [-0.3, -0.2, -0.3, 0])


def test_every_month_has_its_own_slot():
    months = pd.date_range("2020-01-01", periods=48, freq="MS")
    step = typical_step(months.to_numpy().astype("datetime64[ns]").astype(np.int64), np.zeros(48))
    assert gridded(months, np.arange(48.0), step).values[:, 0].tolist() == list(range(48))


def test_a_long_gap_begins_a_new_stretch():
    minutes = [*range(50), *range(5_000_000, 5_000_050)]
    grid = gridded(pd.Timestamp("2020") + pd.to_timedelta(minutes, "min"), np.arange(100.0), 60 * 10**9)
    assert len(grid.times) == 100 and grid.start[60] == 50 and grid.stop[0] == 50


def test_the_number_of_slots_is_proportional_to_the_rows():
    sparse = np.cumsum(np.where(np.arange(1000) % 2, 1, 90)).astype(float)  # every other gap is long, and allowed
    assert len(gridded(sparse, sparse, 1.0, max_gap=100).times) <= 5 * 1000


def test_flags_are_counted_from_the_first_to_before_the_last():
    flags = np.array([True, False, True, True])
    assert count_between(flags, np.array([0, 1, 2]), np.array([1, 4, 2])).tolist() == [1, 2, 0]
