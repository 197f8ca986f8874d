import numpy as np
import pandas as pd
import pytest

from nsac import NSACForecaster
from nsac.estimators.encoding import choose_by_times, choose_encoding
from nsac.estimators.observations import find_columns
from support.events import sines
from support.series import daily_cycle, forecaster, irregular_series, ridge


def choose(frame):
    return choose_by_times(frame, find_columns(frame, "t", None, "y", None), None)


def drop(share, rows=1000):
    frame = daily_cycle(rows)
    return frame[np.random.default_rng(0).random(rows) >= share]


def random_times(rows=300):
    frame = daily_cycle(rows)
    return frame.assign(t=np.cumsum(np.random.default_rng(0).exponential(size=rows)))


@pytest.mark.parametrize("frame", [daily_cycle(), drop(0.3), drop(0.7)], ids=["all", "30 % missing", "70 % missing"])
def test_regular_series_are_put_on_a_grid(frame):
    assert choose(frame).encoding == "grid"


@pytest.mark.parametrize("frame", [drop(0.95), random_times(), irregular_series()], ids=["sparse", "random", "jitter"])
def test_sparse_and_irregular_series_are_events(frame):
    assert choose(frame).encoding == "events"


@pytest.mark.parametrize(("share", "encoding"), [(0.0, "grid"), (0.3, "events")])
def test_several_series_with_gaps_are_events(share, encoding):
    frame = pd.concat([drop(share, 300).assign(id=name) for name in "ab"], ignore_index=True)
    choice = choose_by_times(frame, find_columns(frame, "t", "id", "y", None), None)
    assert choice.encoding == encoding


@pytest.mark.parametrize(("levels", "encoding"), [((15, 20, 100), "grid"), ((15, 200, 2000), "events")])
def test_several_series_of_very_different_scales_are_events(levels, encoding):
    frames = [daily_cycle(300).assign(id=str(level), y=lambda f, level=level: level * f["y"]) for level in levels]
    frame = pd.concat(frames, ignore_index=True)
    choice = choose_by_times(frame, find_columns(frame, "t", "id", "y", None), None)
    assert choice.encoding == encoding and ("factor of 1.3e+02" in choice.reason) == (encoding == "events")


def test_one_odd_series_of_many_does_not_decide():
    frames = [daily_cycle(50, seed).assign(id=str(seed)) for seed in range(30)]
    frames[0]["y"] *= 1e4
    frame = pd.concat(frames, ignore_index=True)
    assert choose_by_times(frame, find_columns(frame, "t", "id", "y", None), None).encoding == "grid"


def test_an_error_code_does_not_decide():
    frames = [daily_cycle(300, seed).assign(id=str(seed)) for seed in range(3)]
    frames[0].loc[7, "y"] = 9999.0
    frame = pd.concat(frames, ignore_index=True)
    assert choose_by_times(frame, find_columns(frame, "t", "id", "y", None), None).encoding == "grid"


@pytest.mark.slow
def test_series_of_levels_15_200_and_2000_are_each_forecast_at_their_own_scale():
    frame = sines(regular=True, noise=0.03)
    model = NSACForecaster(12, 48, "y", "t", series="id", members=2, random_state=0).fit(frame[frame["t"] < 340])
    for _, each in frame.groupby("id"):
        y, errors = each["y"].to_numpy(), []
        for origin in range(340, 388, 4):
            errors.append(y[origin : origin + 12] - model.predict(each[:origin])["mean"])
        assert np.abs(errors).mean() < np.abs(np.diff(y[:340])).mean()


def test_months_are_regular():
    frame = daily_cycle(100).assign(t=pd.date_range("1990-01-01", periods=100, freq="MS"))
    assert choose(frame).encoding == "grid"


def test_missing_values_of_the_target_count():
    frame = daily_cycle(300)
    frame.loc[np.random.default_rng(0).random(300) < 0.9, "y"] = np.nan
    assert choose(frame).encoding == "events"


def test_the_reason_has_the_figures():
    assert choose(daily_cycle()).reason == (
        "Encoding 'grid' was chosen: 0 % of the steps of 0 days 01:00:00 have no value, and the gaps between "
        "values are whole steps."
    )


def test_the_argument_decides():
    choice = choose_encoding("events", ["y"], [], [], True)
    assert choice is not None and choice.encoding == "events" and "by the argument" in choice.reason


def test_a_method_for_windows_is_put_on_a_grid():
    assert ridge(encoding="auto").fit(drop(0.7)).encoding_ == "grid"


def test_a_method_for_windows_cannot_take_events():
    with pytest.raises(ValueError, match="`method` must be one of"):
        ridge(encoding="events").fit(daily_cycle())


def test_an_encoding_is_one_of_three():
    with pytest.raises(ValueError, match="`encoding` must be one of 'auto', 'events', 'grid'. Got 'rnn' instead"):
        forecaster(encoding="rnn").fit(daily_cycle())
