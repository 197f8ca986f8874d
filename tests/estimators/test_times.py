import numpy as np
import pandas as pd
import pytest
import torch

from nsac.estimators.times import (
    calendar_features,
    describe_times,
    detect_cycles,
    format_step,
    interpolate_steps,
    lead_times,
    parse_step,
    read_times,
    restore_times,
    typical_step,
)
from support.series import HOUR, STEP, hourly


def step_of(frame):
    return typical_step(read_times(frame["t"], "t")[0], np.zeros(len(frame)))


def test_times_are_restored_with_their_zone():
    column = hourly(3)["t"].dt.tz_localize("Europe/Berlin")
    pd.testing.assert_series_equal(
        restore_times(*read_times(column, "t")), column, check_names=False, check_dtype=False
    )


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([True, False], "must hold dates or numbers. Got booleans"),
        ([0.0, np.inf], "must hold finite numbers. Row 1 has inf"),
        (["2024-01-01", "noon"], "Row 1 has 'noon'"),
        ([1.0, None], "must have a time in every row. Row 1 is empty"),
    ],
)
def test_a_column_without_times_is_refused(column, message):
    with pytest.raises(ValueError, match=message):
        read_times(pd.Series(column), "t")


def test_texts_are_read_as_dates():
    times, dtype = read_times(pd.Series(["1970-01-01 01:00", "1970-01-02 00:00"]), "t")
    assert times.tolist() == [HOUR, 24 * HOUR] and describe_times(dtype) == "dates without a zone"


def test_a_few_late_rows_do_not_change_the_step():
    frame = hourly(40)
    frame.loc[[7, 20], "t"] += pd.Timedelta("7min")
    assert step_of(frame) == HOUR


def test_missing_rows_do_not_change_the_step():
    assert step_of(hourly(20).drop(index=[3, 4, 9, 15])) == HOUR


def test_the_step_of_months_is_their_mean_length():
    months = pd.DataFrame({"t": pd.date_range("2021-01-01", periods=37, freq="MS")})
    assert step_of(months) == pytest.approx(365 * 24 * HOUR / 12, rel=1e-6)


def test_the_step_of_numbers_is_a_number():
    assert step_of(pd.DataFrame({"t": [0.0, 0.5, 1.0, 1.5]})) == 0.5


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
    return lead_times(at, np.array([LAST.value]), HOUR, 6, DATES)


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


def test_between_steps_values_are_interpolated():
    steps, start = torch.tensor([[10.0, 20.0]]), torch.tensor([0.0])
    assert interpolate_steps(steps, start, np.array([[0.5, 1.0, 1.5, 2.0]])).tolist() == [[5, 10, 15, 20]]
