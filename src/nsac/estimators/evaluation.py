"""Evaluation: scores of predictions beside baselines, historical forecasts and backtests."""
# pyright: reportArgumentType=false
# (the type checker takes rows of a frame for a column)

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone
from torch import Tensor

from nsac.estimators.observations import read_observations
from nsac.estimators.times import read_times, restore_times
from nsac.estimators.windows import Grid, subsample
from nsac.methods import METHODS
from nsac.training import WindowData
from nsac.uncertainty import Prediction, scores

if TYPE_CHECKING:
    from nsac.estimators.forecaster import NSACForecaster

SCORES = ("rmse", "mae", "nll", "crps", "coverage_90", "width_90", "calibration_error")  # in the order of the table
BACKTEST_SCORES = ("mse", "mae", "crps", "nll", "coverage_90", "width_90")  # likewise
MIN_SEASONAL = 0.5  # share of the forecasts with a known value one cycle before, if that is a baseline
MAX_ORIGINS = 2000  # forecast origins that are scored in each fold, at most; subsampled evenly
BASELINES = ("persistence", "seasonal")  # scored beside the forecaster; the second needs a cycle of the calendar


@dataclass(frozen=True)
class Evaluation:
    """Predictions and observed values of one target; entries without an observed value are left out."""

    target: str  # its name
    prediction: Prediction  # (n,), calibrated, in the unit of y
    lower: Tensor  # (n,), lower end of the 90 % interval
    upper: Tensor  # (n,), its upper end
    y: Tensor  # (n,), observed values
    baselines: dict[str, Prediction]  # name in tables and legends to (n,), prediction of the baseline
    place: np.ndarray | None = None  # (n,), times, if the rows have any
    step: Tensor | None = None  # (n,), forecasts: lead time in steps, from 1
    shown: Tensor | None = None  # (n,), whether a value is in the plot over time: one series at one lead time

    def __post_init__(self):
        if not len(self.y):
            raise ValueError(
                f"The target {self.target!r} must be known in at least one row to be evaluated. Got none. "
                "Pass a file with its values."
            )

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        """`{"model": {score: value}, name of a baseline: ...}`; the interval of the model is the conformal one."""
        table = {"model": _scores(SCORES, self.prediction, self.y, self.lower, self.upper)}
        for name, p in self.baselines.items():
            table[name] = _scores(SCORES, p, self.y, *p.interval(0.9))
        return table

    @property
    def best_baseline(self) -> str:
        """The baseline with the least RMSE."""
        return min(self.baselines, key=lambda name: self.scores[name]["rmse"])


def evaluate_rows(
    target: str,
    prediction: Prediction,
    interval: tuple[Tensor, Tensor],
    y: Tensor,
    baselines: dict[str, Prediction],
    place: np.ndarray | None = None,
    step: Tensor | None = None,
    shown: Tensor | None = None,
) -> Evaluation:
    """An `Evaluation` of the entries whose target is known."""
    known = torch.isfinite(y)
    optional: dict[str, Any] = {name: v[known] for name, v in (("step", step), ("shown", shown)) if v is not None}
    if place is not None:
        optional["place"] = place[known.numpy()]
    rows = prediction[known], interval[0][known], interval[1][known], y[known]
    return Evaluation(target, *rows, {name: p[known] for name, p in baselines.items()}, **optional)


class HistoricalForecasts(NamedTuple):
    """Forecasts from many origins of a frame, in the unit of the target."""

    prediction: Prediction  # (origins, horizon), calibrated
    lower: Tensor  # (origins, horizon), bounds of the interval
    upper: Tensor
    y: Tensor  # (origins, horizon), observed values; NaN where they are not known
    persistence: Tensor  # (origins, horizon), the last known value
    times: np.ndarray  # (origins, horizon), of what is predicted: nanoseconds since 1970 in UTC, or numbers
    series: np.ndarray  # (origins,), names
    seasonal: dict[str, Tensor]  # cycle to (origins, horizon): the value one such cycle before, or more if it is short


