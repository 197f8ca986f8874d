"""From frames to grids with holes, and to windows of them."""

import numpy as np
import pandas as pd
import pytest
import torch

from nsac.estimators.records import Columns, find_columns, read_record, show_times, typical_step
from nsac.estimators.windows import Windows, calendar_of, cycles_in, to_grid
from nsac.models.windows import interpolate_missing

HOUR = 3600 * 10**9
PLAIN = Columns("t", None, "y", ())


def hourly(rows=10, **columns):
    return pd.DataFrame({"t": pd.date_range("2024-01-01", periods=rows, freq="h"), **columns})


def read(frame, columns=PLAIN):
    return read_record(frame, columns)


def gridded(times, values, step, longest=100, **kwargs):
    return to_grid(read(pd.DataFrame({"t": times, "y": values})), step, longest, **kwargs)


def test_every_other_column_of_numbers_is_a_covariate_and_text_is_none():
    frame = hourly(
        3, y=[1, 2, 3], a=[1.0, 2, 3], flag=[True, False, True], name=["u", "v", "w"], number=["1", "2", "3"]
    )
    assert find_columns(frame, "t", None, "y", None).covariates == ("a", "flag", "number")
    assert find_columns(frame, "t", "name", "y", ["a"]) == Columns("t", "name", "y", ("a",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="y"), "`target` must name a column of the frame. Got 'y'"),
        (lambda f: f.drop(columns="t"), "`time` must name a column of the frame. Got 't'"),
        (lambda f: f.head(0), "`frame` must have rows"),
        (lambda f: f.assign(t=f["t"].where(f.index != 4)), "Row 4 is empty"),
        (lambda f: f.assign(t=f["t"].iloc[[0, 1, 2, 2, 4, 5, 6, 7, 8, 9]].to_numpy()), "must differ. Row 3 has"),
        (lambda f: f.iloc[[0, 1, 3, 2]], "must be sorted. Row 3 has 2024-01-01 02:00:00 and row 2, before it"),
        (lambda f: f.assign(y=f["y"].astype(object).where(f.index != 3, "low")), "Column 'y' .* Row 3 has 'low'"),
        (lambda f: f.assign(a=f["a"].astype(object).where(f.index != 5, "n.a.")), "Column 'a' .* Row 5 has 'n.a.'"),
        (lambda f: f.assign(y=f["y"].where(f.index != 6, np.inf)), "Column 'y' must hold numbers of at most .* Row 6"),
        (lambda f: f.assign(t=["2024-01-01 00:00"] * 5 + ["noon"] + ["2024-01-02"] * 4), "Row 5 has 'noon'"),
        (lambda f: pd.concat([f, f[["a"]]], axis=1), "Column 'a' must be there once"),
    ],
)
def test_what_is_wrong_is_said_with_its_column_and_row(change, message):
    frame = change(hourly(10, y=np.arange(10.0), a=np.arange(10.0)))
    with pytest.raises(ValueError, match=message):
        read(frame, find_columns(frame, "t", None, "y", None))


def test_series_are_sorted_each_by_itself():
    frame = pd.DataFrame({"t": [1, 1, 2, 2, 3], "id": ["b", "a", "b", "a", "b"], "y": [10.0, 20, 11, 21, 12]})
    record = read(frame, Columns("t", "id", "y", ()))
    assert record.names == ["b", "a"] and record.codes.tolist() == [0, 0, 0, 1, 1]
    assert record.values[:, 0].tolist() == [10, 11, 12, 20, 21] and record.last.tolist() == [3, 2]
    with pytest.raises(ValueError, match="of series 'a' must differ. Row 3 has 1 and row 1"):
        read(frame.assign(t=[1, 1, 2, 1, 3]), Columns("t", "id", "y", ()))


def test_a_few_rows_that_are_late_do_not_bend_the_step():
    late = hourly(40, y=1.0)
    late.loc[[7, 20], "t"] += pd.Timedelta("7min")
    assert typical_step(read(late)) == HOUR


def test_the_typical_step_does_not_mind_holes_or_months():
    assert typical_step(read(hourly(20, y=1.0).drop(index=[3, 4, 9, 15]))) == HOUR
    months = pd.DataFrame({"t": pd.date_range("2020-01-01", periods=48, freq="MS"), "y": np.arange(48.0)})
    grid = to_grid(read(months), typical_step(read(months)), 100)
    assert grid.values[:, 0].tolist() == list(range(48))  # not one month in the slot of another
    assert typical_step(read(pd.DataFrame({"t": [0.0, 0.5, 1.0, 1.5], "y": 1.0}))) == 0.5


def test_rows_go_to_their_nearest_slot_and_share_it():
    grid = gridded([0.0, 1.1, 1.4, 4.0], [1.0, 2.0, 4.0, 5.0], 1.0)
    np.testing.assert_array_equal(grid.values[:, 0], [1, 3, np.nan, np.nan, 5])
    np.testing.assert_allclose(grid.offset, [0, 0.25, np.nan, np.nan, 0])
    assert grid.irregular and not gridded([0.0, 1, 2, 4], [1.0] * 4, 1.0).irregular


