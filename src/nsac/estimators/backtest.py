"""Backtests: forecasts from past origins beside the observed values, and their scores beside baselines."""
# pyright: reportArgumentType=false
# (the type checker takes rows of a frame for a column)

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone
from torch import Tensor

from nsac.estimators.evaluation import interval_scores
from nsac.estimators.observations import find_columns, read_observations
from nsac.estimators.times import read_times, restore_times
from nsac.estimators.windows import subsample
from nsac.methods import METHODS
from nsac.training import WindowData
from nsac.uncertainty import Prediction
from nsac.uncertainty.scores import crps, mae, mse, nll

if TYPE_CHECKING:
    from nsac.estimators.forecaster import NSACForecaster

MAX_ORIGINS = 2000
"""Forecast origins that are scored in each fold, at most; subsampled evenly."""
BASELINES = ("persistence", "seasonal")
"""Methods that a backtest scores beside the forecaster; the second needs a daily cycle."""


class HistoricalForecasts(NamedTuple):
    """Forecasts from many origins of a frame, in the unit of the target."""

    prediction: Prediction  # (origins, horizon), calibrated
    lower: Tensor  # (origins, horizon), bounds of the interval
    upper: Tensor
    y: Tensor  # (origins, horizon), observed values; NaN where they are not known
    persistence: Tensor  # (origins, horizon), the last known value
    times: np.ndarray  # (origins, horizon), of what is predicted: nanoseconds since 1970 in UTC, or numbers
    series: np.ndarray  # (origins,), names


def historical_forecasts(
    forecaster: "NSACForecaster", frame: pd.DataFrame, since: Any, coverage: float, max_origins: int | None
) -> HistoricalForecasts:
    """See `NSACForecaster.historical_forecasts`."""
    preprocessor = forecaster.preprocessor_
    observations = preprocessor.read(frame)
    grid, windows = preprocessor.past(observations)
    first = None if since is None else read_times(pd.Series([since]), preprocessor.columns.time)[0][0]
    windows = _select(windows, grid.times + preprocessor.step, first, max_origins)
    if not len(windows):
        raise ValueError(
            f"`frame` must hold a row with a known {forecaster.target!r} in the {forecaster.lookback} steps up to it "
            f"and in the {forecaster.horizon} steps after it. Got none in {len(frame)} rows."
        )
    p = forecaster._draws(windows)
    lower, upper = preprocessor.in_unit(windows, *forecaster.calibration_.interval(p, coverage))
    y = preprocessor.observed(windows)
    return HistoricalForecasts(
        prediction=preprocessor.prediction_in_unit(windows, forecaster.calibration_.apply(p)),
        lower=lower,
        upper=upper,
        y=y,
        persistence=preprocessor.last_values(windows)[:, None].expand_as(y),
        times=grid.times[windows.ends][:, None] + np.arange(1, forecaster.horizon + 1) * preprocessor.step,
        series=np.array(observations.names, dtype=object)[grid.codes[windows.ends]],
    )


def backtest(forecaster: "NSACForecaster", frame: pd.DataFrame, folds: int) -> pd.DataFrame:
    """See `NSACForecaster.backtest`."""
    arguments = forecaster.time, forecaster.series, forecaster.target, forecaster.covariates
    times = read_observations(frame, find_columns(frame, *arguments)).times
    edges = np.sort(times)[np.arange(1, folds + 1) * len(times) // (folds + 1)]
    row_times = read_times(pd.Series(frame.reset_index()[forecaster.time]), forecaster.time)[0]
    rows = []
    for k, first in enumerate(edges):
        stop = edges[k + 1] if k + 1 < folds else np.inf
        past, known = frame[row_times < first], frame[row_times < stop]
        fitted: NSACForecaster = clone(forecaster)  # pyright: ignore[reportAssignmentType]
        fitted.fit(past)
        since = restore_times(np.array([first]), fitted.preprocessor_.time_dtype)[0]
        forecasts = fitted.historical_forecasts(known, since=since, max_origins=MAX_ORIGINS)
        observed = ~forecasts.y.isnan()
        y, bounds = forecasts.y[observed], (forecasts.lower[observed], forecasts.upper[observed])
        fold = {"fold": k + 1, "method": forecaster.method, "forecasts": len(y)}
        rows.append(fold | _scores(forecasts.prediction[observed], *bounds, y))
        for name, p in _baselines(fitted, past, known, first).items():
            rows.append(fold | {"method": name} | _scores(p[observed], *p[observed].interval(0.9), y))
    return pd.DataFrame(rows)


def _baselines(fitted: "NSACForecaster", past: pd.DataFrame, known: pd.DataFrame, first: Any) -> dict[str, Prediction]:
    """Forecasts of the baselines, with the standard deviations that their errors have in the past."""
    preprocessor = fitted.preprocessor_
    grid, windows = preprocessor.past(preprocessor.read(known))
    windows = _select(windows, grid.times + preprocessor.step, first, MAX_ORIGINS)
    _, past_windows = preprocessor.past(preprocessor.read(past))
    batch = windows.batch(torch.arange(len(windows)))
    problem = replace(fitted.problem_, missing_targets=True)
    predictions = {}
    for name in BASELINES:
        if name in batch:
            method: Any = METHODS[name](problem).double()  # pyright: ignore[reportCallIssue]
            method.solve(past_windows, past_windows)
            predictions[name] = preprocessor.prediction_in_unit(windows, method.predict(batch))
    return predictions


def _select(windows: WindowData, times: np.ndarray, first: Any, max_origins: int | None) -> WindowData:
    """A subsample of the windows whose first forecast, at `times`, is at `first` or later."""
    ends = windows.ends.numpy()
    if first is not None:
        ends = ends[times[ends] >= first]
    return windows.with_ends(torch.from_numpy(ends if max_origins is None else subsample(ends, max_origins)))


def _scores(p: Prediction, lower: Tensor, upper: Tensor, y: Tensor) -> dict[str, float]:
    scores = {"mse": mse(p, y), "mae": mae(p, y), "crps": crps(p, y), "nll": nll(p, y)}
    return scores | interval_scores(y, lower, upper)
