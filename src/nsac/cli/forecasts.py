"""Series in files: fit, forecast, evaluate."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsac.cli.reading import TableError, find_columns

if TYPE_CHECKING:
    from pandas import DataFrame

    from nsac.estimators.evaluation import Evaluation
    from nsac.estimators.forecaster import NSACForecaster

JUDGED = 1000
"""Rows that forecasts are judged from, at most; evenly thinned out."""


def fit(frame: "DataFrame", targets: list[str], settings: dict[str, Any]) -> tuple["NSACForecaster", int]:
    """A fitted forecaster, and how many rows it saw."""
    from nsac.estimators.forecaster import NSACForecaster

    if len(targets) > 1:
        raise TableError(f"A forecast has one target. Got {', '.join(targets)}. Fit a model for each.")
    return NSACForecaster(target=targets[0], **settings).fit(frame), len(frame)


def predict(estimator: "NSACForecaster", frame: "DataFrame", path: Path, coverage: float) -> "DataFrame":
    """The steps after the last row of each series."""
    _check(estimator, frame, path)
    return estimator.predict(frame, coverage=coverage)


def evaluate(estimator: "NSACForecaster", frame: "DataFrame", path: Path) -> list["Evaluation"]:
    """Forecasts from many rows of the file, all steps ahead, beside the last known value.

    The naive forecast gets, for each step ahead, the deviation that its errors have in this very file.
    """
    import numpy as np
    import torch

    from nsac.estimators.evaluation import evaluate_rows
    from nsac.uncertainty import Prediction

    _check(estimator, frame, path)
    made = estimator.forecasts(frame, most=JUDGED)
    deviation = (made.y - made.naive).square().nanmean(0).sqrt().clamp(min=1e-12).expand_as(made.naive)
    step = torch.arange(1, estimator.horizon + 1).expand(made.y.shape)
    names, counts = np.unique(made.series.astype(str), return_counts=True)
    one = torch.as_tensor(made.series.astype(str) == names[counts.argmax()])[:, None]
    shown = one & (step == (estimator.horizon + 1) // 2)
    times = made.times if made.times.dtype.kind == "f" else made.times.astype("datetime64[ns]")
    flat = Prediction(made.prediction.mean_draws.flatten(1), made.prediction.log_std_draws.flatten(1))
    naive = Prediction.gaussian(made.naive.flatten(), deviation.flatten())
    ends = (made.lower.flatten(), made.upper.flatten())
    place, where = times.ravel(), {"step": step.flatten(), "shown": shown.flatten()}
    return [evaluate_rows(estimator.target, flat, ends, made.y.flatten(), naive, "the last value", place, **where)]


def _check(estimator: "NSACForecaster", frame: "DataFrame", path: Path) -> None:
    columns = estimator.columns_
    find_columns(frame, [columns.time, *([columns.series] if columns.series else []), *columns.inputs], path)
