"""Forecasts of irregularly sampled time series with missing values, several steps ahead."""

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from sklearn.utils import check_random_state, deprecated
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nsac._checks import check_choice, check_int, probabilities
from nsac._torch import single_threaded
from nsac.estimators.base import AbstractEstimator, targets_of
from nsac.estimators.evaluation import HistoricalForecasts, backtest, historical_forecasts
from nsac.estimators.new_rows import warn_known_future
from nsac.estimators.observations import Observations, SeriesColumns, find_columns
from nsac.estimators.online import OnlineCalibration, absolute_scores, coverage_report
from nsac.estimators.outages import add_outages, ages, fit_outage_scale, read_outage_scale, stretch, warn_outage
from nsac.estimators.preprocessing import SeriesPreprocessor, prepare
from nsac.estimators.steps import interpolate_steps, lead_times
from nsac.estimators.times import TimeReading, restore_times
from nsac.estimators.window_models import LeadFeatures, WindowModels
from nsac.estimators.windows import WindowShape
from nsac.methods import WindowProblem
from nsac.training import WindowData
from nsac.uncertainty import Calibration, Prediction, prediction_columns

COMPONENTS = "components."  # prefix of the names of their tensors in a file


class NSACForecaster(AbstractEstimator):
    """Forecasts with calibrated uncertainty, from a frame with a time column.

    Observation times may be irregular and values missing: every row goes to the nearest slot of a regular grid (rows
    that share a slot are averaged), and empty slots are missing values. The model predicts the change of the target
    from its last known value. Time of day, of week and of year are inputs if the series spans such a cycle twice.

    The latest tenth of the windows, at most 2000, is the calibration set. Each member of the ensemble trains on the
    other windows except for one block of time, its validation set; together they predict as one mixture.

    Args:
        horizon: steps to predict.
        lookback: steps that a forecast is made from.
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
        irregular_: whether the time between an observation and its slot is an input.
        components_: linear regression and trees beside the members, and the weights of all; None for methods other
            than `"nsac"`, and in model folders of earlier versions.
        outage_scale_: factors on the standard deviation after an outage, by the age of the last known value.
        preprocessor_: turns frames into windows, and predictions into the unit of the target.
        online_, stream_: adaptive margins, see `update`.
    """

    kind: ClassVar[str] = "windows"
    problem_: WindowProblem

    def __init__(
        self,
        horizon: int = 24,
        lookback: int = 48,
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
        for name in ("horizon", "lookback", "members"):
            check_int(name, getattr(self, name))
        members: Any = self._n_members()
        shape = WindowShape(self.lookback, self.horizon)
        columns = self._find_columns(frame)
        data = prepare(frame, columns, self.step, shape)
        splits = shape.member_splits(data.rest, data.times, members)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        random = np.random.default_rng(seed)
        windows, splits = add_outages(data.windows, splits, random)
        self._fit_members(data.problem, windows, splits, seed, [{}])
        with single_threaded():
            self.components_, recipe = None, None
            if self.method == "nsac":
                features = LeadFeatures.of(data.preprocessor)
                fitted = data.problem, features, windows, splits, self.members_, self.num_samples, seed
                self.components_, recipe = WindowModels.fit(*fitted)
            p = self._combine(data.calibration)
            self.calibration_ = Calibration.fit(p, targets_of(data.calibration))
            self.outage_scale_ = fit_outage_scale(self._combine, data.calibration, self.calibration_.scale, random)
            scores = absolute_scores(data.calibration, stretch(p, self.outage_scale_, ages(data.calibration)))
            if self.components_ is not None and recipe is not None:
                self.components_ = self.components_.refit(recipe, windows, seed)
        self._keep(data.preprocessor, OnlineCalibration.start(scores, data.observations))
        return self

    def predict(self, frame: pd.DataFrame, at: Any = None, coverage: float | Sequence[float] = 0.9) -> pd.DataFrame:
        """Forecast the steps after the last row of each series; warn if its latest targets are missing.

        Args:
            frame: at least the latest rows, `lookback` steps if possible; earlier ones do not matter.
            at: times to forecast instead, after the last row and within the horizon. Between steps forecasts are
                interpolated, from the last known value on.
            coverage: of the interval; 0.9 makes the columns `lower_90` and `upper_90`. Several are allowed.

        Returns:
            One row per step (and series): the time, the series, `mean`, `std`, `aleatoric` and `epistemic` variance
            (std^2 is their sum), and the bounds of the intervals.
        """
        coverages = probabilities("coverage", coverage)
        observations, windows, p = self._predict_latest(frame)
        bounds = {each: self._interval(windows, p, each) for each in coverages}
        p = self.preprocessor_.prediction_in_unit(windows, self.calibration_.apply(p))
        mean, std = p.mean_draws, p.log_std_draws.exp()
        axis = self.preprocessor_.axis
        positions = observations.last[:, None] + (np.arange(1, self.horizon + 1) * self.step_)[None]
        if at is not None:
            positions, lead = lead_times(at, observations.last, axis, self.horizon, self.columns_.reading)
            start = self.preprocessor_.last_values(windows)
            between = functools.partial(interpolate_steps, lead=lead, age=ages(windows))
            mean, std = between(mean, start), between(std, torch.zeros_like(start))
            bounds = {each: [between(b, start) for b in ends] for each, ends in bounds.items()}
        times = restore_times(axis.times(positions).ravel(), observations.time_dtype)
        table: dict[str, Any] = {self.columns_.time: times}
        if self.columns_.series is not None:
            table[self.columns_.series] = np.repeat(np.array(observations.names, dtype=object), positions.shape[1])
        intervals = {each: (lower, upper) for each, (lower, upper) in bounds.items()}
        return pd.DataFrame(table | prediction_columns(Prediction(mean, std.log()), intervals))

    def predict_interval(self, frame: pd.DataFrame, coverage: float | Sequence[float] = 0.9) -> np.ndarray:
        """Lower and upper bounds of the steps after the last row of each series, (series, 2, horizon).

        For a sequence of coverages (series, coverages, 2, horizon).
        """
        coverages = probabilities("coverage", coverage)
        _, windows, p = self._predict_latest(frame)
        bounds = torch.stack([torch.stack(self._interval(windows, p, each), 1) for each in coverages], 1).numpy()
        return bounds[:, 0] if np.ndim(coverage) == 0 else bounds

    def predict_quantiles(
        self, frame: pd.DataFrame, quantiles: float | Sequence[float] = (0.1, 0.5, 0.9)
    ) -> np.ndarray:
        """Quantiles of the calibrated mixture, (series, quantiles, horizon)."""
        return self.predict_distribution(frame).quantile(np.atleast_1d(quantiles).tolist()).movedim(0, 1).numpy()

    def predict_distribution(self, frame: pd.DataFrame) -> Prediction:
        """The calibrated mixture in the unit of the target, (series, horizon)."""
        _, windows, p = self._predict_latest(frame)
        return self.preprocessor_.prediction_in_unit(windows, self.calibration_.apply(p))

    def ood_score(self, frame: pd.DataFrame) -> np.ndarray:
        """Out-of-distribution score of the latest window of each series, (series,).

        The score is the epistemic standard deviation of the standardised forecast, as a root mean square over the
        horizon. It needs a method with epistemic uncertainty, or several members.
        """
        self._check_epistemic()
        return self._predict_latest(frame)[2].epistemic.mean(1).sqrt().numpy()

    def historical_forecasts(
        self, frame: pd.DataFrame, since: Any = None, coverage: float = 0.9, max_origins: int | None = None
    ) -> HistoricalForecasts:
        """Forecasts from every row of a frame, beside the observed values; intervals are not adaptive.

        With `since`, a time, only forecasts whose steps are all from then on; with `max_origins` forecasts from so many
        rows at most, evenly subsampled.
        """
        check_is_fitted(self)
        return historical_forecasts(self, frame, since, coverage, max_origins)

    def backtest(self, frame: pd.DataFrame, folds: int = 5) -> pd.DataFrame:
        """Fit on the past and score the forecasts that follow, several times, beside baselines.

        The rows are cut into `folds + 1` blocks of equal size; fold k fits the first k and scores forecasts of block
        k + 1. The forecaster itself does not change.

        Returns:
            One row per fold and method: `mse`, `mae`, `crps`, `nll`, `coverage_90` and `width_90` in the unit of the
            target, over all lead times.
        """
        check_int("folds", folds)
        return backtest(self, frame, folds)

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
        return coverage_report(*self.online_.update(observations, self.preprocessor_, self._predict))

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

    def _keep(self, preprocessor: SeriesPreprocessor, online: OnlineCalibration) -> None:
        self.preprocessor_, self.online_, self.stream_ = preprocessor, online, online.stream
        self.columns_, self.step_, self.cycles_ = preprocessor.columns, preprocessor.axis.step, preprocessor.cycles
        self.irregular_ = preprocessor.irregular

    def _predict_latest(self, frame: pd.DataFrame) -> tuple[Observations, WindowData, Prediction]:
        """The latest windows, and the members' prediction of them, not calibrated."""
        check_is_fitted(self)
        observations = self.preprocessor_.read(frame)
        windows = self.preprocessor_.latest(observations)
        warn_known_future(observations, self.columns_, self.preprocessor_.axis, self.horizon)
        warn_outage(ages(windows), self.columns_, observations.names, learned=len(self.outage_scale_) > 1)
        return observations, windows, self._predict(windows)

    def _predict(self, windows: WindowData) -> Prediction:
        """The members' prediction, not calibrated, except for the age of the last known values."""
        return stretch(self._combine(windows), self.outage_scale_, ages(windows))

    def _combine(self, windows: WindowData) -> Prediction:
        """The mixture of the members, moved to the weighted mean of all models."""
        p = self._draws(windows)
        return p if self.components_ is None else self.components_.correct(p, windows)

    def _interval(self, windows: WindowData, p: Prediction, coverage: float) -> list[Tensor]:
        """Lower and upper bounds in the unit of the target; adaptive after an update."""
        if not self.stream_.begun:
            return self.preprocessor_.in_unit(windows, *self.calibration_.interval(p, coverage))
        half = torch.as_tensor(self.stream_.margin(coverage)) * p.std
        return self.preprocessor_.in_unit(windows, p.mean - half, p.mean + half)

    def _training(self, rows: int) -> dict[str, Any]:
        return {
            "max_steps": int(min(300 + rows // 2, 500)), "batch_size": int(min(128, rows)), "learning_rate": 2e-3,
            "weight_decay": 0.5, "validate_every": 150,
        }  # fmt: skip

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts, arrays = self.preprocessor_.to_dict()
        online_facts, online_arrays = self.online_.to_dict()
        tensors = {name: torch.as_tensor(v) for name, v in (arrays | online_arrays).items()}
        if self.components_ is not None:
            tensors |= {f"{COMPONENTS}{name}": each for name, each in self.components_.to_tensors().items()}
        return facts | online_facts, tensors | {"outage_scale": self.outage_scale_}

    def _load_state(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        shape = WindowShape(self.lookback, self.horizon)
        self.outage_scale_ = read_outage_scale(tensors.get("outage_scale"), self.lookback, self.horizon)
        preprocessor = SeriesPreprocessor.from_dict(facts, arrays, shape, self.problem_)
        others = {name.removeprefix(COMPONENTS): each for name, each in tensors.items() if name.startswith(COMPONENTS)}
        features = LeadFeatures.of(preprocessor)
        self.components_ = WindowModels.from_tensors(others, features, self.problem_) if others else None
        self._keep(preprocessor, OnlineCalibration.from_dict(facts, arrays, self.horizon))
