"""Backtests: fits on the past, and scores of the forecasts that follow, beside baselines."""
# pyright: reportArgumentType=false
# (the type checker takes rows of a frame for a column)

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone
from torch import Tensor

from nsac._checks import check_choice, check_int
from nsac.estimators.evaluation import HistoricalForecasts, score_row, select_origins
from nsac.estimators.observations import check_frame
from nsac.estimators.times import read_times, resolve_reading, restore_times
from nsac.estimators.windows import Grid
from nsac.methods import METHODS
from nsac.training import WindowData
from nsac.uncertainty import Prediction

if TYPE_CHECKING:
    from nsac.estimators.forecasting import AbstractForecaster

BACKTEST_SCORES = ("mse", "mae", "crps", "nll", "coverage_90", "width_90")  # in the order of the table
MAX_ORIGINS = 2000  # forecast origins that are scored in each fold, at most; subsampled evenly
BASELINES = ("persistence", "seasonal")  # scored beside the forecaster; the second needs a cycle of the calendar
HALF_MEAN = "half-mean"  # a further baseline: half the last known value, half the mean of the series so far
MIN_BLOCK_ROWS = 2  # of a backtest
GROUPINGS = ("series", "lead_time")  # of the scores


class ScoredForecasts(NamedTuple):
    """Forecasts of one fold whose values were observed, one entry each."""

    y: Tensor  # (n,), observed values
    prediction: Prediction  # (n,), calibrated
    lower: Tensor  # (n,), bounds of the 90 % interval
    upper: Tensor
    baselines: dict[str, Prediction]
    series: np.ndarray  # (n,), names
    lead_time: np.ndarray  # (n,), in steps, rounded up
    target: np.ndarray  # (n,), names of the columns
    times: np.ndarray  # (n,), of what is predicted, see `HistoricalForecasts`


