import datetime as dt

import numpy as np
import pandas as pd
import pytest

from nsac.estimators.dates import DateColumn, holds_dates, read_dates


def column(*values, dtype=None) -> pd.Series:
    return pd.Series(list(values), dtype=dtype)


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-31", "2024/3/31", "2024.03.31", "31.03.2024", "31/3/2024", "03/31/2024", "31-03-24", "31 Mar 2024",
        "31-March-2024", "March 31, 2024", "2024-03-31T00:00:00", "2024-03-31 12:00 AM", "2024-03-31 00:00:00.000",
    ],
)  # fmt: skip
def test_a_date_is_read_in_any_common_layout(text):
    assert read_dates(column(text), "when")[0].tolist() == [dt.datetime(2024, 3, 31)]


@pytest.mark.parametrize("text", ["2024-13-01", "red", "1", "2024", "1.5", "31.31.2024", "Mai 2024", "may", "1.2.3"])
def test_other_texts_are_no_dates(text):
    assert not holds_dates(column(text, text))


def test_the_rows_decide_the_order_of_day_and_month():
    dates, _, dayfirst = read_dates(column("01/02/2024", None, "31/12/2024"), "when")
    assert dayfirst is True and dates.tolist() == [dt.datetime(2024, 2, 1), None, dt.datetime(2024, 12, 31)]


def test_an_ambiguous_date_is_an_error_with_both_readings():
    with pytest.raises(ValueError, match="'when' is ambiguous: '01/02/2024' in row 1 is 1 February 2024 or 2 January"):
        read_dates(column("05/05/2024", "01/02/2024"), "when")
    assert read_dates(column("01/02/2024"), "when", dayfirst=False)[0][0] == np.datetime64("2024-01-02")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["2024-01-01", "2024-01-02", "soon"], "'when' must hold dates.*Got 'soon' in row 2"),
        (["13/01/2024", "01/13/2024"], "Row 0 has '13/01/2024', with the day first, and row 1 '01/13/2024'"),
        (["2024-01-01 10:00Z", "2024-01-01 10:00"], "time zone in every row, or in none"),
    ],
)
def test_dates_that_are_not_alike_are_an_error(values, message):
    with pytest.raises(ValueError, match=message):
        read_dates(column(*values), "when")


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(pd.to_datetime(["2024-01-01 22:30"])),
        pd.Series([dt.datetime(2024, 1, 1, 22, 30)], dtype=object),
        pd.Series([np.datetime64("2024-01-01T22:30")], dtype=object),
        pd.Series([pd.Timestamp("2024-01-01 22:30")], dtype=object),
        np.array(["2024-01-01T22:30"], dtype="datetime64[m]"),
        pd.Series(["1 Jan 2024 10:30 pm"]),
    ],
)
def test_dates_of_any_type_are_the_same(values):
    assert holds_dates(values) and read_dates(values, "when")[0].tolist() == [dt.datetime(2024, 1, 1, 22, 30)]


def test_dates_with_a_zone_are_read_in_utc():
    text = read_dates(column("2024-01-01T23:00:00+05:30", "2024-01-01 23:00 -0200"), "when")
    typed = read_dates(pd.Series(pd.to_datetime(["2024-01-01 23:00"])).dt.tz_localize("Asia/Kolkata"), "when")
    assert text[0].astype(str).tolist() == ["2024-01-01T17:30:00.000000", "2024-01-02T01:00:00.000000"]
    assert text[1] and typed[1] and typed[0][0] == text[0][0]


def test_features_of_a_date_are_its_calendar_and_the_days_since_the_first():
    training = column("2024-02-28", "2023-12-31")
    fitted = DateColumn.fit(training, "when", None)
    assert fitted.names == ("year", "month", "day", "weekday", "days") and fitted.first == "2023-12-31"
    np.testing.assert_array_equal(
        fitted.features(column("2024-03-01", None, "1969-12-31"), "when"),
        [[2024, 3, 1, 4, 61], [np.nan] * 5, [1969, 12, 31, 2, -19723]],
    )


def test_times_have_an_hour():
    fitted = DateColumn.fit(column("2024-02-28 06:30", "2024-02-29"), "when", None)
    assert fitted.names[-1] == "hour" and fitted.features(column("2024-02-28 18:45"), "when")[0, -1] == 18.75


def test_a_zone_that_training_did_not_have_is_an_error():
    fitted = DateColumn.fit(column("2024-02-28 06:30", "2024-02-29"), "when", None)
    with pytest.raises(ValueError, match="'when' must hold dates with no time zone, as in training"):
        fitted.features(column("2024-02-28 18:45Z"), "when")
