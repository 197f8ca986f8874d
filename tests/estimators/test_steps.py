import numpy as np
import pandas as pd
import pytest
import torch

from nsac.estimators.steps import (
    Calendar,
    TimeAxis,
    calendar_features,
    detect_calendar,
    detect_cycles,
    format_step,
    interpolate_steps,
    lead_times,
    parse_step,
    typical_step,
)
from nsac.estimators.times import read_times
from support.series import HOUR, STEP, hourly


def step_of(frame):
    return typical_step(read_times(frame["t"], "t")[0], np.zeros(len(frame)))


def test_a_few_late_rows_do_not_change_the_step():
    frame = hourly(40)
    frame.loc[[7, 20], "t"] += pd.Timedelta("7min")
    assert step_of(frame) == HOUR


def test_missing_rows_do_not_change_the_step():
    assert step_of(hourly(20).drop(index=[3, 4, 9, 15])) == HOUR


def test_the_step_is_right_if_most_rows_are_missing():
    kept = np.random.default_rng(0).random(400) < 0.25
    assert step_of(hourly(400)[kept]) == HOUR


def test_a_few_odd_days_do_not_make_a_weekly_series_daily():
    days = 7 * np.arange(200) + (np.arange(200) % 25 == 3)
    assert step_of(pd.DataFrame({"t": pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D")})) == 168 * HOUR


def test_the_step_of_months_is_their_mean_length():
    months = pd.DataFrame({"t": pd.date_range("2021-01-01", periods=37, freq="MS")})
    assert step_of(months) == pytest.approx(365 * 24 * HOUR / 12, rel=1e-6)


def test_the_step_of_numbers_is_a_number():
    assert step_of(pd.DataFrame({"t": [0.0, 0.5, 1.0, 1.5]})) == 0.5


def test_the_step_is_the_median_gap_if_no_gap_is_near_it():
    assert step_of(pd.DataFrame({"t": [0.0, 0.91, 2.81, 3.11, 3.21]})) == pytest.approx(0.605)


def test_one_row_has_no_step():
    with pytest.raises(ValueError, match="`step` must be given if no series has two rows"):
        step_of(hourly(1))


def test_a_step_of_dates_is_read_as_nanoseconds():
    assert parse_step("15min", np.array([0, HOUR]), np.zeros(2)) == HOUR / 4


@pytest.mark.parametrize(
    ("step", "dated", "message"),
    [
        ("soon", True, "must be a text such as '15min'"),
        (900.0, True, "must be a text such as '15min'"),
        ("-1h", True, "must be a text such as '15min'"),
        ("15", True, "must be a text such as '15min'"),
        ("3MS", True, "must be a text such as '15min'"),
        ("15min", False, "must be a finite number above 0"),
        (0, False, "must be a finite number above 0"),
        (True, False, "must be a finite number above 0"),
    ],
)
def test_a_step_that_does_not_fit_the_times_is_refused(step, dated, message):
    with pytest.raises(ValueError, match=message):
        parse_step(step, np.array([0, 1], dtype=np.int64 if dated else np.float64), np.zeros(2))


@pytest.mark.parametrize(("step", "text"), [(HOUR, "0 days 01:00:00"), (0.25, "0.25")])
def test_a_step_is_readable_in_messages(step, text):
    assert format_step(step) == text


@pytest.mark.parametrize(
    ("periods", "freq", "cycles"),
    [
        (72, "h", ["day"]),  # three days, no two weeks
        (15 * 24, "h", ["day", "week"]),
        (800, "D", ["week", "year"]),  # one step a day shows no time of day
    ],
)
def test_a_cycle_is_used_if_the_series_spans_it_twice_in_four_steps_or_more(periods, freq, cycles):
    dates = pd.date_range("2020-01-01", periods=periods, freq=freq).to_numpy().astype("datetime64[ns]")
    times = dates.astype(np.int64)
    assert detect_cycles(times, int(times[1] - times[0])) == cycles


def test_numbers_have_no_cycles():
    assert detect_cycles(np.arange(1e6), 1.0) == []


def test_the_time_of_day_is_the_local_one():
    zone = pd.DatetimeTZDtype("ns", "Asia/Tokyo")
    noon = pd.Timestamp("2024-05-01 12:00", tz="Asia/Tokyo").value
    np.testing.assert_allclose(calendar_features(np.array([noon]), zone, ["day"]), [[0, -1]], atol=1e-12)


def test_without_cycles_there_are_no_features():
    assert calendar_features(np.arange(3), np.dtype("datetime64[ns]"), []).shape == (3, 0)


DATES = np.dtype("datetime64[ns]")
LAST = pd.Timestamp("2024-01-02")


def leads(at):
    return lead_times(at, np.array([LAST.value]), TimeAxis(DATES, HOUR), 6)


def test_lead_times_are_in_steps():
    times, lead = leads([LAST + 2 * STEP, LAST + 2.5 * STEP])
    assert lead.tolist() == [[2, 2.5]] and times[0, 0] == (LAST + 2 * STEP).value


def test_a_single_time_is_enough():
    assert leads(LAST + STEP)[1].tolist() == [[1]]


@pytest.mark.parametrize("steps", [0, -1, 6.5])
def test_a_time_outside_the_horizon_is_refused(steps):
    with pytest.raises(
        ValueError, match="`at` must be after 2024-01-02 00:00:00, .* no later than 2024-01-02 06:00:00"
    ):
        leads(LAST + steps * STEP)


def test_times_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="`at` must be dates without a zone, as the time column. Got numbers"):
        leads(3.0)


@pytest.mark.parametrize("at", ["1h", STEP, "1500-01-01", "soon"])
def test_what_is_no_time_is_refused(at):
    with pytest.raises(ValueError, match="`at` must be times, dates without a zone as in the time column"):
        leads(at)


@pytest.mark.parametrize("at", [[], (), pd.DatetimeIndex([])])
def test_no_time_at_all_is_refused(at):
    with pytest.raises(ValueError, match="`at` must have at least one time"):
        leads(at)


def test_between_steps_values_are_interpolated():
    steps, start = torch.tensor([[10.0, 20.0]]), torch.tensor([0.0])
    lead, age = np.array([[0.5, 1.0, 1.5, 2.0]]), torch.tensor([0])
    assert interpolate_steps(steps, start, lead, age).tolist() == [[5, 10, 15, 20]]


def test_before_the_first_step_values_are_interpolated_from_the_last_known_one():
    steps, start = torch.tensor([[10.0, 20.0]]), torch.tensor([0.0])
    lead, age = np.array([[0.5, 1.0, 1.5]]), torch.tensor([4])
    assert interpolate_steps(steps, start, lead, age).tolist() == [[9, 10, 15]]


def dates(start, periods, freq, zone=None):
    return pd.Series(pd.date_range(start, periods=periods, freq=freq, tz=zone))


def axis_of(column, step=None):
    times, dtype = read_times(column, "t")
    return TimeAxis.find(step, times, np.zeros(len(times)), dtype), times


@pytest.mark.parametrize(
    ("freq", "step", "unit"),
    [
        ("MS", 1, "month"),
        ("ME", 1, "month"),
        ("QS", 3, "month"),
        ("QE", 3, "month"),
        ("YS", 12, "month"),
        ("YE", 12, "month"),
        ("B", 1, "business day"),
        ("BMS", 1, "business month"),
        ("BME", 1, "business month"),
    ],
)
def test_calendar_steps_are_recognised_and_continue_as_the_series(freq, step, unit):
    column = dates("2019-01-15 18:00", 48, freq)
    axis, times = axis_of(column.head(40))
    assert axis.calendar.unit == unit and axis.step == step
    ahead = axis.times(axis.positions(times)[-1] + step * np.arange(1, 9))
    assert ahead.astype("datetime64[ns]").tolist() == column.tail(8).astype("datetime64[ns]").to_numpy().tolist()


@pytest.mark.parametrize("freq", ["D", "W", "h", "10D"])
def test_steps_of_a_fixed_length_need_no_calendar(freq):
    axis, times = axis_of(dates("2019-01-01", 60, freq))
    assert axis.calendar is None and axis.step == times[1] - times[0]


def test_missing_months_do_not_change_the_step():
    axis, times = axis_of(dates("2019-01-01", 40, "MS").drop(index=[3, 4, 9, 20]))
    assert axis.step == 1 and np.diff(axis.positions(times)).tolist()[2:4] == [3, 1]


@pytest.mark.parametrize("shift", [-3, 1])
def test_a_month_that_is_reported_on_another_day_does_not_change_the_calendar(shift):
    column = dates("2019-01-01", 48, "MS") + pd.Timedelta("14D")
    column[7] += pd.Timedelta(shift, "D")
    axis, times = axis_of(column.head(40))
    ahead = axis.times(np.rint(axis.positions(times)[-1]) + np.arange(1, 9))
    assert ahead.astype("datetime64[ns]").tolist() == column.tail(8).astype("datetime64[ns]").to_numpy().tolist()


def test_a_day_that_a_month_lacks_is_its_last_one():
    calendar = Calendar("month", 30, 0)
    local = calendar.local_times(np.array([13.0, 14.0]))
    assert local.astype("datetime64[ns]").astype("datetime64[D]").astype(str).tolist() == ["1971-02-28", "1971-03-30"]


def test_local_days_keep_their_time_when_clocks_change():
    column = dates("2024-03-20", 20, "D", "Europe/Berlin")
    axis, times = axis_of(column.head(8))
    ahead = axis.times(axis.positions(times)[-1] + np.arange(1, 13))  # the clocks change on 31 March
    assert ahead.tolist() == read_times(column.tail(12), "t")[0].tolist()


@pytest.mark.parametrize(("unit", "day"), [("month", 1), ("month", 31), ("business month", 31), ("business day", 1)])
def test_positions_and_times_are_inverse(unit, day, seed):
    local = np.random.default_rng(seed).integers(-(10**18), 2 * 10**18, 200)
    calendar = Calendar(unit, day, 5 * HOUR)
    assert np.abs(calendar.local_times(calendar.positions(local)) - local).max() < 1e6  # of 1e18: rounding


def test_a_given_step_has_a_fixed_length():
    axis, _ = axis_of(dates("2019-01-01", 40, "MS"), "30D")
    assert axis.calendar is None and axis.step == 30 * 24 * HOUR


@pytest.mark.parametrize(
    ("freq", "seasons"),
    [("MS", {"year": 12}), ("QS", {"year": 4}), ("B", {"week": 5, "year": 261}), ("h", {"day": 24})],
)
def test_a_season_is_counted_in_steps(freq, seasons):
    axis, _ = axis_of(dates("2019-01-01", 60, freq))
    assert {cycle: axis.season(cycle) for cycle in seasons} == seasons


def test_weekdays_of_a_few_rows_are_chance():
    assert detect_calendar(*_plain(dates("2024-01-01", 5, "D"))) is None


def _plain(column):
    times, dtype = read_times(column, "t")
    return times, np.zeros(len(times)), dtype


def test_a_calendar_step_is_readable_in_messages():
    axis = axis_of(dates("2019-01-01", 12, "QS"))[0]
    assert axis.describe() == "3 months" and axis.describe(1 / 31) == "1 days"


def test_steps_of_a_calendar_may_take_longer_than_on_average():
    axes = {unit: TimeAxis(np.dtype("datetime64[ns]"), 1.0, Calendar(unit, 1, 0)) for unit in ("business day", "month")}
    day = 86_400 * 10**9
    assert [axes["business day"].longest(n) // day for n in (1, 2, 5)] == [3, 4, 7]
    assert [axes["month"].longest(n) // day for n in (1, 12)] == [31, 366]
    assert TimeAxis(np.dtype(np.float64), 0.5).longest(3) == 1.5
