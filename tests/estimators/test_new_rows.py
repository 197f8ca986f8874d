import numpy as np
import pandas as pd
import pytest

from nsac import NSACForecaster
from nsac.estimators.new_rows import warn_far, warn_far_training
from nsac.estimators.observations import find_columns
from nsac.estimators.preprocessing import prepare
from nsac.estimators.windows import WindowShape
from support.series import daily_cycle, hourly

SHAPE = WindowShape(lookback=12, horizon=6)


def prepared(frame, step=None, series=None):
    return prepare(frame, find_columns(frame, "t", series, "y", None), step, SHAPE)


@pytest.fixture(scope="module")
def hourly_model():
    return prepared(daily_cycle())


@pytest.mark.parametrize(
    ("freq", "apart"), [("D", "1 days 00:00:00 apart. Resample"), ("10min", "0 days 00:10:00 apart. Resample")]
)
def test_rows_of_another_step_are_refused(hourly_model, freq, apart):
    frame = hourly(30, y=np.arange(30.0), a=0.0).assign(t=pd.date_range("2024-02-01", periods=30, freq=freq))
    with pytest.raises(ValueError, match=f"Rows must be 0 days 01:00:00 apart, as in `fit`. In column 't' .* {apart}"):
        hourly_model.preprocessor.read(frame)


def test_missing_rows_are_no_other_step(hourly_model):
    assert len(hourly_model.preprocessor.read(daily_cycle().iloc[[0, 3, 7, 9, 12, 13, 17]]).times) == 7


def test_rows_that_share_slots_in_training_may_share_them_later():
    frame = daily_cycle(1040)
    columns = find_columns(frame, "t", None, "y", None)
    assert len(prepare(frame, columns, "4h", SHAPE).preprocessor.read(frame).times) == 1040


def test_a_number_far_from_the_training_rows_is_refused(hourly_model):
    frame = daily_cycle()
    frame.loc[7, "a"] = 1e40
    with pytest.raises(ValueError, match="Column 'a' must hold numbers within 1e.30 standard deviations .* Got 1e.40"):
        hourly_model.preprocessor.read(frame)


def test_a_series_may_have_a_step_of_its_own():
    slow = daily_cycle(260).assign(s="slow", t=pd.date_range("2024-01-01", periods=260, freq="3h"))
    frame = pd.concat([daily_cycle(780).assign(s="fast"), slow])
    assert len(prepared(frame, series="s").preprocessor.read(slow).times) == 260


def test_months_are_no_days():
    frame = daily_cycle(150).assign(t=pd.date_range("2010-01-01", periods=150, freq="MS"))
    days = frame.assign(t=pd.date_range("2024-01-01", periods=150, freq="D"))
    with pytest.raises(
        ValueError, match="Rows must be 1 month apart, as in `fit`. In column 't' they are 1 days apart"
    ):
        prepared(frame).preprocessor.read(days)


@pytest.mark.parametrize("value", [9999.0, -999.0])
def test_an_error_code_among_training_values_is_named(value):
    values = np.random.default_rng(0).normal(20, 1, size=500)
    values[[3, 77]] = value
    values[10] = np.nan
    with pytest.warns(UserWarning, match=f"Column 'y' has 2 values far from the others, such as {value:g}; 1.* NaN"):
        warn_far_training("y", values)


@pytest.mark.filterwarnings("error")
def test_no_warning_of_heavy_tails_rare_events_or_a_column_without_values():
    random = np.random.default_rng(0)
    warn_far_training("t", random.standard_t(3, size=2000))
    warn_far_training("rain", np.where(random.random(2000) < 0.02, random.exponential(20, 2000), 0.0))
    warn_far_training("empty", np.full(10, np.nan))
    warn_far("y", np.array([np.nan, 29.0, -29.0]), 0.0, 1.0)


@pytest.mark.parametrize("encoding", ["grid", "events"])
def test_a_forecaster_warns_of_an_error_code_in_the_rows_it_forecasts_from(encoding):
    random, n = np.random.default_rng(0), 200
    date = pd.date_range("2024-01-01", periods=n, freq="h")
    frame = pd.DataFrame({"date": date, "y": random.normal(size=n), "z": random.normal(size=n)})
    model = NSACForecaster(4, 12, encoding=encoding, members=1, training={"max_steps": 2}, random_state=0)
    model.fit(frame[:180])
    frame.loc[195, "z"] = 9999.0
    with pytest.warns(UserWarning, match="Column 'z' has 1 value far from the others, such as 9999"):
        model.predict(frame)
