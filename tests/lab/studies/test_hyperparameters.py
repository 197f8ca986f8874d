import pytest

from nsac.lab.grid.sheet import Spread
from nsac.lab.studies.base import Outcome, settings
from nsac.lab.studies.hyperparameters import SCORES, sheets


def results(value_of=lambda setting: 0.1):
    """All settings, with made-up scores."""
    names = [*SCORES, *(f"{half}_{score}" for half in ("interpolation", "extrapolation") for score in SCORES)]
    return [(s, Outcome(dict.fromkeys(names, value_of(s)))) for s in settings("hyperparameters")]


@pytest.fixture
def heads():
    """Results in which 16 heads are best."""
    return results(lambda setting: abs(setting.config["num_heads"] - 16) / 16)


def test_the_value_with_the_lowest_error_is_best(heads):
    assert sheets(heads)[0].rows[0] == ("heads", "interpolation mse", 16, 32)


def test_a_row_is_the_mean_over_seeds():
    rows = sheets(results(lambda setting: float(setting.seed)))[1].rows
    assert rows[0][2] == 2 and rows[0][3] == Spread(0.5, pytest.approx(0.5**0.5))


def test_every_value_of_every_sweep_has_a_row():
    assert len(sheets(results())[1].rows) == 33


def test_a_sweep_without_finite_scores_has_no_best_value():
    assert not sheets(results(lambda setting: None))[0].rows
