"""Forecasts from windows of a regular grid: the encoding of regular series."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac._checks import check_int
from nsac._torch import single_threaded
from nsac.estimators.backtesting import ScoredForecasts, scored_windows
from nsac.estimators.base import targets_of
from nsac.estimators.new_rows import warn_incomplete, warn_known_future
from nsac.estimators.observations import Observations, SeriesColumns, read_observations
from nsac.estimators.online import OnlineCalibration, absolute_scores, coverage_report
from nsac.estimators.outages import add_outages, ages, fit_outage_scale, read_outage_scale, stretch, warn_outage
from nsac.estimators.preprocessing import MANY_WINDOWS, SeriesPreprocessor, prepare
from nsac.estimators.samples import fit_correlation, joint_samples, normal_scores, read_correlation
from nsac.estimators.steps import TimeAxis, count_steps, interpolate_steps, lead_times
from nsac.estimators.times import restore_times
from nsac.estimators.window_models import LeadFeatures, WindowModels
from nsac.estimators.windows import WindowShape
from nsac.training import WindowData
from nsac.uncertainty import Calibration, Prediction, prediction_columns

if TYPE_CHECKING:
    from nsac.estimators.forecasting import AbstractForecaster


COMPONENTS = "components."  # prefix of the names of their tensors in a file


class WindowForecasts:
    """How a forecaster with `encoding_="grid"` fits and predicts; its state is that of the forecaster."""

    def __init__(self, forecaster: "AbstractForecaster"):
        self.model = forecaster

    def fit(self, frame: pd.DataFrame, columns: SeriesColumns, members: int, seed: int) -> None:
        """Fit and calibrate, and set the fitted attributes of the forecaster."""
        model = self.model
        shape = self._shape(frame, columns)
        data = prepare(frame, columns, model.step, shape)
        splits = shape.member_splits(data.rest, data.times, members)
        random = np.random.default_rng(seed)
        windows, splits = add_outages(data.windows, splits, random)
        model._fit_members(data.problem, windows, splits, seed, [{}])
        with single_threaded():
            model.components_, recipe = None, None
            if model.method == "nsac" and len(data.windows) <= MANY_WINDOWS:
                features = LeadFeatures.of(data.preprocessor, data.problem)
                given = data.problem, features, windows, splits, model.members_, model.num_samples, seed
                model.components_, recipe = WindowModels.fit(*given)
            p, y = self._combine(data.calibration), targets_of(data.calibration)
            model.calibration_ = Calibration.fit(p, y)
            model.outage_scale_ = fit_outage_scale(self._combine, data.calibration, model.calibration_.scale, random)
            p = stretch(p, model.outage_scale_, ages(data.calibration))
            model.correlation_ = fit_correlation(normal_scores(model.calibration_.apply(p), y))
            scores = absolute_scores(data.calibration, p)
            if model.components_ is not None and recipe is not None:
                model.components_ = model.components_.refit(recipe, windows, seed)
        self._keep(data.preprocessor, OnlineCalibration.start(scores, data.observations))

    def predict(
        self, frame: pd.DataFrame, at: Any, coverages: Sequence[float], quantiles: Sequence[float]
    ) -> pd.DataFrame:
        """See `NSACForecaster.predict`."""
        model = self.model
        observations, windows, p = self.latest(frame)
        bounds = {each: self._interval(windows, p, each) for each in coverages}
        p = model.preprocessor_.prediction_in_unit(windows, model.calibration_.apply(p))
        levels = {each: p.quantile(each) for each in quantiles}
        mean, std = p.mean_draws, p.log_std_draws.exp()
        axis = model.preprocessor_.axis
        positions = observations.last[:, None] + (np.arange(1, model.horizon_ + 1) * model.step_)[None]
        if at is not None:
            positions, lead = lead_times(at, observations.last, axis, model.horizon_, model.columns_.reading)
            start = model.preprocessor_.last_values(windows)
            between = functools.partial(interpolate_steps, lead=lead, age=ages(windows))

            def around(values: Tensor) -> Tensor:
                apart = values - p.mean  # before the first step, as far from the mean as there: what is seen has noise
                return between(p.mean, start) + between(apart, apart[:, 0])

            mean, std = between(mean, start), between(std, std[..., 0])
            bounds = {each: [around(b) for b in ends] for each, ends in bounds.items()}
            levels = {each: around(value) for each, value in levels.items()}
        times = restore_times(axis.times(positions).ravel(), observations.time_dtype)
        table: dict[str, Any] = {model.columns_.time: times}
        if model.columns_.series is not None:
            table[model.columns_.series] = np.repeat(np.array(observations.names, dtype=object), positions.shape[1])
        intervals = {each: (lower, upper) for each, (lower, upper) in bounds.items()}
        return pd.DataFrame(table | prediction_columns(Prediction(mean, std.log()), intervals, levels))

    def intervals(self, frame: pd.DataFrame, coverages: Sequence[float]) -> Tensor:
        """Lower and upper bounds, (series, coverages, 2, horizon)."""
        _, windows, p = self.latest(frame)
        return torch.stack([torch.stack(self._interval(windows, p, each), 1) for each in coverages], 1)

    def distribution(self, frame: pd.DataFrame) -> Prediction:
        """The calibrated mixture in the unit of the target, (series, horizon)."""
        _, windows, p = self.latest(frame)
        return self.model.preprocessor_.prediction_in_unit(windows, self.model.calibration_.apply(p))

    def samples(self, frame: pd.DataFrame, num_samples: int, generator: torch.Generator) -> Tensor:
        """Joint samples over the horizon, (num_samples, series, horizon)."""
        if self.model.correlation_ is None:
            raise ValueError(
                "`predict_samples` needs the correlation of the errors at different lead times, and the model was "
                "fitted by an earlier version, which has not learned it. Fit it again."
            )
        return joint_samples(self.distribution(frame), self.model.correlation_, num_samples, generator)

    def ood_score(self, frame: pd.DataFrame) -> np.ndarray:
        """Root mean square over the horizon of the members' standardised epistemic standard deviation, (series,)."""
        _, windows = self._latest_windows(frame)
        p = stretch(self.model._draws(windows), self.model.outage_scale_, ages(windows))
        return p.epistemic.mean(1).sqrt().numpy()

    def latest(self, frame: pd.DataFrame) -> tuple[Observations, WindowData, Prediction]:
        """The latest windows, and the members' prediction of them, not calibrated."""
        observations, windows = self._latest_windows(frame)
        return observations, windows, self.draws(windows)

    def _latest_windows(self, frame: pd.DataFrame) -> tuple[Observations, WindowData]:
        model = self.model
        observations = model.preprocessor_.read(frame)
        windows = model.preprocessor_.latest(observations)
        warn_known_future(observations, model.columns_, model.preprocessor_.axis, model.horizon_)
        warn_outage(ages(windows), model.columns_, observations.names, learned=len(model.outage_scale_) > 1)
        if not model.preprocessor_.missing:
            known = windows.known(torch.arange(len(windows))) + ages(windows)  # an outage has been learned
            warn_incomplete(known.numpy(), windows.lookback, model.columns_, observations.names)
        return observations, windows

    def draws(self, windows: WindowData) -> Prediction:
        """The members' prediction, not calibrated, except for the age of the last known values."""
        return stretch(self._combine(windows), self.model.outage_scale_, ages(windows))

    def _combine(self, windows: WindowData) -> Prediction:
        """The mixture of the members, moved to the weighted mean of all models."""
        p, others = self.model._draws(windows), self.model.components_
        return p if others is None else others.correct(p, windows)

    def update(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Adapt the margins to new observations, see `NSACForecaster.update_report`."""
        preprocessor = self.model.preprocessor_
        return coverage_report(*self.model.online_.update(preprocessor.read(frame), preprocessor, self.draws))

    def scored(self, past: pd.DataFrame, known: pd.DataFrame, first: Any) -> ScoredForecasts:
        """Forecasts for a backtest, see `scored_windows`."""
        return scored_windows(self.model, past, known, first)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """See `AbstractEstimator._state`."""
        model = self.model
        facts, arrays = model.preprocessor_.to_dict()
        online_facts, online_arrays = model.online_.to_dict()
        tensors = {name: torch.as_tensor(v) for name, v in (arrays | online_arrays).items()}
        facts |= online_facts | {"lookback": model.lookback_, "horizon": model.horizon_}
        if model.correlation_ is not None:
            tensors["correlation"] = model.correlation_
        if model.components_ is not None:
            tensors |= {f"{COMPONENTS}{name}": each for name, each in model.components_.to_tensors().items()}
        return facts, tensors | {"outage_scale": model.outage_scale_}

    def load_state(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Inverse of `state`."""
        model = self.model
        lookback, horizon = facts.get("lookback", model.lookback), facts.get("horizon", model.horizon)
        check_int("lookback", lookback)
        check_int("horizon", horizon)
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        model.outage_scale_ = read_outage_scale(tensors.get("outage_scale"), lookback, horizon)
        correlation = tensors.get("correlation")  # absent in older folders
        model.correlation_ = None if correlation is None else read_correlation(correlation, horizon)
        preprocessor = SeriesPreprocessor.from_dict(facts, arrays, WindowShape(lookback, horizon), model.problem_)
        others = {name.removeprefix(COMPONENTS): each for name, each in tensors.items() if name.startswith(COMPONENTS)}
        features = LeadFeatures.of(preprocessor, model.problem_)
        model.components_ = WindowModels.from_tensors(others, features, model.problem_) if others else None
        self._keep(preprocessor, OnlineCalibration.from_dict(facts, arrays, horizon))

    def _shape(self, frame: pd.DataFrame, columns: SeriesColumns) -> WindowShape:
        """Steps before and after an origin; durations are counted in steps of the series."""
        lookback, horizon = self.model.lookback, self.model.horizon
        if isinstance(lookback, str) or isinstance(horizon, str):
            observations = read_observations(frame, columns)
            axis = TimeAxis.find(self.model.step, observations.times, observations.codes, observations.time_dtype)
            return WindowShape(count_steps("lookback", lookback, axis), count_steps("horizon", horizon, axis))
        check_int("horizon", horizon)
        check_int("lookback", lookback)
        return WindowShape(lookback, horizon)

    def _keep(self, preprocessor: SeriesPreprocessor, online: OnlineCalibration) -> None:
        model = self.model
        model.preprocessor_, model.online_, model.stream_ = preprocessor, online, online.stream
        model.columns_, model.step_, model.cycles_ = preprocessor.columns, preprocessor.axis.step, preprocessor.cycles
        model.irregular_ = preprocessor.irregular
        model.lookback_, model.horizon_ = int(preprocessor.shape.lookback), int(preprocessor.shape.horizon)

    def _interval(self, windows: WindowData, p: Prediction, coverage: float) -> list[Tensor]:
        """Lower and upper bounds in the unit of the target; adaptive after an update."""
        model = self.model
        if not model.stream_.begun:
            return model.preprocessor_.in_unit(windows, *model.calibration_.interval(p, coverage))
        half = torch.as_tensor(model.stream_.margin(coverage)) * p.std
        return model.preprocessor_.in_unit(windows, p.mean - half, p.mean + half)
