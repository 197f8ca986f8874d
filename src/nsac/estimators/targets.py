"""Targets of a regressor: their values, names and scale."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array


def target_values(y: Any, estimator: str) -> np.ndarray:
    """Targets, (n,) or (n, outputs), finite, in double precision; `estimator` is its name in messages."""
    if y is None:
        raise ValueError(f"{estimator} requires y to be passed, but the target y is None.")
    try:
        values: Any = check_array(y, ensure_2d=False, dtype="float64", ensure_all_finite=False, input_name="y")
    except ValueError as err:
        names = ", ".join(f"column {name!r}" for name in target_names(y)) or "y"
        raise ValueError(f"Input y must hold numbers, (n,) or (n, outputs), in {names}: {err}") from None
    if values.ndim not in (1, 2):
        raise ValueError(f"Input y must have shape (n,) or (n, outputs). Got {values.shape} instead.")
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, *column = bad[0]
        kind = "NaN" if np.isnan(values[*bad[0]]) else "infinity"
        raise ValueError(
            f"Input y contains {kind}: {_label(y, column[0] if column else 0)}, row {row} ({len(bad)} such values). "
            "Leave out rows without a target."
        )
    return values


def target_names(y: Any) -> list[str]:
    """Names of the targets; empty if `y` has none."""
    if hasattr(y, "columns"):
        return [str(name) for name in y.columns]
    return [] if getattr(y, "name", None) is None else [str(y.name)]


def target_std(values: np.ndarray, y: Any) -> np.ndarray:
    """Standard deviation of each column of `values`, (n, outputs), which must vary; `y` has the names."""
    std = values.std(0)
    for i in np.flatnonzero(std <= 1e-12 * np.abs(values.mean(0))):
        raise ValueError(
            f"The target ({_label(y, int(i))}) must vary. It is {values[0, i]:g} in all training rows. Check the data."
        )
    return std


def _label(y: Any, i: int) -> str:
    """Output i in a message."""
    names = target_names(y)
    if names:
        return f"column {names[i]!r}"
    return f"column {i} of y" if len(getattr(y, "shape", (0,))) > 1 else "y"
