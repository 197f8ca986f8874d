"""Series in files: fit, forecast, evaluate."""

import warnings
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
    return _forecaster(targets, settings).fit(frame), len(frame)


def backtest(
    frame: "DataFrame", targets: list[str], settings: dict[str, Any], folds: int, by: Sequence[str]
) -> "DataFrame":
    """Scores of fits on the past, beside baselines; `by` are series and lead-time."""
    names = {"series": "series", "lead-time": "lead_time", "lead_time": "lead_time"}
    for each in by:
        if each not in names:
            raise TableError(f"`--by` must be series or lead-time. Got {each!r} instead.")
    return _forecaster(targets, settings).backtest(frame, folds, [names[each] for each in by])


def _forecaster(targets: list[str], settings: dict[str, Any]) -> "NSACForecaster":
    from nsac.estimators.forecaster import NSACForecaster

    return NSACForecaster(target=targets[0] if len(targets) == 1 else targets, **settings)


def fit_options(
    horizon: str | None, lookback: str | None, static: list[str] | None, known_future: list[str] | None,
    time_encoding: str | None,
) -> dict[str, Any]:  # fmt: skip
    """Arguments of the forecaster for those options that were given."""
    options: dict[str, Any] = {"static": static, "known_future": known_future}
    for name, text in (("horizon", horizon), ("lookback", lookback)):
        if text is not None:
            options[name] = _steps(f"--{name}", text)
    if time_encoding is not None:
        if time_encoding not in ("auto", "events", "grid"):
            raise TableError(f"`--time-encoding` must be auto, events or grid. Got {time_encoding!r} instead.")
        options["encoding"] = time_encoding
    return options


def _steps(option: str, text: str) -> int | str:
    """A number of steps, or a duration as it is."""
    try:
        steps = int(text)
    except ValueError:
        return text
    if steps < 1:
        raise TableError(
            f"`{option}` must be a number of steps above 0, or a duration such as 24h. Got {text} instead."
        )
    return steps


def text_columns(estimator: "NSACForecaster", time_format: str | None) -> list[str]:
    """The series, and the time column if its times have a format: 001 and 01021990 are not numbers."""
    columns = estimator.columns_
    times = [columns.time] if time_format or columns.reading.format else []
    return times if columns.series is None else [*times, columns.series]


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


def predict(
    estimator: "NSACForecaster",
    frame: "DataFrame",
    coverage: float | Sequence[float],
    quantiles: Sequence[float] = (),
    ood_score: bool = False,
) -> "DataFrame":
    """Forecasts after the last row of each series; `ood_score` adds that of the series."""
    table = estimator.predict(frame, coverage=coverage, quantiles=quantiles)
    if ood_score:
        scores = estimator.ood_score(frame)
        series = estimator.columns_.series
        names = [None] if series is None else list(dict.fromkeys(table[series]))
        by_name = dict(zip(names, scores, strict=True))
        table["ood_score"] = [by_name[name] for name in ([None] * len(table) if series is None else table[series])]
    return table


def plot(estimator: "NSACForecaster", frame: "DataFrame", path: Path) -> None:
    """Write the picture of a forecast, complete or not at all."""
    import matplotlib

    from nsac.estimators.forecast_plot import picture_format

    try:
        picture_format("--plot", path)
    except ValueError as err:
        raise TableError(str(err)) from None
    matplotlib.use("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `predict` has warned already
        estimator.plot(frame, path)


def evaluate(estimator: "NSACForecaster", frame: "DataFrame") -> list["Evaluation"]:
    """Forecasts from many origins in the file at all lead times, beside persistence and seasonal naive forecasts.

    The standard deviation of a baseline at each lead time is that of its errors in the same file.
    """
    import numpy as np
    import torch

    from nsac.estimators.evaluation import evaluate_rows
    from nsac.uncertainty import Prediction

    if estimator.encoding_ == "events":
        return _evaluate_events(estimator, frame)
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
        estimator.targets_[0], p, bounds, forecasts.y.flatten(), baselines, times.ravel(),
        step=step.flatten(), shown=shown.flatten(),
    )  # fmt: skip
    return [evaluation]


def _evaluate_events(estimator: "NSACForecaster", frame: "DataFrame") -> list["Evaluation"]:
    """One per target."""
    import numpy as np
    import torch

    from nsac.estimators.evaluation import evaluate_rows

    scored = estimator._forecasts.scored(frame, frame, None)
    names = {"persistence": "the last value", "half-mean": "half the last value, half the mean"}
    names["seasonal"] = f"the last {estimator.cycles_[0]}" if estimator.cycles_ else ""
    times = scored.times.astype("datetime64[ns]") if scored.times.dtype.kind != "f" else scored.times
    found = []
    for target in estimator.targets_:
        own = torch.as_tensor(scored.target == target)
        step, series = torch.as_tensor(scored.lead_time)[own], scored.series[own.numpy()].astype(str)
        if not len(step):
            continue
        values, counts = np.unique(series, return_counts=True)
        shown = torch.as_tensor(series == values[counts.argmax()]) & (step == step.median())
        baselines = {names[name]: p[own] for name, p in scored.baselines.items()}
        bounds = scored.lower[own], scored.upper[own]
        place = times[own.numpy()]
        found.append(
            evaluate_rows(target, scored.prediction[own], bounds, scored.y[own], baselines, place, step, shown)
        )
    return found
