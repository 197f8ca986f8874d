"""Tables in files, with independent rows: fit, predict, evaluate."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from nsac.cli.reading import TableError, find_columns

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from nsac.estimators.evaluation import Evaluation
    from nsac.estimators.regressor import NSACRegressor

CHUNK_ROWS = 20_000
"""Rows predicted between two updates of the progress bar."""


def fit(
    frame: "DataFrame", path: Path, targets: list[str], settings: dict[str, Any], note: Callable[[str], None]
) -> tuple["NSACRegressor", int]:
    """A fitted regressor, and the number of rows it was fitted on: those whose targets are known."""
    import numpy as np

    from nsac.estimators.regressor import NSACRegressor

    known = np.asarray(frame[targets].notna()).all(axis=1)
    if not known.all():
        note(f"{path}: left out {(~known).sum()} rows without a target.")
    frame = frame.iloc[np.flatnonzero(known)]
    if not len(frame):
        raise TableError(f"{path} has no row with a known target. Name another column with `--target`.")
    if frame.shape[1] == len(targets):
        raise TableError(f"{path} has no columns but the target. Add columns to predict it from.")
    y = frame[targets[0]] if len(targets) == 1 else frame[targets]
    estimator = NSACRegressor(**settings).fit(frame.drop(columns=targets), y)
    return estimator, len(frame)


def text_columns(estimator: Any) -> list[str]:
    """Columns whose categories were read as text; categories that were numbers have Python's text of a float."""
    columns = estimator.columns_
    categories = getattr(columns, "categories", {})  # a forecaster has none
    return [columns.names[i] for i, each in categories.items() if not all(_is_float(text) for text in each)]


def _is_float(text: str) -> bool:
    try:
        return repr(float(text)) == text
    except ValueError:
        return False


def _features(estimator: Any, frame: "DataFrame", path: Path) -> "DataFrame":
    names = list(getattr(estimator, "feature_names_in_", []))
    if not names:
        raise TableError(
            "The model was fitted to columns without names, so a file cannot be matched. Use it in Python."
        )
    find_columns(frame, names, path)
    return frame.loc[:, names]


def predict(
    estimator: "NSACRegressor", frame: "DataFrame", path: Path, targets: list[str], coverage: float, console: Console
) -> "DataFrame":
    """Predictions, one row per row of the file, after those of its columns that are neither input nor target."""
    import pandas as pd
    from rich.progress import track

    X = _features(estimator, frame, path)
    others = [name for name in frame.columns if name not in X.columns and name not in targets]
    starts = range(0, len(X), CHUNK_ROWS)
    chunks = [
        estimator.predict_frame(X.iloc[start : start + CHUNK_ROWS], coverage)
        for start in track(starts, "predicting", console=console, disable=len(starts) < 2)
    ]
    return pd.concat([frame[others].reset_index(drop=True), pd.concat(chunks, ignore_index=True)], axis=1)


def evaluate(estimator: "NSACRegressor", frame: "DataFrame", path: Path, targets: list[str]) -> list["Evaluation"]:
    """One per target; the baseline is the mean and standard deviation of the training rows."""
    import torch

    from nsac.estimators.evaluation import evaluate_rows
    from nsac.uncertainty import Prediction

    if len(targets) != len(estimator.centre_):
        raise TableError(f"The model predicts {len(estimator.centre_)} targets. Name them, in order, with `--target`.")
    X = _features(estimator, frame, path)
    find_columns(frame, targets, path)
    p = estimator.predict_distribution(X)
    lower, upper = estimator.conformal_interval(p, 0.9)
    evaluations = []
    for i, name in enumerate(targets):
        y = _numbers(frame, name, path)
        mean, std = torch.full_like(y, float(estimator.centre_[i])), torch.full_like(y, float(estimator.scale_[i]))
        output = (slice(None), i) if len(p.shape) == 2 else (slice(None),)
        interval = (lower[output], upper[output])
        baseline = Prediction.gaussian(mean, std)
        evaluations.append(evaluate_rows(name, p[output], interval, y, baseline, "the training mean"))
    return evaluations


def _numbers(frame: "DataFrame", name: str, path: Path) -> "Tensor":
    """A column as a tensor, NaN where it is empty."""
    import torch

    try:
        return torch.tensor(frame.loc[:, name].to_numpy(dtype=float, na_value=float("nan")))
    except (TypeError, ValueError):
        raise TableError(f"{path}: column {name!r} must hold numbers to be compared with predictions.") from None
