"""Tables as users have them: arrays, and frames of pandas or polars."""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

MIN_ROWS = 5  # fewest rows to fit: some to train, one to leave out


def as_frame(X: Any) -> Any:
    """A frame of pandas if X is one of polars; otherwise X."""
    if not type(X).__module__.startswith("polars"):
        return X
    import pandas as pd

    columns = {}
    for name in X.columns:
        column = X[name]
        values = column.to_list()
        columns[name] = pd.Series(values, dtype="object" if column.dtype.is_nested() else None)
        if column.dtype.is_numeric():
            columns[name] = pd.Series(np.array([np.nan if v is None else v for v in values], dtype=float))
    return pd.DataFrame(columns)


def check_table(estimator: Any, X: Any, reset: bool) -> Any:
    """X as a frame or an array of enough rows, with the columns of `fit` unless `reset`."""
    min_rows = MIN_ROWS if reset else 1
    if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if len(X) < min_rows or not X.shape[1]:
            raise ValueError(
                f"Found frame with {len(X)} sample(s) and {X.shape[1]} feature(s) (shape={X.shape}) while a "
                f"minimum of {min_rows} and 1 is required by {type(estimator).__name__}."
            )
        return X
    return validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=min_rows)