def backtest(
    forecaster: "AbstractForecaster", frame: pd.DataFrame, folds: int, by: str | Sequence[str]
) -> pd.DataFrame:
    """See `NSACForecaster.backtest`."""
    check_int("folds", folds)
    groupings = [by] if isinstance(by, str) else list(by)
    for each in groupings:
        check_choice("by", each, GROUPINGS)
    if "series" in groupings and forecaster.series is None:
        raise ValueError("`by='series'` needs several series. Got no column of series. Name it with `series`.")
    taken = ["fold", "method", "forecasts", *BACKTEST_SCORES, *(each for each in groupings if each != "series")]
    if len(forecaster.targets_) > 1:
        taken.append("target")
    if "series" in groupings and forecaster.series in taken:
        raise ValueError(
            f"`series` must not be a column of the scores with `by='series'`. Got {forecaster.series!r}. Rename it."
        )
    whole = check_frame(frame, forecaster.time, [("time", forecaster.time)])
    reading = resolve_reading(whole[forecaster.time], forecaster.time, forecaster._reading())
    times = read_times(whole[forecaster.time], forecaster.time, reading)[0]
    if len(times) < MIN_BLOCK_ROWS * (folds + 1):
        raise ValueError(
            f"`folds` must leave {MIN_BLOCK_ROWS} rows or more to each of `folds + 1` blocks. Got {folds} for "
            f"{len(times)} rows. Pass fewer folds, or more rows."
        )
    edges = np.sort(times)[np.arange(1, folds + 1) * len(times) // (folds + 1)]
    rows = []
    for k, first in enumerate(edges):
        stop = edges[k + 1] if k + 1 < folds else np.inf
        past, known = frame[times < first], frame[times < stop]
        fitted: Any = clone(forecaster)
        fitted.set_params(time_format=reading.format, dayfirst=reading.dayfirst).fit(past)
        forecasts = fitted._forecasts.scored(past, known, first)
        rows += [{"fold": k + 1} | row for row in _table(fitted, forecasts, groupings)]
    return pd.DataFrame(rows)


def _table(fitted: "AbstractForecaster", forecasts: ScoredForecasts, groupings: Sequence[str]) -> list[dict[str, Any]]:
    """Scores of the forecaster and of the baselines, for each group of forecasts."""
    keys: dict[str, np.ndarray] = {}
    if len(fitted.targets_) > 1:
        keys["target"] = forecasts.target
    if "series" in groupings:
        keys[fitted.series] = forecasts.series
    if "lead_time" in groupings:
        keys["lead_time"] = forecasts.lead_time
    groups: list[tuple[tuple[Any, ...], Any]] = [((), np.arange(len(forecasts.y)))]
    if keys:
        grouped = pd.DataFrame(keys).groupby(list(keys), sort=True, observed=True)
        groups = [(key if isinstance(key, tuple) else (key,), rows) for key, rows in grouped.indices.items()]
    table = []
    for key, rows in groups:
        inside = torch.from_numpy(np.asarray(rows, dtype=np.int64))
        y, head = forecasts.y[inside], dict(zip(keys, key, strict=True))
        bounds = forecasts.lower[inside], forecasts.upper[inside]
        scores = score_row(BACKTEST_SCORES, forecasts.prediction[inside], y, *bounds)
        table.append(head | {"method": fitted.method, "forecasts": len(y)} | scores)
        for name, prediction in forecasts.baselines.items():
            p = prediction[inside]
            scores = score_row(BACKTEST_SCORES, p, y, *p.interval(0.9))
            table.append(head | {"method": name, "forecasts": len(y)} | scores)
    return table


def scored_windows(
    fitted: "AbstractForecaster", past: pd.DataFrame, known: pd.DataFrame, first: Any
) -> ScoredForecasts:
    """Forecasts of a forecaster with windows from `first` on, in the rows that are `known`; `past` are the earlier."""
    since = restore_times(np.array([first]), fitted.preprocessor_.axis.dtype)[0]
    forecasts: HistoricalForecasts = fitted.historical_forecasts(known, since=since, max_origins=MAX_ORIGINS)
    observed = ~forecasts.y.isnan()
    baselines = {name: p[observed] for name, p in _baselines(fitted, past, known, np.array([first])).items()}
    lead = np.broadcast_to(np.arange(1, fitted.horizon_ + 1), forecasts.y.shape)[observed.numpy()]
    series = np.broadcast_to(forecasts.series[:, None], forecasts.y.shape)[observed.numpy()]
    values = forecasts.y[observed], forecasts.prediction[observed], forecasts.lower[observed], forecasts.upper[observed]
    times = forecasts.times[observed.numpy()]
    return ScoredForecasts(*values, baselines, series, lead, np.full(len(lead), fitted.targets_[0]), times)


def _baselines(
    fitted: "AbstractForecaster", past: pd.DataFrame, known: pd.DataFrame, first: np.ndarray
) -> dict[str, Prediction]:
    """Forecasts of the baselines, with the standard deviations that their errors have in the past."""
    preprocessor = fitted.preprocessor_
    grid, windows = preprocessor.past(preprocessor.read(known))
    first = preprocessor.axis.positions(first)
    windows = select_origins(windows, grid.times + preprocessor.axis.step, first, MAX_ORIGINS)
    past_grid, past_windows = preprocessor.past(preprocessor.read(past))
    batch = windows.batch(torch.arange(len(windows)))
    problem = replace(fitted.problem_, missing_targets=True)
    predictions = {}
    for name in BASELINES:
        if name in batch:
            method: Any = METHODS[name](problem).double()  # pyright: ignore[reportCallIssue]
            method.solve(past_windows, past_windows)
            predictions[name] = preprocessor.prediction_in_unit(windows, method.predict(batch))
    errors = past_windows.batch(torch.arange(len(past_windows)))["y"] - half_mean(past_grid, past_windows)
    mean = half_mean(grid, windows)
    std = errors.square().nanmean(0).sqrt().nan_to_num(1.0).clamp(min=1e-12).expand_as(mean)
    predictions[HALF_MEAN] = preprocessor.prediction_in_unit(windows, Prediction.gaussian(mean, std))
    return predictions


def half_mean(grid: Grid, windows: WindowData) -> Tensor:
    """Half the last known value, half the mean of the series up to the origin, in the unit of `y`, (origins, horizon).

    The grid is that of the windows.
    """
    target = windows.values[:, 0].numpy()
    known = np.isfinite(target)
    total, count = np.cumsum(np.where(known, target, 0.0)), np.cumsum(known)
    first = np.searchsorted(grid.codes, grid.codes)  # of the series; codes ascend
    before_total, before_count = (np.where(first > 0, sums[first - 1], 0) for sums in (total, count))
    mean = (total - before_total) / np.maximum(count - before_count, 1)
    last, unit = windows.offset_and_scale(torch.arange(len(windows)))
    return 0.5 * (torch.as_tensor(mean)[windows.ends, None] - last) / unit
