"""How a fitted forecaster predicts, draws, and compares itself with observed values."""

from abc import abstractmethod
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from sklearn.utils import deprecated
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nsac._checks import check_int, probabilities
from nsac.estimators.backtesting import backtest
from nsac.estimators.base import AbstractEstimator
from nsac.estimators.evaluation import HistoricalForecasts, historical_forecasts
from nsac.estimators.event_forecasts import EventForecasts
from nsac.estimators.event_rows import RowMaker
from nsac.estimators.forecast_plot import COVERAGES, plot_forecast
from nsac.estimators.observations import read_numbers
from nsac.estimators.preprocessing import SeriesPreprocessor
from nsac.estimators.steps import TimeAxis
from nsac.estimators.times import TimeReading, parse_times
from nsac.estimators.window_forecasts import WindowForecasts
from nsac.estimators.window_models import WindowModels
from nsac.uncertainty import LeadTimeConformal, Prediction

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AbstractForecaster(AbstractEstimator):
    """All ways to predict series; `fit` and `_load_state` of a subclass set the attributes below."""

    kinds: ClassVar[tuple[str, ...]] = ("windows", "events")
    problem_: Any
    preprocessor_: SeriesPreprocessor
    events_: RowMaker
    online_: Any  # `OnlineCalibration`, or the `EventStream` of events
    stream_: LeadTimeConformal
    columns_: Any
    encoding_: str
    encoding_reason_: str
    axis_: TimeAxis
    step_: float | int
    cycles_: list[str]
    irregular_: bool
    lookback_: int
    horizon_: int
    outage_scale_: Tensor
    components_: WindowModels | None
    correlation_: Tensor | None
    target: str | Sequence[str]
    time: str
    series: str | None
    horizon: int | str
    lookback: int | str
    step: str | float | None

    def predict(
        self,
        frame: pd.DataFrame,
        at: Any = None,
        coverage: float | Sequence[float] = 0.9,
        quantiles: float | Sequence[float] = (),
    ) -> pd.DataFrame:
        """Forecast the steps after the last row of each series; warn if its latest targets are missing.

        Args:
            frame: at least the latest rows, `lookback` steps if possible; earlier ones do not matter.
            at: times to forecast instead, after the last row and within the horizon. Between steps forecasts are
                interpolated, the mean from the last known value on; before the first step the noise is that of it.
            coverage: of the interval; 0.9 makes the columns `lower_90` and `upper_90`. Several are allowed.
            quantiles: levels of quantiles of the calibrated mixture; 0.1 makes the column `quantile_10`.

        Returns:
            One row per step (and series): the time, the series, `mean`, `std`, `aleatoric` and `epistemic` variance
            (std^2 is their sum), the bounds of the intervals, and the quantiles.
        """
        check_is_fitted(self)
        coverages, levels = probabilities("coverage", coverage), probabilities("quantiles", quantiles)
        return self._forecasts.predict(frame, at, coverages, levels)

    def predict_interval(self, frame: pd.DataFrame, coverage: float | Sequence[float] = 0.9) -> np.ndarray:
        """Lower and upper bounds of the steps after the last row of each series, (series, 2, horizon).

        For a sequence of coverages (series, coverages, 2, horizon).
        """
        check_is_fitted(self)
        bounds = self._forecasts.intervals(frame, probabilities("coverage", coverage)).numpy()
        return bounds[:, 0] if np.ndim(coverage) == 0 else bounds

    def predict_quantiles(
        self, frame: pd.DataFrame, quantiles: float | Sequence[float] = (0.1, 0.5, 0.9)
    ) -> np.ndarray:
        """Quantiles of the calibrated mixture, (series, quantiles, horizon)."""
        levels = probabilities("quantiles", quantiles)
        return self.predict_distribution(frame).quantile(levels).movedim(0, 1).numpy()

    def predict_distribution(self, frame: pd.DataFrame) -> Prediction:
        """The calibrated mixture in the unit of the target, (series, horizon)."""
        check_is_fitted(self)
        return self._forecasts.distribution(frame)

    def predict_samples(self, frame: pd.DataFrame, num_samples: int = 1000, random_state: int = 0) -> np.ndarray:
        """Joint samples of the steps after the last row of each series, (num_samples, series, horizon).

        At each lead time they follow the calibrated mixture; between lead times they are correlated as the errors in
        the calibration set are. So the sum, the maximum or any other function of a sample has the distribution that is
        forecast for it: `np.quantile(samples.sum(-1), [0.05, 0.95], axis=0)` is an interval of the sum of the horizon.
        """
        check_is_fitted(self)
        check_int("num_samples", num_samples)
        check_int("random_state", random_state, 0)
        generator = torch.Generator().manual_seed(random_state)
        return self._forecasts.samples(frame, num_samples, generator).numpy()

    def ood_score(self, frame: pd.DataFrame) -> np.ndarray:
        """Out-of-distribution score of the latest window of each series, (series,).

        The score is the epistemic standard deviation of the standardised forecast, as a root mean square over the
        horizon. It needs a method with epistemic uncertainty, or several members.
        """
        self._check_epistemic()
        return self._forecasts.ood_score(frame)

    def plot(self, frame: pd.DataFrame, path: str | PathLike | None = None, at: Any = None) -> "Figure":
        """Draw the forecasts that `predict` returns, with intervals of 50 % and 90 %, after the observed values.

        With a `path` the figure is written there, as PNG, PDF or SVG. Of many series the first are drawn.
        """
        table = self.predict(frame, at, COVERAGES)
        if self.time not in frame.columns:
            frame = frame.reset_index()
        observed = frame.assign(
            **{self.time: parse_times(pd.Series(frame[self.time]), self.time, self.columns_.reading)},
            **{name: read_numbers(pd.Series(frame[name]), name) for name in self.targets_},
        )
        return plot_forecast(table, observed, self.time, self.series, self.targets_, path)

    def historical_forecasts(
        self, frame: pd.DataFrame, since: Any = None, coverage: float = 0.9, max_origins: int | None = None
    ) -> HistoricalForecasts:
        """Forecasts from every row of a frame, beside the observed values; intervals are not adaptive.

        With `since`, a time, only forecasts whose steps are all from then on; with `max_origins` forecasts from so many
        rows at most, evenly subsampled.
        """
        check_is_fitted(self)
        if self.encoding_ == "events":
            raise ValueError(
                "`historical_forecasts` needs a model with encoding='grid'. This one has 'events'. Call `backtest`."
            )
        return historical_forecasts(self, frame, since, coverage, max_origins)

    def backtest(self, frame: pd.DataFrame, folds: int = 5, by: str | Sequence[str] = ()) -> pd.DataFrame:
        """Fit on the past and score the forecasts that follow, several times, beside baselines.

        The rows are cut into `folds + 1` blocks of equal size; fold k fits the first k and scores forecasts of block
        k + 1. The forecaster itself does not change. Baselines are persistence, the value one cycle of the calendar
        before (`seasonal`), and half the last value, half the mean of the series so far (`half-mean`; of events, the
        mean within the lookback).

        Args:
            frame: rows of all series.
            folds: number of fits.
            by: "series", "lead_time" or both, for a row of scores for each.

        Returns:
            One row per fold and method: the number of `forecasts`, `mse`, `mae`, `crps`, `nll`, `coverage_90` and
            `width_90` in the unit of the target, over all lead times unless they are separate.
        """
        return backtest(self, frame, folds, by)

    def update(self, frame: pd.DataFrame) -> Self:
        """Adapt the intervals to the observations since the last call, or since `fit`.

        Every forecast that could have been made in the frame and has come due since is scored, in order of time: after
        misses the intervals of `predict` become wider, after hits narrower, separately for each lead time (events: bin
        of lead times), so that the coverage approaches the nominal one in the long run (events: that of 90 % intervals;
        others are stretched alike). Means and variances do not change. The frame has the new rows, and before them
        `lookback + horizon` steps of earlier rows or more: no forecast is scored twice.
        """
        check_is_fitted(self)
        self._forecasts.update(frame)
        return self

    def update_report(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Call `update`, and report the coverage of the adaptive intervals of the forecasts that came due.

        Returns:
            One row per lead time, and per `target` if there are several: `step`, the number of `forecasts`, and
            `coverage_50`, ..., the share of them that the adaptive intervals covered; NaN where there is no forecast.
        """
        check_is_fitted(self)
        return self._forecasts.update(frame)

    @deprecated("call `update_report` instead")
    def track(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The same as `update_report`, with the column `judged` instead of `forecasts`."""
        return self.update_report(frame).rename(columns={"forecasts": "judged"})

    @deprecated("call `historical_forecasts` instead")
    def forecasts(
        self, frame: pd.DataFrame, since: Any = None, coverage: float = 0.9, most: int | None = None
    ) -> HistoricalForecasts:
        """The same as `historical_forecasts`, with `most` instead of `max_origins`."""
        return self.historical_forecasts(frame, since, coverage, most)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")  # the encoding is chosen earlier

    @property
    def targets_(self) -> list[str]:
        """Names of the columns to predict."""
        return [self.target] if isinstance(self.target, str) else list(self.target)

    @abstractmethod
    def _reading(self) -> TimeReading:
        """How the times are read."""

    @property
    def _kind(self) -> str:
        return "events" if getattr(self, "encoding_", "grid") == "events" else "windows"

    @property
    def _forecasts(self) -> Any:
        return EventForecasts(self) if self._kind == "events" else WindowForecasts(self)
