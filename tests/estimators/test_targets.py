import numpy as np
import pandas as pd
import pytest

from nsac.estimators.targets import target_names, target_std, target_values


@pytest.mark.parametrize(
    ("y", "names"),
    [(pd.Series([1.0], name="price"), ["price"]), (pd.DataFrame({"a": [1], 2: [3]}), ["a", "2"]), (np.ones(3), [])],
)
def test_names_are_those_of_the_frame(y, names):
    assert target_names(y) == names


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "Model requires y to be passed"),
        (np.zeros((2, 2, 2)), "y"),
        (np.array([1.0, np.inf]), "contains infinity: y, row 1 .1 such values."),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), "contains NaN: column 1 of y, row 1"),
    ],
)
def test_values_that_cannot_be_learned_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        target_values(y, "Model")


def test_the_scale_is_the_standard_deviation():
    values = np.array([[1.0, 10.0], [3.0, 30.0]])
    np.testing.assert_array_equal(target_std(values, values), [1, 10])


def test_a_constant_target_has_no_scale():
    values = np.array([[1.0, 2.0], [3.0, 2.0]])
    with pytest.raises(ValueError, match="column 1 of y. must vary. It is 2"):
        target_std(values, values)
