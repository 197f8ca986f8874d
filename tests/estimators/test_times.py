import numpy as np
import pandas as pd
import pytest

from nsac.estimators.dates import read_dates
from nsac.estimators.times import TimeReading, describe_times, parse_times, read_times, resolve_reading, restore_times
from support.series import HOUR, daily_cycle, hourly, ridge


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
        (["2024-01-01", "1500-02-03"], "dates from 1678 to 2261. Row 1 has '1500-02-03'"),
    ],
)
def test_a_column_without_times_is_refused(column, message):
    with pytest.raises(ValueError, match=message):
        read_times(pd.Series(column), "t")


def test_texts_are_read_as_dates():
    times, dtype = read_times(pd.Series(["1970-01-01 01:00", "1970-01-02 00:00"]), "t")
    assert times.tolist() == [HOUR, 24 * HOUR] and describe_times(dtype) == "dates without a zone"


def parsed(values, **reading):
    return parse_times(pd.Series(values), "t", TimeReading(**reading))


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (["31/12/1990", "01/01/1991"], "1990-12-31"),
        (["01/02/1990", "28/02/1990"], "1990-02-01"),
        (["01/02/1990", "01/28/1990"], "1990-01-02"),
        (["31.12.1990", "01.01.1991"], "1990-12-31"),
        (["01.02.1990 10:00:00", "13.02.1990 10:00:00"], "1990-02-01 10:00"),
        (["01.02.1990 10:00", "13.02.1990"], "1990-02-01 10:00"),
        (["13-02-90", "14-02-90"], "1990-02-13"),
        (["2020-02-01", "2020-02-01 10:00"], "2020-02-01"),
    ],
)
def test_dates_that_can_be_read_in_one_way_are_read_so(texts, first):
    assert parsed(texts)[0] == pd.Timestamp(first)


def test_an_ambiguous_date_is_an_error_that_shows_both_readings_and_both_flags():
    with pytest.raises(ValueError, match="'01/02/1990' in row 1 is 1 February 1990 or 2 January 1990") as err:
        parsed(["01/01/1990", "01/02/1990"])
    assert "`--dayfirst` or `--no-dayfirst`" in str(err.value)


def test_dates_in_both_orders_are_refused():
    with pytest.raises(ValueError, match="Row 1 has '31/12/1990', with the day first, and row 0 '12/30/1990'"):
        parsed(["12/30/1990", "31/12/1990"])


@pytest.mark.parametrize(("dayfirst", "month"), [(True, 2), (False, 1)])
def test_dayfirst_decides(dayfirst, month):
    assert parsed(["01/02/1990", "05/02/1990"], dayfirst=dayfirst)[0].month == month


@pytest.mark.parametrize(
    ("text", "dayfirst", "fix"),
    [
        ("12/31/1990", True, r"`dayfirst=False` \(`--no-dayfirst`\)"),
        ("31/12/1990", False, r"`dayfirst=True` \(`--dayfirst`\)"),
    ],
)
def test_a_date_that_contradicts_dayfirst_is_refused(text, dayfirst, fix):
    with pytest.raises(ValueError, match=f"Row 0 has '{text}', which is no such date. .*{fix}"):
        parsed([text], dayfirst=dayfirst)


@pytest.mark.parametrize("texts", [["05-02-2024", "2024-01-02"], ["13.02.2024", "on 14.02.2024"]])
def test_a_date_of_another_layout_is_refused_not_misread(texts):
    with pytest.raises(ValueError, match=f"must hold dates of one format. Row 1 has '{texts[1]}', unlike '{texts[0]}'"):
        parsed(texts, dayfirst=True)


def test_the_first_time_may_be_missing():
    assert parsed([None, "05/05/2024"]).isna().tolist() == [True, False]


def test_a_day_0_is_no_date():
    with pytest.raises(ValueError, match="must hold dates.*Row 0 has '00/05/2024'"):
        parsed(["00/05/2024"])


@pytest.mark.parametrize("year", ["0068", "68", "69"])
@pytest.mark.parametrize("values", [["01/02/{}"], ["13/02/{}"], ["02/13/{}"], ["13/02/{}", "02/13/{}"], ["05/05/{}"]])
def test_tables_and_series_agree_on_the_order_of_day_and_month(values, year):
    texts = pd.Series([value.format(year) for value in values])

    def outcome(find):
        try:
            return find()
        except ValueError as err:
            return str(err).split("'t' ")[1].split(". Pass")[0]

    series = outcome(lambda: resolve_reading(texts, "t", TimeReading()).dayfirst)
    assert series == outcome(lambda: read_dates(texts, "t")[2])


