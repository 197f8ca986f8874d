import numpy as np
import pandas as pd
import pytest

from nsac.estimators.times import describe_times, format_step, parse_step, read_times, restore_times, typical_step
from support.series import HOUR, hourly


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
    assert parse_step("15min", dated=True) == HOUR / 4


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
        parse_step(step, dated)


@pytest.mark.parametrize(("step", "text"), [(HOUR, "0 days 01:00:00"), (0.25, "0.25")])
def test_a_step_is_readable_in_messages(step, text):
    assert format_step(step) == text
