import pytest

import nsac
from explain.conftest import series, table
from nsac.explain import ExplainError


def test_a_feature_that_predictions_depend_on_is_important(regressor):
    found = nsac.explain(regressor, table(40, seed=1)[0]).importances(3).set_index("feature")["importance"]
    assert found["a"] > 10 * found["c"] and list(found.index) == ["a", "b<i>", "c", "day"]


def test_the_range_is_that_of_the_models(regressor):
    found = nsac.explain(regressor, table(20, seed=1)[0]).importances(2)
    assert (found["lower"] <= found["upper"]).all() and (found["upper"] > 0).all()


def test_channels_have_importances_by_age(forecaster):
    found = nsac.explain(forecaster, series(60, seed=1), origins=[30, 40, 50]).importances(2)
    assert found[["channel", "from_step", "to_step"]].iloc[:4].to_numpy().tolist() == [
        ["y", 0, 0], ["y", -1, -1], ["y", -2, -3], ["y", -4, -7]
    ]  # fmt: skip
    assert found["importance"].idxmax() == 0  # the last value of the target


def test_two_rows_are_too_few_to_shuffle(regressor):
    with pytest.raises(ExplainError, match="`rows` must be at least 3 to shuffle their values. Got 2 instead"):
        nsac.explain(regressor, table(2)[0]).importances()