def test_years_of_two_digits_are_those_of_tables():
    texts = pd.Series(["31/12/68 10:00", "31/12/69 10:00", " 31/12/75 10:00"])
    assert parse_times(texts, "t").dt.year.tolist() == [2068, 1969, 1975]
    assert parse_times(texts, "t").tolist() == pd.to_datetime(read_dates(texts, "t")[0]).tolist()


def test_dayfirst_does_not_change_iso_dates():
    assert parsed(["2020-01-02", "2020-01-03"], dayfirst=True)[0] == pd.Timestamp("2020-01-02")


def test_a_format_is_obeyed():
    assert parsed(["90|02|01"], format="%y|%d|%m")[0] == pd.Timestamp("1990-01-02")


@pytest.mark.parametrize(
    ("texts", "layout", "message"),
    [
        (["1990-01-01", "1990"], "%Y-%m-%d", "must have the format '%Y-%m-%d'. Row 1 has '1990'"),
        (["1990-01-01"], "%Q", "`time_format` must be a format such as '%d.%m.%Y'. Got '%Q'"),
    ],
)
def test_a_date_of_another_format_is_refused(texts, layout, message):
    with pytest.raises(ValueError, match=message):
        parsed(texts, format=layout)


@pytest.mark.parametrize(
    ("numbers", "first"),
    [
        ([20200630, 20200701], "2020-06-30"),
        ([202006, 202007], "2020-06-01"),
        ([2020063023, 2020070100], "2020-06-30 23:00"),
    ],
)
def test_whole_numbers_that_look_like_dates_are_dates_with_a_note(numbers, first):
    with pytest.warns(UserWarning, match="Time column 't' holds whole numbers such as .*, which are read as dates"):
        assert parsed(numbers)[0] == pd.Timestamp(first)


@pytest.mark.parametrize("numbers", [[20200630, 20200631], [1, 2], [1990, 1991], [1577836800, 1577840400], [202006.5]])
def test_other_numbers_are_numbers(numbers):
    assert parsed(numbers).tolist() == numbers


def test_whole_numbers_are_numbers_to_a_model_of_numbers():
    assert parsed([20200630, 20200701], numbers=True).tolist() == [20200630, 20200701]


def test_several_offsets_are_converted_to_utc_with_a_note():
    with pytest.warns(UserWarning, match="Time column 't' has several UTC offsets. Its times are converted to UTC"):
        times = parsed(["2020-03-29T01:00+01:00", "2020-03-29T03:00+02:00"])
    assert times.tolist() == [pd.Timestamp("2020-03-29 00:00", tz="UTC"), pd.Timestamp("2020-03-29 01:00", tz="UTC")]


@pytest.mark.parametrize(("offsets", "zone"), [(("+0100", "+0100"), "UTC+01:00"), (("+0100", "+0200"), "UTC")])
@pytest.mark.filterwarnings("ignore:.*several UTC offsets")
def test_a_format_may_have_offsets(offsets, zone):
    times = parsed([f"29.03.2020 0{i}:00 {offset}" for i, offset in enumerate(offsets)], format="%d.%m.%Y %H:%M %z")
    assert str(times.dt.tz) == zone


def test_no_times_are_no_dates():
    assert parsed(np.zeros(0)).tolist() == []


def test_periods_are_their_first_days():
    assert parsed(pd.period_range("2020-01", periods=2, freq="M"))[1] == pd.Timestamp("2020-02-01")


def test_an_offset_is_in_every_row_or_in_none():
    with pytest.raises(ValueError, match="Row 1 has '2020-03-29 03:00', without one"):
        parsed(["2020-03-29 01:00+01:00", "2020-03-29 03:00"])


def test_what_a_column_decides_is_remembered():
    reading = resolve_reading(pd.Series(["31/12/1990", "01/01/1991"]), "t", TimeReading())
    assert reading == TimeReading(dayfirst=True)
    assert parse_times(pd.Series(["01/02/1990"]), "t", reading)[0] == pd.Timestamp("1990-02-01")


def test_a_zone_without_a_name_is_refused_in_fit_alone_as_a_model_folder_could_not_hold_it():
    from dateutil import tz

    frame = daily_cycle().assign(t=lambda each: each["t"].dt.tz_localize("Europe/Berlin", nonexistent="shift_forward"))
    odd = frame.assign(t=frame["t"].dt.tz_convert(tz.tzoffset(None, 3600)))
    with pytest.raises(ValueError, match=r"must have a time zone with a name.*Got tzoffset.*tz_convert"):
        ridge().fit(odd)
    fitted = ridge().fit(frame)
    assert fitted.predict(odd)["mean"].tolist() == fitted.predict(frame)["mean"].tolist()
