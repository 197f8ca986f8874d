"""Claims about forecasts of series whose latest values are missing."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import nsac
from nsac.estimators.files import ModelError, read_model, write_model
from nsac.estimators.outages import OUTAGE_SHARE, add_outages, ages, draw_outages, fit_outage_scale, stretch
from nsac.training import WindowData
from nsac.uncertainty import Prediction
from support.series import STEP, daily_cycle, forecaster, ridge

NAN = float("nan")


@pytest.fixture(scope="module")
def windows():
    """Of 8 rows, with a horizon of 2, of two inputs without missing values."""
    values = torch.arange(1200.0).reshape(600, 2)
    bounds = torch.zeros(600, dtype=torch.long), torch.full((600,), 600)
    return WindowData(values, torch.arange(7, 590), 8, 2, [0], torch.ones(9, 1), bounds=bounds)


@pytest.fixture
def random(seed):
    return np.random.default_rng(seed)


def after_outages(model, frame, length, first):
    """Coverage of 90 % intervals from every row since `first` if the last values of the target are missing."""
    covered = []
    for end in range(first, len(frame) - model.horizon, 3):
        past = frame[:end].copy()
        if length:
            past.loc[past.index[-length:], "y"] = np.nan
        lower, upper = model.predict_interval(past)[0]
        y = frame["y"].to_numpy()[end : end + model.horizon]
        covered.append((lower <= y) & (y <= upper))
    return np.mean(covered)


@pytest.fixture(scope="module")
def noisy_sine():
    return daily_cycle(1500).drop(columns="a")


@pytest.fixture(scope="module")
def ridge_of_sine(noisy_sine):
    return ridge(lookback=24, horizon=6).fit(noisy_sine[:1300])


@pytest.mark.filterwarnings("ignore:The last")
@pytest.mark.parametrize("length", [0, 1, 3, 6, 10])
def test_intervals_cover_after_an_outage(noisy_sine, length, ridge_of_sine):
    assert after_outages(ridge_of_sine, noisy_sine, length, 1320) > 0.85


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The last")
@pytest.mark.parametrize("length", [3, 10])
def test_intervals_of_a_network_cover_after_an_outage(noisy_sine, length):
    model = forecaster(lookback=24, training={"max_steps": 400}).fit(noisy_sine[:1300])
    assert after_outages(model, noisy_sine, length, 1320) > 0.85


def test_some_training_windows_come_a_second_time_with_an_outage(windows, random):
    both, [(train, validation)] = add_outages(windows, [(np.arange(100, 500), np.arange(100))], random)
    copies = train[400:]
    assert abs(len(copies) / 400 - OUTAGE_SHARE) < 0.1 and (copies >= len(windows)).all()
    assert set(both.ends[copies].tolist()) <= set(both.ends[train[:400]].tolist())
    assert (ages(both)[copies] > 0).all() and (ages(both)[train[:400]] == 0).all()
    assert validation.tolist() == list(range(100))


def test_outages_are_the_same_for_the_same_seed(windows):
    first, second = (add_outages(windows, [], np.random.default_rng(3))[0].hidden for _ in range(2))
    assert torch.equal(first, second)


def test_an_outage_is_of_the_target_alone_or_of_all_inputs(windows, random):
    _, hidden = draw_outages(windows, 2, 5, random)
    alone = hidden[:, 1] == 0
    assert 0.35 < alone.float().mean() < 0.65 and torch.equal(hidden[~alone, 0], hidden[~alone, 1])
    assert hidden[:, 0].min() == 2 and hidden[:, 0].max() == 5


def test_short_outages_are_as_frequent_as_long_ones_that_are_twice_as_many(windows, random):
    age = draw_outages(windows, 1, 7, random)[1][:, 0]
    counts = [((age >= low) & (age < 2 * low)).sum().item() for low in (1, 2, 4)]
    assert min(counts) > 0.25 * len(windows)


def test_windows_without_a_value_before_the_outage_are_left_out(random):
    values = torch.tensor([1.0, NAN, NAN, 4, 5, 6])[:, None]
    bounds = torch.zeros(6, dtype=torch.long), torch.full((6,), 6)
    windows = WindowData(values, torch.tensor([2, 3]), 3, 1, [0], torch.ones(3, 1), bounds=bounds)
    kept, hidden = draw_outages(windows, 1, 1, random)
    assert kept.tolist() == [0] and hidden.tolist() == [[1]]


def test_a_window_of_one_step_has_no_outage(random):
    bounds = torch.zeros(9, dtype=torch.long), torch.full((9,), 9)
    windows = WindowData(torch.arange(9.0)[:, None], torch.arange(8), 1, 1, [0], torch.ones(1, 1), bounds=bounds)
    splits = [(np.arange(8), np.arange(2))]
    assert add_outages(windows, splits, random) == (windows, splits)


def test_the_scale_after_an_outage_makes_errors_as_large_as_predicted(windows, random):
    def draws(rows):
        n = len(rows)
        error = torch.where(ages(rows) >= 4, 3.0, 1.0)[:, None]  # in standard deviations
        return Prediction.gaussian(rows.batch(torch.arange(n))["y"].double() + error, torch.ones(n, 2))

    scale = fit_outage_scale(draws, windows, torch.ones(2, dtype=torch.float64), random)
    torch.testing.assert_close(
        scale, torch.tensor([1.0, 1, 1, 1, 3, 3]).double()[:, None].expand(6, 2), rtol=0.02, atol=0
    )


@pytest.mark.parametrize(("age", "factor"), [(0, 1.0), (1, 2), (2, 3), (4, 5), (5, 5.5), (6, 6), (99, 6)])
def test_the_scale_is_interpolated_between_calibrated_ages(age, factor):
    p = Prediction.gaussian(torch.full((1, 1), 7.0), torch.full((1, 1), 0.5))
    wide = stretch(p, torch.arange(1.0, 7)[:, None], torch.tensor([age]))
    assert wide.mean.item() == 7 and wide.std.item() == pytest.approx(0.5 * factor)


NO_TARGET = pytest.mark.filterwarnings("ignore:.*have values of covariates")  # another warning


def missing_last(frame, length):
    frame.loc[frame.index[-length:], "y"] = np.nan
    return frame


@pytest.mark.parametrize(
    ("length", "message"),
    [(1, "The last value of 'y' is missing; inter"), (5, "The last 5 values of 'y' are missing; int")],
)
def test_predict_warns_of_missing_last_values(ridge_of_sine, noisy_sine, length, message):
    with pytest.warns(UserWarning, match=message):
        ridge_of_sine.predict(missing_last(noisy_sine.copy(), length))


@NO_TARGET
def test_the_warning_names_the_series():
    frames = [daily_cycle(200, seed).assign(id=name) for seed, name in enumerate("abc")]
    model = ridge(series="id").fit(pd.concat(frames))
    with pytest.warns(
        UserWarning, match="3 values of 'y' in series 'b' are missing, and the latest of 1 other series;"
    ):
        model.predict(pd.concat([frames[0], missing_last(frames[1], 3), missing_last(frames[2], 1)]))


@NO_TARGET
def test_a_model_of_an_earlier_version_asks_to_be_fitted_again():
    old = nsac.load(Path(__file__).with_name("saved") / "forecaster-1" / "model")
    with pytest.warns(UserWarning, match="intervals are too narrow.* Fit it again"):
        old.predict(missing_last(daily_cycle(290), 2))


@pytest.mark.filterwarnings("ignore:The last")
def test_after_an_outage_the_mean_goes_from_the_last_known_value_to_the_first_step(ridge_of_sine, noisy_sine):
    last, frame = noisy_sine["t"].iloc[-1], missing_last(noisy_sine.copy(), 3)
    known = frame["y"].dropna().iloc[-1]
    table = ridge_of_sine.predict(frame, at=[last + pd.Timedelta("1s"), last + STEP])
    soon, first = table["mean"] - known
    assert soon == pytest.approx(0.75 * first, rel=1e-3)  # three of the four steps from the last known value
    assert table["std"].nunique() == 1  # the noise is there at once


def test_a_loaded_model_gives_the_same_forecasts_after_an_outage(ridge_of_sine, noisy_sine, tmp_path):
    ridge_of_sine.save(tmp_path / "model")
    frame = missing_last(noisy_sine.copy(), 5)
    with pytest.warns(UserWarning, match="The last 5"):
        tables = [model.predict(frame) for model in (ridge_of_sine, nsac.load(tmp_path / "model"))]
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_a_scale_of_another_shape_is_refused(ridge_of_sine, tmp_path):
    ridge_of_sine.save(tmp_path / "model")
    config, tensors = read_model(tmp_path / "model")
    write_model(tmp_path / "other", config, tensors | {"own.outage_scale": torch.ones(3, 6)})
    with pytest.raises(ModelError, match="outage_scale"):
        nsac.load(tmp_path / "other")
