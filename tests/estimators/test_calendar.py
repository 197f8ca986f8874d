import numpy as np
import pandas as pd
import pytest

from nsac.estimators.calendar import calendar_features, detect_cycles


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