def historical_forecasts(
    forecaster: "NSACForecaster", frame: pd.DataFrame, since: Any, coverage: float, max_origins: int | None
) -> HistoricalForecasts:
    """See `NSACForecaster.historical_forecasts`."""
    preprocessor = forecaster.preprocessor_
    observations = preprocessor.read(frame)
    grid, windows = preprocessor.past(observations)
    axis, first = preprocessor.axis, None
    if since is not None:
        times, _ = read_times(pd.Series([since]), preprocessor.columns.time, preprocessor.columns.reading)
        first = axis.positions(times)[0]
    windows = _select(windows, grid.times + axis.step, first, max_origins)
    if not len(windows):
        raise ValueError(
            f"`frame` must hold a row with a known {forecaster.target!r} in the {forecaster.lookback_} steps up to it "
            f"and in the {forecaster.horizon_} steps after it. Got none in {len(frame)} rows."
        )
    p = forecaster._forecasts.draws(windows)
    lower, upper = preprocessor.in_unit(windows, *forecaster.calibration_.interval(p, coverage))
    prediction = preprocessor.prediction_in_unit(windows, forecaster.calibration_.apply(p))
    y, persistence = preprocessor.observed(windows), preprocessor.last_values(windows)[:, None]
    times = axis.times(grid.times[windows.ends][:, None] + np.arange(1, forecaster.horizon_ + 1) * axis.step)
    series = np.array(observations.names, dtype=object)[grid.codes[windows.ends]]
    persistence, seasonal = persistence.expand_as(y), {}
    for cycle in preprocessor.cycles:
        before = _season_before(grid, windows.ends.numpy(), forecaster.horizon_, axis.season(cycle))
        known = ~before.isnan()
        if known.double().mean() >= MIN_SEASONAL:
            seasonal[cycle] = torch.where(known, before, persistence)
    return HistoricalForecasts(prediction, lower, upper, y, persistence, times, series, seasonal)


def _season_before(grid: Grid, ends: np.ndarray, horizon: int, season: int) -> Tensor:
    """Targets the least number of whole seasons before each lead time, (origins, horizon); NaN where unknown."""
    steps = np.arange(1, horizon + 1)
    before = ends[:, None] + steps - season * -(-steps // season)
    return torch.as_tensor(np.where(before >= grid.start[ends, None], grid.values[np.maximum(before, 0), 0], np.nan))


def backtest(forecaster: "NSACForecaster", frame: pd.DataFrame, folds: int) -> pd.DataFrame:
    """See `NSACForecaster.backtest`."""
    named = forecaster._find_columns(frame)
    times = read_observations(frame, named).times
    edges = np.sort(times)[np.arange(1, folds + 1) * len(times) // (folds + 1)]
    row_times = read_times(pd.Series(frame.reset_index()[forecaster.time]), forecaster.time, named.reading)[0]
    rows = []
    for k, first in enumerate(edges):
        stop = edges[k + 1] if k + 1 < folds else np.inf
        past, known = frame[row_times < first], frame[row_times < stop]
        fitted: NSACForecaster = clone(forecaster)  # pyright: ignore[reportAssignmentType]
        fitted.set_params(time_format=named.reading.format, dayfirst=named.reading.dayfirst).fit(past)
        since = restore_times(np.array([first]), fitted.preprocessor_.axis.dtype)[0]
        forecasts = fitted.historical_forecasts(known, since=since, max_origins=MAX_ORIGINS)
        observed = ~forecasts.y.isnan()
        y, bounds = forecasts.y[observed], (forecasts.lower[observed], forecasts.upper[observed])
        fold = {"fold": k + 1, "method": forecaster.method, "forecasts": len(y)}
        rows.append(fold | _scores(BACKTEST_SCORES, forecasts.prediction[observed], y, *bounds))
        for name, p in _baselines(fitted, past, known, np.array([first])).items():
            rows.append(fold | {"method": name} | _scores(BACKTEST_SCORES, p[observed], y, *p[observed].interval(0.9)))
    return pd.DataFrame(rows)


def _baselines(
    fitted: "NSACForecaster", past: pd.DataFrame, known: pd.DataFrame, first: np.ndarray
) -> dict[str, Prediction]:
    """Forecasts of the baselines, with the standard deviations that their errors have in the past."""
    preprocessor = fitted.preprocessor_
    grid, windows = preprocessor.past(preprocessor.read(known))
    windows = _select(windows, grid.times + preprocessor.axis.step, preprocessor.axis.positions(first), MAX_ORIGINS)
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


def _scores(names: Sequence[str], p: Prediction, y: Tensor, lower: Tensor, upper: Tensor) -> dict[str, float]:
    covered = ((lower <= y) & (y <= upper)).double().mean().item()
    interval = {"coverage_90": covered, "width_90": (upper - lower).mean().item()}
    return {name: interval[name] if name in interval else getattr(scores, name)(p, y) for name in names}
