"""Forecasts of irregularly sampled time series with missing values, several steps ahead."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from sklearn.utils import check_random_state, deprecated
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nsac._checks import check_choice, check_int, probabilities
from nsac.estimators.backtesting import backtest
from nsac.estimators.base import AbstractEstimator
from nsac.estimators.evaluation import HistoricalForecasts, historical_forecasts
from nsac.estimators.forecast_plot import COVERAGES, plot_forecast
from nsac.estimators.observations import SeriesColumns, find_columns
from nsac.estimators.online import OnlineCalibration, coverage_report
from nsac.estimators.preprocessing import SeriesPreprocessor
from nsac.estimators.times import TimeReading, parse_times
from nsac.estimators.window_forecasts import WindowForecasts
from nsac.methods import WindowProblem
from nsac.uncertainty import LeadTimeConformal, Prediction

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class NSACForecaster(AbstractEstimator):
    """Forecasts with calibrated uncertainty, from a frame with a time column.

    Observation times may be irregular and values missing: every row goes to the nearest slot of a regular grid (rows
    that share a slot are averaged), and empty slots are missing values. The model predicts the change of the target
    from its last known value. Time of day, of week and of year are inputs if the series spans such a cycle twice.

    The latest tenth of the windows, at most 2000, is the calibration set. Each member of the ensemble trains on the
    other windows except for one block of time, its validation set; together they predict as one mixture.

    Args:
        horizon: steps to predict, or a duration: a text such as "24h", or "24" if times are numbers.
        lookback: steps that a forecast is made from, or a duration.
        target: column to predict.
        time: column of dates, with or without a time zone, or of numbers; ascending within a series.
        series: column that names the series, if there are several. They share one model.
        covariates: further input columns; by default all other columns of numbers. Columns of text are left out.
        step: length of a step, a text such as "15min" for dates or a number; by default the typical gap between rows.
            Months, quarters, years and business days are recognised as steps of the calendar: a series of month
            starts is forecast at the next ones.
        time_format: format of dates that are text or whole numbers, for instance "%d.%m.%Y %H:%M".
        dayfirst: whether "01/02/1990" is in February; needed if no row decides it. `predict` reads dates as `fit` did.
        method: a name in `nsac.METHODS` that takes windows.
        members: size of the ensemble; a single member is validated on its latest windows.
        num_samples: Monte Carlo draws of each member.
        training: fields of `nsac.training.TrainConfig` that replace the defaults.
        random_state: fixes everything that is random: a number, None or a `RandomState`.
        verbose: whether to show a progress bar, on a terminal.
        folds: deprecated name of `members`.

    Attributes:
        members_: the fitted methods.
        calibration_: variance scale and conformal scores of their mixture, per lead time.
        columns_, cycles_: columns, and cycles of the calendar, in use.
        step_: length of a step: nanoseconds, in the unit of the time column, or months or days of the calendar.
        horizon_, lookback_: both in steps.
        irregular_: whether the time between an observation and its slot is an input.
        outage_scale_: factors on the standard deviation after an outage, by the age of the last known value.
        correlation_: of the errors at all lead times, for joint samples.
        preprocessor_: turns frames into windows, and predictions into the unit of the target.
        online_, stream_: adaptive margins, see `update`.
    """

    kind: ClassVar[str] = "windows"
    problem_: WindowProblem
    preprocessor_: SeriesPreprocessor
    online_: OnlineCalibration
    stream_: LeadTimeConformal
    columns_: SeriesColumns
    step_: float | int
    cycles_: list[str]
    irregular_: bool
    lookback_: int
    horizon_: int
    outage_scale_: Tensor
    correlation_: Tensor | None

    def __init__(
        self,
        horizon: int | str = 24,
        lookback: int | str = 48,
        target: str = "y",
        time: str = "date",
        series: str | None = None,
        *,
        covariates: Sequence[str] | None = None,
        step: str | float | None = None,
        time_format: str | None = None,
        dayfirst: bool | None = None,
        method: str = "nsac",
        members: int = 5,
        num_samples: int = 20,
        training: dict[str, Any] | None = None,
        random_state: Any = None,
        verbose: bool = False,
        folds: Any = "deprecated",
    ):
        self.horizon = horizon
        self.lookback = lookback
        self.target = target
        self.time = time
        self.series = series
        self.covariates = covariates
        self.step = step
        self.time_format = time_format
        self.dayfirst = dayfirst
        self.method = method
        self.members = members
        self.num_samples = num_samples
        self.training = training
        self.random_state = random_state
        self.verbose = verbose
        self.folds = folds

    def fit(self, frame: pd.DataFrame, y: None = None) -> "NSACForecaster":
        """Fit and calibrate on rows in order of time; the target is one of the columns, and `y` is not used."""
        self._check_method()
        check_int("members", self.members)
        members: Any = self._n_members()
        columns = self._find_columns(frame)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        WindowForecasts(self).fit(frame, columns, members, seed)
        return self

    def predict(
        self,
        frame: pd.DataFrame,
        at: Any = None,
        coverage: float | Sequence[float] = 0.9,
        quantiles: Sequence[float] = (),
    ) -> pd.DataFrame:
        """Forecast the steps after the last row of each series; warn if its latest targets are missing.

        Args:
            frame: at least the latest rows, `lookback` steps if possible; earlier ones do not matter.
            at: times to forecast instead, after the last row and within the horizon. Between steps forecasts are
                interpolated, from the last known value on.
            coverage: of the interval; 0.9 makes the columns `lower_90` and `upper_90`. Several are allowed.
            quantiles: levels of quantiles of the calibrated mixture; 0.1 makes the column `quantile_10`.

        Returns:
            One row per step (and series): the time, the series, `mean`, `std`, `aleatoric` and `epistemic` variance
            (std^2 is their sum), the bounds of the intervals, and the quantiles.
        """
        check_is_fitted(self)
        levels = probabilities("quantiles", quantiles) if len(quantiles) else []
        return self._forecasts.predict(frame, at, probabilities("coverage", coverage), levels)

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
        return self.predict_distribution(frame).quantile(np.atleast_1d(quantiles).tolist()).movedim(0, 1).numpy()

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
            **{self.time: parse_times(pd.Series(frame[self.time]), self.time, self.columns_.reading)}
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
        return historical_forecasts(self, frame, since, coverage, max_origins)

    def backtest(self, frame: pd.DataFrame, folds: int = 5, by: str | Sequence[str] = ()) -> pd.DataFrame:
        """Fit on the past and score the forecasts that follow, several times, beside baselines.

        The rows are cut into `folds + 1` blocks of equal size; fold k fits the first k and scores forecasts of block
        k + 1. The forecaster itself does not change. Baselines are persistence, the value one cycle of the calendar
        before (`seasonal`), and half the last value, half the mean of the series so far (`half-mean`).

        Args:
            frame: rows of all series.
            folds: number of fits.
            by: "series", "lead_time" or both, for a row of scores for each.

        Returns:
            One row per fold and method: the number of `forecasts`, `mse`, `mae`, `crps`, `nll`, `coverage_90` and
            `width_90` in the unit of the target, over all lead times unless they are separate.
        """
        return backtest(self, frame, folds, by)

    def update(self, frame: pd.DataFrame) -> "NSACForecaster":
        """Adapt the intervals to the observations since the last call, or since `fit`.

        Every forecast that could have been made in the frame and has come due since is scored, in order of time: after
        misses the intervals of `predict` become wider, after hits narrower, separately for each lead time, so that the
        coverage approaches the nominal one in the long run. Means and variances do not change. The frame has the new
        rows, and before them `lookback + horizon` steps of earlier rows or more: no forecast is scored twice.
        """
        self.update_report(frame)
        return self

    def update_report(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Call `update`, and report the coverage of the adaptive intervals of the forecasts that came due.

        Returns:
            One row per lead time: `step`, the number of `forecasts`, and `coverage_50`, ..., the share of them that
            the intervals of then covered.
        """
        check_is_fitted(self)
        observations = self.preprocessor_.read(frame)
        return coverage_report(*self.online_.update(observations, self.preprocessor_, self._forecasts.draws))

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

    def _find_columns(self, frame: pd.DataFrame) -> SeriesColumns:
        check_choice("dayfirst", self.dayfirst, (None, True, False))
        if not (self.time_format is None or isinstance(self.time_format, str)):
            raise ValueError(f"`time_format` must be a text such as '%d.%m.%Y'. Got {self.time_format!r} instead.")
        reading = TimeReading(self.time_format, self.dayfirst)
        return find_columns(frame, self.time, self.series, self.target, self.covariates, reading)

    @property
    def targets_(self) -> list[str]:
        """Names of the columns to predict."""
        return [self.target]

    @property
    def _forecasts(self) -> WindowForecasts:
        return WindowForecasts(self)

    def _training(self, rows: int) -> dict[str, Any]:
        return {
            "max_steps": int(min(300 + rows // 2, 2000)), "batch_size": int(min(128, rows)), "learning_rate": 2e-3,
            "weight_decay": 0.5, "validate_every": 150,
        }  # fmt: skip

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return self._forecasts.state()

    def _load_state(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self._forecasts.load_state(facts, tensors)
