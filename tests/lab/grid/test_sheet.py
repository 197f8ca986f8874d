import pytest

from nsac.lab.grid.sheet import Spread, spread


def test_a_spread_is_the_mean_and_the_unbiased_standard_deviation():
    assert spread([1.0, 3.0]) == (2.0, pytest.approx(2**0.5))


@pytest.mark.parametrize("values", [[], [1.0, None]])
def test_values_that_are_missing_have_no_spread(values):
    assert spread(values) == Spread(None, None)


def test_one_value_has_no_standard_deviation():
    assert spread([2.0]) == Spread(2.0, None)
