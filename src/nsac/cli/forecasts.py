"""Series in files: fit, forecast, evaluate."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsac.cli.reading import TableError
from nsac.cli.tables import find_columns

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


def text_columns(estimator: "NSACForecaster", time_format: str | None) -> list[str]:
    """The time column, if its times have a format: 01021990 is not a number."""
    return [estimator.columns_.time] if time_format or estimator.columns_.reading.format else []


def with_times(
    estimator: "NSACForecaster", frame: "DataFrame", path: Path, time_format: str | None, dayfirst: bool | None
) -> "DataFrame":
    """The frame, with times as dates if an option says how they are read; it has all columns of the estimator."""
    columns = estimator.columns_
    series = [] if columns.series is None else [columns.series]
    find_columns(frame, [columns.time, *series, *columns.inputs], path)
    if time_format is None and dayfirst is None:
        return frame
    from nsac.estimators.times import TimeReading, parse_times

    times = parse_times(frame.loc[:, columns.time], columns.time, TimeReading(time_format, dayfirst))
    return frame.assign(**{columns.time: times})


def predict(estimator: "NSACForecaster", frame: "DataFrame", coverage: float | Sequence[float]) -> "DataFrame":
    """Forecasts of the steps after the last row of each series."""
    return estimator.predict(frame, coverage=coverage)


def evaluate(estimator: "NSACForecaster", frame: "DataFrame") -> list["Evaluation"]:
    """Forecasts from many origins in the file at all lead times, beside persistence and seasonal naive forecasts.

    The standard deviation of a baseline at each lead time is that of its errors in the same file.
    """
    import numpy as np
    import torch

    from nsac.estimators.evaluation import evaluate_rows
    from nsac.uncertainty import Prediction

    forecasts = estimator.historical_forecasts(frame, max_origins=MAX_ORIGINS)
    baselines, seasonal = {}, {f"the last {cycle}": mean for cycle, mean in forecasts.seasonal.items()}
    for name, mean in {"the last value": forecasts.persistence, **seasonal}.items():
        std = (forecasts.y - mean).square().nanmean(0).sqrt().clamp(min=1e-12).expand_as(mean)
        baselines[name] = Prediction.gaussian(mean.flatten(), std.flatten())
    step = torch.arange(1, estimator.horizon_ + 1).expand(forecasts.y.shape)
    names, counts = np.unique(forecasts.series.astype(str), return_counts=True)
    longest = torch.as_tensor(forecasts.series.astype(str) == names[counts.argmax()])[:, None]
    shown = longest & (step == (estimator.horizon_ + 1) // 2)
    dated = forecasts.times.dtype.kind != "f"
    times = forecasts.times.astype("datetime64[ns]") if dated else forecasts.times
    p = Prediction(forecasts.prediction.mean_draws.flatten(1), forecasts.prediction.log_std_draws.flatten(1))
    bounds = (forecasts.lower.flatten(), forecasts.upper.flatten())
    evaluation = evaluate_rows(
        estimator.target, p, bounds, forecasts.y.flatten(), baselines, times.ravel(),
        step=step.flatten(), shown=shown.flatten(),
    )  # fmt: skip
    return [evaluation]
