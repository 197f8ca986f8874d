"""What users of scikit-learn and pandas expect of a regressor."""

import warnings

import numpy as np
import pandas as pd

from nsac import load
from support.table_problems import mixed, quick


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