def test_slots_may_be_counted_from_the_last_row():
    grid = gridded([0.0, 1.1, 2.0, 3.3], [1.0, 2.0, 3.0, 4.0], 1.0, to_last=True)
    np.testing.assert_allclose(grid.times, [0.3, 1.3, 2.3, 3.3])
    np.testing.assert_allclose(grid.offset, [-0.3, -0.2, -0.3, 0])


def test_a_long_hole_makes_no_slots():
    minutes = [*range(50), *range(5_000_000, 5_000_050)]
    grid = gridded(pd.Timestamp("2020") + pd.to_timedelta(minutes, "min"), np.arange(100.0), 60 * 10**9)
    assert len(grid.times) == 100 and grid.start[60] == 50 and grid.stop[0] == 50
    sparse = np.cumsum(np.where(np.arange(1000) % 2, 1, 90)).astype(float)  # every other gap is long, and allowed
    assert len(gridded(sparse, sparse, 1.0, longest=100).times) <= 5 * 1000


def test_stamps_come_back_as_they_were():
    zoned = hourly(3, y=1.0).assign(t=lambda f: f["t"].dt.tz_localize("Europe/Berlin"))
    record = read(zoned)
    pd.testing.assert_series_equal(
        show_times(record.times, record.stamps), zoned["t"], check_names=False, check_dtype=False
    )


def test_only_cycles_that_the_record_shows_are_in_the_calendar():
    def cycles(periods, freq):
        times = pd.date_range("2020-01-01", periods=periods, freq=freq).to_numpy().astype("datetime64[ns]")
        return cycles_in(times.astype(np.int64), int(np.diff(times[:2]).astype(np.int64)[0]))

    assert cycles(72, "h") == ["day"]
    assert cycles(15 * 24, "h") == ["day", "week"]
    assert cycles(800, "D") == ["week", "year"]
    assert cycles_in(np.arange(1e6), 1.0) == []


def test_the_hour_is_that_of_the_clock_on_the_wall():
    zone = pd.DatetimeTZDtype("ns", "Asia/Tokyo")
    noon = pd.Timestamp("2024-05-01 12:00", tz="Asia/Tokyo").value
    np.testing.assert_allclose(calendar_of(np.array([noon]), zone, ["day"]), [[0, -1]], atol=1e-12)


def windows(values, ends, **kwargs):
    values = torch.as_tensor(values)[:, None]
    n = len(values)
    ends, calendar = torch.as_tensor(ends), torch.zeros(n, 0)
    start, stop = torch.zeros(n, dtype=torch.long), torch.full((n,), n)
    return Windows(values, start, stop, calendar, ends, 4, torch.tensor([1.0, 2.0]), **kwargs)


def test_the_target_is_the_change_from_the_last_known_value():
    nan = float("nan")
    batch = windows([0.0, 1, 2, nan, 5, nan, 8], [3, 5]).batch(torch.arange(2))
    torch.testing.assert_close(batch["x"][0, :, 0], torch.tensor([0.0, 1, 2, nan]), equal_nan=True)
    scale = (torch.tensor([0.0, 0.0]) + 0.3**2) ** 0.25  # flat since the last known value
    torch.testing.assert_close(batch["y"] * scale[:, None], torch.tensor([[3.0, nan], [3.0, nan]]), equal_nan=True)


def test_a_rough_window_has_a_larger_unit():
    rough = windows([0.0, 0, 0, 7, 7, 9], [3], rough=2.0).level(torch.tensor([0]))[1]
    torch.testing.assert_close(rough, torch.tensor([[1.0, 2.0]]) * (3.5**2 + 0.3**2) ** 0.25)


def test_windows_do_not_see_beyond_their_stretch():
    cut = windows([0.0, 1, 2, 3, 4, 5, 6], [3])
    cut.start[2:], cut.stop[:5] = 2, 5
    batch = cut.batch(torch.tensor([0]))
    assert batch["x"][0, :, 0].isnan().tolist() == [True, True, False, False]
    assert batch["y"].isnan().tolist() == [[False, True]]


def test_a_day_ago_is_repeated_where_it_is_known():
    batch = windows([0.0, 1, 2, 3, 4, 5, 6], [4], season=3).batch(torch.tensor([0]))
    scale = (1 + 0.3**2) ** 0.25
    torch.testing.assert_close(batch["seasonal"] * scale, torch.tensor([[(2 - 4.0) / 1, (3 - 4.0) / 2]]))


def test_holes_are_bridged_by_straight_lines():
    nan = float("nan")
    x = torch.tensor([[nan, 1.0, nan, nan, 4.0, nan], [nan] * 6]).unsqueeze(-1)
    torch.testing.assert_close(interpolate_missing(x)[..., 0], torch.tensor([[1.0, 1, 2, 3, 4, 4], [0.0] * 6]))


def test_a_million_rows_are_kept_once():
    values = torch.randn(1_000_000, 8, dtype=torch.float32)
    many = Windows(
        values, torch.zeros(1_000_000, dtype=torch.long), torch.full((1_000_000,), 1_000_000),
        torch.zeros(1_000_000, 0), torch.arange(48, 999_900), 48, torch.ones(24),
    )  # fmt: skip
    assert many.values.data_ptr() == values.data_ptr()
    assert many.batch(torch.arange(0, 900_000, 10_000))["x"].shape == (90, 48, 8)
