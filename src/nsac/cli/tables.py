"""Tables in files, rows that know nothing of each other: fit, predict, evaluate."""

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

CHUNK = 20_000
"""Rows predicted between two steps of the bar."""


def fit(
    frame: "DataFrame", path: Path, targets: list[str], settings: dict[str, Any], note: Callable[[str], None]
) -> tuple["NSACRegressor", int]:
    """A fitted regressor, and how many rows it saw: those whose targets are known."""
    import numpy as np

    from nsac.estimators.regressor import NSACRegressor

    known = np.asarray(frame[targets].notna()).all(axis=1)
    if not known.all():
        note(f"{path}: left out {(~known).sum()} rows without a target.")
    frame = frame.iloc[np.flatnonzero(known)]
    if not len(frame):
        raise TableError(f"{path} has no row with a known target. Name another column with `--target`.")
    if frame.shape[1] == len(targets):
        raise TableError(f"{path} has no columns but the target. Add some to predict it from.")
    y = frame[targets[0]] if len(targets) == 1 else frame[targets]
    estimator = NSACRegressor(**settings).fit(frame.drop(columns=targets), y)
    return estimator, len(frame)


def text_columns(estimator: Any) -> list[str]:
    """Columns whose levels were read as text; levels that were numbers are written as those of Python are."""
    columns = estimator.columns_
    levels = getattr(columns, "levels", {})  # a forecaster has none
    return [columns.names[i] for i, each in levels.items() if not all(_is_float(level) for level in each)]


def _is_float(level: str) -> bool:
    try:
        return repr(float(level)) == level
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
    starts = range(0, len(X), CHUNK)
    parts = [
        _part(estimator, X.iloc[start : start + CHUNK], targets, coverage)
        for start in track(starts, "predicting", console=console, disable=len(starts) < 2)
    ]
    return pd.concat([frame[others].reset_index(drop=True), pd.concat(parts, ignore_index=True)], axis=1)


def _part(estimator: Any, X: "DataFrame", targets: list[str], coverage: float) -> "DataFrame":
    import numpy as np
    import pandas as pd

    p, ends = estimator.predict_distribution(X), estimator.predict_interval(X, coverage)
    values = {"mean": p.mean, "std": p.std, "aleatoric": p.aleatoric, "epistemic": p.epistemic}
    percent = f"{100 * coverage:g}"
    values |= {f"lower_{percent}": ends[:, 0], f"upper_{percent}": ends[:, 1]}
    flat = {name: np.asarray(value).reshape(len(X), -1) for name, value in values.items()}
    outputs = flat["mean"].shape[1]
    suffixes = [""] if outputs == 1 else [f"_{name}" for name in targets or range(outputs)]
    return pd.DataFrame({f"{name}{s}": v[:, i] for i, s in enumerate(suffixes) for name, v in flat.items()})


def evaluate(estimator: "NSACRegressor", frame: "DataFrame", path: Path, targets: list[str]) -> list["Evaluation"]:
    """One per target, beside mean and deviation of the training rows."""
    import torch

    from nsac.estimators.evaluation import evaluate_rows
    from nsac.uncertainty import Prediction

    if len(targets) != len(estimator.centre_):
        raise TableError(f"The model predicts {len(estimator.centre_)} targets. Name them, in order, with `--target`.")
    X = _features(estimator, frame, path)
    find_columns(frame, targets, path)
    p, ends = estimator.predict_distribution(X), torch.as_tensor(estimator.predict_interval(X, 0.9))
    if len(p.shape) == 1:
        p, ends = Prediction(p.mean_draws.unsqueeze(-1), p.log_std_draws.unsqueeze(-1)), ends.unsqueeze(-1)
    evaluations = []
    for i, name in enumerate(targets):
        y = _numbers(frame, name, path)
        naive = [torch.full_like(y, float(v[i])) for v in (estimator.centre_, estimator.scale_)]
        ends_i = (ends[:, 0, i], ends[:, 1, i])
        evaluations.append(evaluate_rows(name, p[:, i], ends_i, y, Prediction.gaussian(*naive), "the training mean"))
    return evaluations


def _numbers(frame: "DataFrame", name: str, path: Path) -> "Tensor":
    """A column as a tensor, NaN where it is empty."""
    import torch

    try:
        return torch.tensor(frame.loc[:, name].to_numpy(dtype=float, na_value=float("nan")))
    except (TypeError, ValueError):
        raise TableError(f"{path}: column {name!r} must hold numbers to be compared with predictions.") from None
