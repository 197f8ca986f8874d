"""Evaluation: scores of predictions beside baselines, and historical forecasts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac.estimators.times import read_times
from nsac.estimators.windows import Grid, subsample
from nsac.training import WindowData
from nsac.uncertainty import Prediction, scores

if TYPE_CHECKING:
    from nsac.estimators.forecasting import AbstractForecaster

SCORES = ("rmse", "mae", "nll", "crps", "coverage_90", "width_90", "calibration_error")  # in the order of the table
MIN_SEASONAL = 0.5  # share of the forecasts with a known value one cycle before, if that is a baseline


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
        table = {"model": score_row(SCORES, self.prediction, self.y, self.lower, self.upper)}
        for name, p in self.baselines.items():
            table[name] = score_row(SCORES, p, self.y, *p.interval(0.9))
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
    forecaster: "AbstractForecaster", frame: pd.DataFrame, since: Any, coverage: float, max_origins: int | None
) -> HistoricalForecasts:
    """See `NSACForecaster.historical_forecasts`."""
    preprocessor = forecaster.preprocessor_
    observations = preprocessor.read(frame)
    grid, windows = preprocessor.past(observations)
    axis, first = preprocessor.axis, None
    if since is not None:
        times, _ = read_times(pd.Series([since]), preprocessor.columns.time, preprocessor.columns.reading)
        first = axis.positions(times)[0]
    windows = select_origins(windows, grid.times + axis.step, first, max_origins)
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


def select_origins(windows: WindowData, times: np.ndarray, first: Any, max_origins: int | None) -> WindowData:
    """A subsample of the windows whose first forecast, at `times`, is at `first` or later."""
    ends = windows.ends.numpy()
    if first is not None:
        ends = ends[times[ends] >= first]
    return windows.with_ends(torch.from_numpy(ends if max_origins is None else subsample(ends, max_origins)))


def score_row(names: Sequence[str], p: Prediction, y: Tensor, lower: Tensor, upper: Tensor) -> dict[str, float]:
    """These scores; coverage and width are those of the interval from `lower` to `upper`."""
    covered = ((lower <= y) & (y <= upper)).double().mean().item()
    interval = {"coverage_90": covered, "width_90": (upper - lower).mean().item()}
    return {name: interval[name] if name in interval else getattr(scores, name)(p, y) for name in names}
