"""What users of scikit-learn and pandas expect of a regressor."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics import r2_score

from nsac import NSACRegressor, load
from nsac.estimators.components import MAX_ONE_HOT, design_groups, flatten
from nsac.methods import TableProblem
from support.table_problems import mixed, numbers, quick

LITTLE = {"max_steps": 5}


def test_a_column_of_pandas_is_a_target_without_a_warning():
    frame, y = mixed()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick().fit(frame, y)


def test_a_saved_regressor_of_many_inducing_rows_predicts_the_same_to_the_bit(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(150, 2)), columns=["a", "b"])
    regressor = quick().fit(frame, frame["a"] + 0.1 * random.normal(size=150))
    regressor.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(frame), regressor.predict(frame))  # pyright: ignore


def test_targets_may_be_transformed_by_scikit_learn():
    x, y = numbers(120)
    both = TransformedTargetRegressor(quick(), func=np.log, inverse_func=np.exp).fit(x, np.exp(y))
    assert np.allclose(np.log(both.predict(x)), quick().fit(x, y).predict(x))
    assert both.score(x, np.exp(y)) > 0.8


def test_the_score_is_the_coefficient_of_determination():
    x, y = numbers(outputs=2)
    regressor, weight = quick().fit(x, y), np.arange(60.0)
    assert regressor.score(x, y) == pytest.approx(r2_score(y, regressor.predict(x)))
    assert regressor.score(x, y, weight) == pytest.approx(r2_score(y, regressor.predict(x), sample_weight=weight))


def test_frames_of_polars_are_predicted_as_those_of_pandas():
    pl = pytest.importorskip("polars", reason="polars is in the extra `dev`")
    frame, y = mixed()
    frame["grade"] = frame["grade"].astype(str)
    frame["day"] = np.random.default_rng(0).permutation(pd.date_range("2024-01-01", periods=len(frame)))
    rows = pl.DataFrame({name: [None if pd.isna(v) else v for v in frame[name]] for name in frame.columns})
    expected, found = quick().fit(frame, y), quick().fit(rows, pl.Series("price", y.to_numpy()))
    assert np.array_equal(found.predict(rows), expected.predict(frame))
    assert np.array_equal(expected.predict(rows), expected.predict(frame))
    assert list(found.feature_names_in_) == list(frame.columns)
    assert np.array_equal(found.feature_importances_, expected.feature_importances_)


def test_only_frequent_categories_are_told_apart_by_kernel_and_trees():
    problem = TableProblem(1, 1, categories=(1000, 3))
    rows = {"x": torch.zeros(4, 1), "c": torch.tensor([[0, 0], [63, 1], [64, 2], [1000, 3]])}
    vectors = flatten(problem, rows)
    assert vectors.shape == (4, 1 + MAX_ONE_HOT + 1 + 4) and len(design_groups(problem)) == vectors.shape[1]
    assert torch.equal(vectors[2, :-4], vectors[3, :-4]) and not torch.equal(vectors[1, :-4], vectors[2, :-4])
    assert (vectors[:, 1:].sum(1) == 2).all()


@pytest.mark.slow
def test_a_column_of_thousands_of_categories_is_learned(tmp_path):
    random = np.random.default_rng(0)
    code = random.integers(5000, size=20_000)
    frame = pd.DataFrame({"name": [f"name {k}" for k in code], "x": random.normal(size=20_000)})
    y = frame["x"] + 0.1 * random.normal(size=20_000)
    regressor = NSACRegressor(members=2, training=LITTLE, random_state=0).fit(frame, y)
    assert regressor.score(frame[:1000], y[:1000]) > 0.9
    regressor.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(frame[:100]), regressor.predict(frame[:100]))  # pyright: ignore


@pytest.mark.slow
def test_a_table_of_more_columns_than_rows_is_learned():
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 2000))
    y = x[:, 0] + 0.1 * random.normal(size=300)
    regressor = NSACRegressor(members=2, training=LITTLE, random_state=0).fit(x, y)
    assert regressor.predict(x).shape == (300,) and regressor.score(x, y) > 0.5
