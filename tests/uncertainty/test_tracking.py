import numpy as np
import pytest
from scipy import stats

from nsac.uncertainty import track_margins
from nsac.uncertainty.tracking import STEP_SIZE

MARGIN = stats.norm.ppf(0.95)  # of a standard normal error, at a coverage of 90 %


def stream(updates, scale=1.0, seed=0):
    """Times, columns and ratios of forecasts of one column, one after the other."""
    errors = scale * np.random.default_rng(seed).standard_normal(updates)
    return np.arange(updates), np.zeros(updates, dtype=np.int64), np.abs(errors) / MARGIN


def test_the_mean_miss_less_alpha_is_the_change_of_the_logarithm_over_the_steps():
    times, column, ratio = stream(500, scale=3.0)
    after, compared = track_margins(np.array([0.4]), times, column, ratio, 0.9)
    misses = ratio > np.exp(compared)
    np.testing.assert_allclose(misses.mean() - 0.1, (after[0] - 0.4) / (STEP_SIZE * 500))


@pytest.mark.parametrize("scale", [0.7, 1.0, 5.0], ids=["too wide", "right", "too narrow"])
def test_the_factor_approaches_the_scale_of_the_errors(scale):
    after, compared = track_margins(np.zeros(1), *stream(20_000, scale), 0.9)
    # The stationary variance of the logarithm is about eta alpha (1 - alpha) / (2 * 0.34): 0.05 is its root.
    assert after[0] == pytest.approx(np.log(scale), abs=5 * 0.05)
    assert np.mean(compared[5000:]) == pytest.approx(np.log(scale), abs=0.05)


@pytest.mark.parametrize(("ratio", "factor"), [(0.0, 0.5), (1e6, 10.0)])
def test_intervals_are_from_half_to_ten_times_as_wide(ratio, factor):
    times, column, _ = stream(2000)
    after, _ = track_margins(np.zeros(1), times, column, np.full(2000, ratio), 0.9)
    np.testing.assert_allclose(np.exp(after), factor)


def test_a_stream_in_pieces_is_the_stream_at_once():
    times, column, ratio = stream(100)
    column = column + times % 2
    at_once, compared = track_margins(np.zeros(2), times, column, ratio, 0.9)
    first, some = track_margins(np.zeros(2), times[:37], column[:37], ratio[:37], 0.9)
    second, others = track_margins(first, times[37:], column[37:], ratio[37:], 0.9)
    assert np.array_equal(second, at_once)
    assert np.array_equal(np.append(some, others), compared)


def test_forecasts_of_one_time_and_column_are_one_update():
    many, _ = track_margins(np.zeros(2), np.zeros(4), np.array([0, 0, 0, 0]), np.array([2.0, 2.0, 0.5, 0.5]), 0.9)
    np.testing.assert_allclose(many, [STEP_SIZE * (0.5 - 0.1), 0.0])


def test_no_forecast_changes_nothing_and_the_argument_is_kept():
    before = np.array([0.3, -0.2])
    none = np.empty(0)
    after, compared = track_margins(before, none, none.astype(int), none, 0.9)
    assert np.array_equal(after, before)
    assert len(compared) == 0
    track_margins(before, np.zeros(1), np.zeros(1, int), np.ones(1), 0.9)
    assert np.array_equal(before, [0.3, -0.2])
