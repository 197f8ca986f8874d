"""Series in files: fit, forecast, evaluate."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsac.cli.tables import TableError, find_columns

if TYPE_CHECKING:
    from pandas import DataFrame

    from nsac.estimators.evaluation import Evaluation
    from nsac.estimators.forecaster import NSACForecaster

MAX_ORIGINS = 1000
"""Forecast origins that are evaluated, at most; subsampled evenly."""


def fit(frame: "DataFrame", targets: list[str], settings: dict[str, Any]) -> tuple["NSACForecaster", int]:
    """A fitted forecaster, and the number of rows."""
    from nsac.estimators.forecaster import NSACForecaster

    if len(targets) > 1:
        raise TableError(f"A forecast has one target. Got {', '.join(targets)}. Fit a model for each.")
    return NSACForecaster(target=targets[0], **settings).fit(frame), len(frame)


def predict(estimator: "NSACForecaster", frame: "DataFrame", path: Path, coverages: Sequence[float]) -> "DataFrame":
    """Forecasts of the steps after the last row of each series, with an interval per coverage."""
    import pandas as pd

    _check_columns(estimator, frame, path)
    tables = [estimator.predict(frame, coverage=coverage) for coverage in coverages]
    pairs = [[f"lower_{100 * coverage:g}", f"upper_{100 * coverage:g}"] for coverage in coverages]
    ends = [table[pair] for table, pair in zip(tables, pairs, strict=True)]
    return pd.concat([tables[0], *ends[1:]], axis=1)


def evaluate(estimator: "NSACForecaster", frame: "DataFrame", path: Path) -> list["Evaluation"]:
    """Forecasts from many origins in the file at all lead times, beside the persistence baseline.

    The standard deviation of the baseline at each lead time is that of its errors in the same file.
    """
    import numpy as np
    import torch

    from nsac.estimators.evaluation import evaluate_rows
    from nsac.uncertainty import Prediction

    _check_columns(estimator, frame, path)
    forecasts = estimator.historical_forecasts(frame, max_origins=MAX_ORIGINS)
    errors = forecasts.y - forecasts.persistence
    std = errors.square().nanmean(0).sqrt().clamp(min=1e-12).expand_as(forecasts.persistence)
    step = torch.arange(1, estimator.horizon + 1).expand(forecasts.y.shape)
    names, counts = np.unique(forecasts.series.astype(str), return_counts=True)
    longest = torch.as_tensor(forecasts.series.astype(str) == names[counts.argmax()])[:, None]
    shown = longest & (step == (estimator.horizon + 1) // 2)
    dated = forecasts.times.dtype.kind != "f"
    times = forecasts.times.astype("datetime64[ns]") if dated else forecasts.times
    p = Prediction(forecasts.prediction.mean_draws.flatten(1), forecasts.prediction.log_std_draws.flatten(1))
    baseline = Prediction.gaussian(forecasts.persistence.flatten(), std.flatten())
    bounds = (forecasts.lower.flatten(), forecasts.upper.flatten())
    evaluation = evaluate_rows(
        estimator.target, p, bounds, forecasts.y.flatten(), baseline, "the last value", times.ravel(),
        step=step.flatten(), shown=shown.flatten(),
    )  # fmt: skip
    return [evaluation]


def _check_columns(estimator: "NSACForecaster", frame: "DataFrame", path: Path) -> None:
    columns = estimator.columns_
    series = [] if columns.series is None else [columns.series]
    find_columns(frame, [columns.time, *series, *columns.inputs], path)
