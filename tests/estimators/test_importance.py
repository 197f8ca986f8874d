import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel

from nsac import NSACRegressor, load
from nsac.estimators import importance
from support.table_problems import mixed, numbers, quick


def two_of_six(n=150, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 6))
    return x, 3 * x[:, 1] + 2 * np.sin(2 * x[:, 4])


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(*two_of_six())


def test_the_features_that_matter_rank_first(fitted):
    found = fitted.permutation_importances(*two_of_six(seed=1), random_state=0)
    assert list(found.columns) == ["feature", "importance", "lower", "upper"]
    assert list(found["feature"]) == ["0", "1", "2", "3", "4", "5"]
    assert list(found["importance"].to_numpy().argsort()[::-1][:2]) == [1, 4]
    assert (found["lower"] <= found["importance"]).all() and (found["importance"] <= found["upper"]).all()
    assert found["lower"][4] > found["upper"].drop([1, 4]).max()


def test_importance_is_twice_the_share_of_the_variance_of_an_exact_linear_model():
    x, _ = numbers(400, features=2, seed=3)
    regressor = quick(method="ridge").fit(x, 2 * x[:, 0] + x[:, 1])
    y = regressor.predict(x)
    found = regressor.permutation_importances(x, y, num_repeats=50, random_state=0)["importance"]
    variances = np.array([regressor.predict(x * [1, 0]).var(), regressor.predict(x * [0, 1]).var()])
    assert found.to_numpy() == pytest.approx(2 * variances / y.var(), rel=0.05)


def test_importances_of_a_selector_are_shares(fitted):
    shares = fitted.feature_importances_
    assert shares.shape == (6,) and shares.min() >= 0 and shares.sum() == pytest.approx(1)
    assert set(np.flatnonzero(SelectFromModel(fitted, prefit=True, max_features=2).get_support())) == {1, 4}
    assert fitted.feature_importances_ is shares


def test_a_selector_fits_the_regressor():
    x, y = two_of_six(60)
    selector = SelectFromModel(quick(), max_features=1, threshold=-np.inf).fit(x, y)
    assert list(selector.get_support()) == [False, True, False, False, False, False]


def test_importances_are_those_of_their_random_state(fitted):
    first, same, other = (fitted.permutation_importances(*two_of_six(30), random_state=k) for k in (0, 0, 1))
    assert first.equals(same) and not first.equals(other)


def test_repeats_that_do_not_fit_into_memory_are_predicted_one_after_the_other(fitted, monkeypatch):
    at_once = fitted.permutation_importances(*two_of_six(30), random_state=0)
    monkeypatch.setattr(importance, "MAX_ROWS_AT_ONCE", 60)
    assert np.allclose(fitted.permutation_importances(*two_of_six(30), random_state=0)["upper"], at_once["upper"])


def test_frames_with_categories_and_missing_values_have_importances():
    frame, y = mixed(60)
    before, regressor = frame.copy(), quick(method="ridge").fit(frame, np.stack([y, -y], 1))
    found = regressor.permutation_importances(frame.set_index(y.index[::-1]), np.stack([y, -y], 1), random_state=0)
    assert list(found["feature"]) == list(frame.columns) and found["importance"].argmax() == 0
    assert frame.equals(before)


def test_importances_need_targets_that_vary(fitted):
    x, y = two_of_six(20)
    with pytest.raises(ValueError, match="`y` must vary"):
        fitted.permutation_importances(x, 0 * y)
    with pytest.raises(ValueError, match="num_repeats"):
        fitted.permutation_importances(x, y, num_repeats=0)


def test_only_the_rows_of_a_fit_have_importances_without_rows(fitted, tmp_path):
    with pytest.raises(NotFittedError):
        _ = NSACRegressor().feature_importances_
    fitted.save(tmp_path / "model")
    with pytest.raises(AttributeError, match="loaded from a folder. Call `permutation_importances"):
        _ = load(tmp_path / "model").feature_importances_  # pyright: ignore
    x = np.random.default_rng(0).normal(size=(30, 51))
    with pytest.raises(AttributeError, match="up to 50 columns. Got 51. Call `permutation_importances"):
        _ = quick(method="ridge").fit(x, x[:, 0]).feature_importances_


def test_columns_are_shuffled_with_their_type():
    frame = pd.DataFrame({"a": pd.Categorical(["u", "v", "u"]), "b": [1, 2, 3]}, index=[5, 5, 7])
    twice = importance.shuffled(frame, 0, [np.array([1, 0, 2]), np.array([2, 0, 1])])
    assert list(twice["a"]) == ["v", "u", "u", "u", "u", "v"] and list(twice["b"]) == [1, 2, 3, 1, 2, 3]
    assert (twice.dtypes == frame.dtypes).all()
