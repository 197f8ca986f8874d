"""Forecasts in continuous time: the encoding of irregular and sparse series, several targets, and known attributes."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac._torch import single_threaded
from nsac.estimators.backtesting import ScoredForecasts
from nsac.estimators.base import join
from nsac.estimators.event_calibration import (
    SHARED_CORRELATION,
    SHARED_ERRORS,
    EventCalibration,
    shared_correlation,
    trust_of,
)
from nsac.estimators.event_frames import NANOSECONDS, EventColumns, EventFrame, read_events
from nsac.estimators.event_online import EventStream
from nsac.estimators.event_queries import ask, warn_short_future, warn_small, warn_unobserved, warn_without_target
from nsac.estimators.event_rows import (
    MAX_TRAINING_QUERIES,
    Origins,
    RowMaker,
    draw_origins,
    fewer_origins,
    split_origins,
    target_events,
)
from nsac.estimators.event_scaling import SeriesScale
from nsac.estimators.event_scores import scored_events
from nsac.estimators.event_shrinkage import shrink_changes
from nsac.estimators.event_state import load_maker, maker_state
from nsac.estimators.new_rows import warn_far, warn_far_training
from nsac.estimators.samples import joint_samples, normal_scores
from nsac.estimators.steps import TimeAxis, count_steps, detect_cycles, parse_duration
from nsac.estimators.times import describe_times, restore_times
from nsac.estimators.windows import MIN_WINDOWS, WindowShape
from nsac.methods import AbstractMethod, EventsProblem
from nsac.training import EventsData
from nsac.training.data import batches
from nsac.uncertainty import Prediction, prediction_columns

if TYPE_CHECKING:
    from nsac.estimators.forecasting import AbstractForecaster

MIN_LEVEL_SERIES = 8  # training series from which on a model sees where the offset of a series lies among them
ONLINE = "online."  # prefix of the names of its tensors in a file
PREDICTION_BATCH = 256  # origins predicted at a time


@dataclass(frozen=True)
class Answers:
    """Predictions of all queries of some rows, one after the other, (n,) each but `channels`."""

    prediction: Prediction  # in units of the series, not calibrated
    offset: Tensor  # and how to take it to the unit of the target
    scale: Tensor
    target: Tensor  # number of the target
    lead: Tensor  # lead time
    row: Tensor  # number of the origin
    y: Tensor  # observed values in the unit of the target; NaN where there is none
    channels: Tensor  # (rows, channels), number of observations of a channel within the lookback; NaN: none


class EventForecasts:
    """How a forecaster with `encoding_="events"` fits and predicts; its state is that of the forecaster."""

    def __init__(self, forecaster: "AbstractForecaster"):
        self.model = forecaster

    def fit(self, frame: pd.DataFrame, columns: EventColumns, members: int, seed: int) -> None:
        """Fit and calibrate, and set the fitted attributes of the forecaster."""
        model, random = self.model, np.random.default_rng(seed)
        events = read_events(frame, columns)
        _check_targets(events, columns)
        for i, name in enumerate(columns.channels):
            warn_far_training(name, events.events.of_column(i))
        axis = TimeAxis.find(model.step, events.row_times, events.row_series, events.time_dtype)
        unit = NANOSECONDS if events.row_times.dtype == np.int64 else 1.0
        step = axis.mean_step / unit
        model.lookback_ = count_steps("lookback", model.lookback, axis)
        model.horizon_ = count_steps("horizon", model.horizon, axis)
        lookback = _length("lookback", model.lookback, axis, unit)
        horizon = _length("horizon", model.horizon, axis, unit)
        origins = draw_origins(events, columns, lookback, horizon, step, random)
        if len(origins) < MIN_WINDOWS:
            raise ValueError(
                f"`frame` must have at least {MIN_WINDOWS} observations that are followed by a target within the "
                f"horizon. Got {len(origins)} instead. Pass more rows, or a longer `horizon`."
            )
        splits = split_origins(events, origins, members, WindowShape(model.lookback_, model.horizon_), step, random)
        cycles = detect_cycles(events.row_times, axis.mean_step)
        maker = _fit_maker(events, columns, origins.where(splits.rest), cycles, lookback, horizon)
        rows = maker.rows(events, origins, maker.observed_queries(events, origins), torch.float32)
        # Among a few series the share of the trees would be chosen on series they know, and a new one may be asked for.
        judged = splits.by_series or len(events.names) == 1
        problem = EventsProblem(
            channels=len(columns.channels), targets=tuple(range(len(columns.targets))), static_dim=maker.static_dim,
            future_dim=maker.future_dim, time_scale=lookback, trees=judged and model.method == "nsac",
        )  # fmt: skip
        training = rows.subset(torch.arange(len(rows)), max_queries=MAX_TRAINING_QUERIES, seed=seed)
        held_out = [(train, fewer_origins(validation, training, random)) for train, validation in splits.members]
        model._fit_members(problem, training, held_out, seed, [{}])
        stream = EventStream.start(len(columns.targets))
        observed = target_events(events, columns)
        stream.remember(events, observed.series, observed.column, observed.times)
        self._keep(axis, maker, stream)
        chosen = fewer_origins(splits.calibration, rows, random)
        calibration = rows.subset(torch.from_numpy(chosen), dtype=torch.float64)
        shrink_changes(model.members_, calibration)
        self._calibrate(calibration, origins.where(chosen), splits)

    def predict(
        self, frame: pd.DataFrame, at: Any, coverages: Sequence[float], quantiles: Sequence[float]
    ) -> pd.DataFrame:
        """See `NSACForecaster.predict`."""
        model, targets = self.model, len(self.model.targets_)
        events, series, times, answers = self._ask(frame, at)
        p, cell = self.calibrated(answers)
        table: dict[str, Any] = {model.columns_.time: restore_times(np.repeat(times, targets), events.time_dtype)}
        if model.columns_.series is not None:
            names = np.array(events.names, dtype=object)
            table[model.columns_.series] = np.repeat(names[series], targets)
        if targets > 1:
            table["target"] = np.tile(np.array(model.targets_, dtype=object), len(times))
        intervals = {each: model.calibration_.interval(p, cell, each) for each in coverages}
        levels = {each: p.quantile(each) for each in quantiles}
        return pd.DataFrame(table | prediction_columns(p, intervals, levels))

    def intervals(self, frame: pd.DataFrame, coverages: Sequence[float]) -> Tensor:
        """Lower and upper bounds, (series, coverages, 2, horizon[, targets])."""
        _, series, _, answers = self._ask(frame, None)
        p, cell = self.calibrated(answers)
        bounds = [torch.stack(self.model.calibration_.interval(p, cell, each)) for each in coverages]
        return self._by_series(torch.stack(bounds), series).movedim(2, 0)

    def distribution(self, frame: pd.DataFrame) -> Prediction:
        """The calibrated mixture in the unit of the targets, (series, horizon[, targets])."""
        _, series, _, answers = self._ask(frame, None)
        p, _ = self.calibrated(answers)
        return Prediction(self._by_series(p.mean_draws, series), self._by_series(p.log_std_draws, series))

    def samples(self, frame: pd.DataFrame, num_samples: int, generator: torch.Generator) -> Tensor:
        """Joint samples, (num_samples, series, horizon[, targets])."""
        _, series, _, answers = self._ask(frame, None)
        p, _ = self.calibrated(answers)
        by_series = Prediction(*(self._by_series(each, series) for each in (p.mean_draws, p.log_std_draws)))
        shape, rows = by_series.shape, by_series.shape[0]
        flat = Prediction(by_series.mean_draws.flatten(2), by_series.log_std_draws.flatten(2))
        calibration: EventCalibration = self.model.calibration_
        target, lead = answers.target.view(rows, -1), answers.lead.view(rows, -1)
        correlation = torch.stack([calibration.correlation(*each) for each in zip(target, lead, strict=True)])
        return joint_samples(flat, correlation, num_samples, generator).view(num_samples, *shape)

    def ood_score(self, frame: pd.DataFrame) -> np.ndarray:
        """Root mean square over queries of the standardised epistemic standard deviation, (series,)."""
        events, _, _, answers = self._ask(frame, None)
        count = torch.bincount(answers.row, minlength=len(events.names)).clamp(min=1)
        total = torch.zeros(len(count), dtype=torch.float64).index_add(0, answers.row, answers.prediction.epistemic)
        return (total / count).sqrt().numpy()

    def update(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Adapt the margins to new observations, see `NSACForecaster.update_report`."""
        report = self.model.online_.update(self, self.read(frame))
        self._adapt()
        return report

    def scored(self, past: pd.DataFrame, known: pd.DataFrame, first: Any) -> ScoredForecasts:
        """Forecasts for a backtest, see `scored_events`."""
        return scored_events(self, past, known, first)

    def read(self, frame: pd.DataFrame) -> EventFrame:
        """A frame as events, its times in the zone of `fit`: the time of day is an input."""
        model = self.model
        events = read_events(frame, model.columns_)
        fitted, given = describe_times(model.axis_.dtype), describe_times(events.time_dtype)
        if given != fitted:
            raise ValueError(
                f"Time column {model.columns_.time!r} must hold {fitted}, as in `fit`. Got {given} instead."
            )
        return replace(events, time_dtype=model.axis_.dtype)

    def answers(self, rows: EventsData, members: Sequence[AbstractMethod] | None = None) -> Answers:
        """Predictions of all queries of these rows, in double precision."""
        found: list[Answers] = []
        members = self.model.members_ if members is None else members
        with single_threaded(), torch.no_grad():
            for i, batch in enumerate(batches(rows, PREDICTION_BATCH)):
                number = torch.arange(i * PREDICTION_BATCH, i * PREDICTION_BATCH + len(batch["x"]))
                asked = ~batch["query_mask"]
                p = join([member.predict(batch, self.model.num_samples) for member in members], 0)[..., 0][asked]
                offset, scale = (each[..., 0][asked] for each in rows.offset_and_scale(number))
                row = number[:, None].expand_as(asked)[asked]
                y = offset + scale * batch["y"][..., 0][asked]
                target, lead = batch["query_channel"][asked], batch["query_times"][asked]
                count = rows.moments(number, len(self.model.columns_.channels))[0][:, : self._observable]
                found.append(Answers(p, offset, scale, target, lead, row, y, count.masked_fill(count == 0, torch.nan)))
        columns = {name: torch.cat([getattr(each, name) for each in found]) for name in _COLUMNS}
        return Answers(join([each.prediction for each in found], 1), **columns)

    @property
    def _observable(self) -> int:
        """Number of channels that are not known in advance, the first ones."""
        columns = self.model.columns_
        return len(columns.targets) + len(columns.covariates)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """See `AbstractEstimator._state`."""
        model = self.model
        facts, tensors = maker_state(model.events_)
        calendar = model.axis_.calendar
        facts["calendar"] = None if calendar is None else [calendar.unit, calendar.day, calendar.time]
        facts |= {"stamps": str(model.axis_.dtype), "step": model.step_}
        seen, arrays = model.online_.to_dict()
        facts |= seen | {"lookback": model.lookback_, "horizon": model.horizon_}
        return facts, tensors | {f"{ONLINE}{name}": torch.from_numpy(each) for name, each in arrays.items()}

    def load_state(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Inverse of `state`."""
        model, problem = self.model, self.model.problem_
        assert isinstance(problem, EventsProblem)
        arrays = {n.removeprefix(ONLINE): each.numpy() for n, each in tensors.items() if n.startswith(ONLINE)}
        axis, maker = load_maker(facts, tensors, problem)
        model.lookback_ = count_steps("lookback", facts["lookback"], axis)
        model.horizon_ = count_steps("horizon", facts["horizon"], axis)
        if list(maker.columns.targets) != model.targets_:
            raise ValueError("`columns` do not fit the targets.")
        self._keep(axis, maker, EventStream.from_dict(facts, arrays, len(model.targets_)))
        self._adapt()
        patterns = model.calibration_.patterns
        if patterns is not None and len(patterns.learned) != self._observable:
            raise ValueError(f"Patterns of missing channels must have {self._observable} channels.")

    def _adapt(self) -> None:
        """Margins have the factors of the stream, if any of them has moved."""
        model, log_factor = self.model, self.model.online_.log_factor
        factor = torch.from_numpy(np.exp(log_factor)) if log_factor.any() else None
        model.calibration_ = replace(model.calibration_, factor=factor)

    def _keep(self, axis: TimeAxis, maker: RowMaker, stream: EventStream) -> None:
        model = self.model
        model.online_ = stream
        model.columns_, model.step_, model.cycles_ = maker.columns, axis.step, maker.cycles
        model.events_, model.axis_, model.irregular_ = maker, axis, True

    def _calibrate(self, rows: EventsData, origins: Origins, splits: Any) -> None:
        model = self.model
        answers = self.answers(rows)
        known = ~answers.y.isnan()
        p, y = answers.prediction[known], ((answers.y - answers.offset) / answers.scale)[known]
        target, lead, row = answers.target[known], answers.lead[known], answers.row[known]
        groups, horizon = torch.from_numpy(origins.series)[row], model.events_.horizon
        targets, trust = len(model.targets_), 1.0 if splits.by_series else trust_of(origins.times, horizon)
        given = p, y, target, lead, groups
        calibration = EventCalibration.fit(*given, splits.by_series, targets, horizon, trust, answers.channels[row])
        scaled = calibration.apply(p, calibration.cells(target, lead, 0))
        gap = model.events_.horizon / max(1, model.horizon_)
        z = normal_scores(scaled, y)
        model.calibration_ = calibration.with_correlation(z, target, lead, row, gap)
        if splits.by_series:
            _warn_shared(z, groups.numpy(), origins.times[row.numpy()] + lead.numpy(), horizon)

    def calibrated(self, answers: Answers) -> tuple[Prediction, Tensor]:
        """Predictions in the unit of the targets, and their cells of the calibration."""
        calibration: EventCalibration = self.model.calibration_
        number = calibration.classify(answers.channels)[answers.row]
        cell = calibration.cells(answers.target, answers.lead, number)
        return calibration.apply(answers.prediction, cell).affine(answers.scale, answers.offset), cell

    def _ask(self, frame: pd.DataFrame, at: Any) -> tuple[EventFrame, np.ndarray, np.ndarray, Answers]:
        """The frame as events, series and times of the queries, (n,), and the answers, n times the targets."""
        model = self.model
        events = self.read(frame)
        scale = model.events_.scale
        for i, name in enumerate(model.columns_.channels):
            warn_far(name, events.events.of_column(i), float(scale.mean[i]), float(scale.std[i]))
        origins, series, times, count = ask(events, model, at)
        warn_unobserved(events, model, origins)
        warn_small(events, model)
        if at is None:
            warn_without_target(events, model, origins)
            warn_short_future(events, model, origins)
        clock = events.clock(origins)
        queries = model.events_.asked_queries(events, series, times, count)
        places = Origins(np.arange(len(events.names)), clock, clock)
        return events, series, times, self.answers(model.events_.rows(events, places, queries, torch.float64))

    def _by_series(self, values: Tensor, series: np.ndarray) -> Tensor:
        """Values of queries, (..., n), by series, times and targets; (..., series, times[, targets])."""
        targets, count = len(self.model.targets_), np.bincount(series)
        if (count != count[0]).any():
            raise ValueError(
                "`frame` must have the same number of rows to predict for every series. Got "
                f"{count.min()} to {count.max()} instead. Call `predict`, or pass one series at a time."
            )
        shape = (len(count), int(count[0]), targets) if targets > 1 else (len(count), int(count[0]))
        return values.view(*values.shape[:-1], *shape)


_COLUMNS = ("offset", "scale", "target", "lead", "row", "y", "channels")


def _length(name: str, value: Any, axis: TimeAxis, unit: float) -> float:
    """Lookback or horizon on the clock; of so many steps of a calendar, the longest time they take."""
    if isinstance(value, str):
        return parse_duration(name, value, axis.dtype) / unit
    return axis.longest(value) / unit


def _warn_shared(z: Tensor, series: np.ndarray, times: np.ndarray, horizon: float) -> None:
    correlation, error = shared_correlation(z, series, times, horizon)
    if correlation > max(SHARED_CORRELATION, SHARED_ERRORS * error):
        warnings.warn(
            f"Errors of different series at the same time have a correlation of {correlation:.2f}: the series share "
            "shocks, and intervals for later times may be too narrow. `backtest` measures their coverage.",
            stacklevel=5,
        )


def _check_targets(events: EventFrame, columns: EventColumns) -> None:
    for i, name in enumerate(columns.targets):
        values = events.events.values[events.events.column == i]
        if values.min() == values.max():
            raise ValueError(f"Target column {name!r} must vary. It is {values[0]:g} in every row.")


def _fit_maker(
    frame: EventFrame, columns: EventColumns, origins: Origins, cycles: list[str], lookback: float, horizon: float
) -> RowMaker:
    """Statistics of the training observations: those up to the last training origin of each series."""
    last = np.full(len(frame.names), -math.inf)
    np.maximum.at(last, origins.series, origins.times)
    kept = frame.clock(frame.events.times) <= last[frame.events.series]
    events = frame.events.where(kept)
    channels, known = len(columns.channels), len(columns.known_future)
    scale = SeriesScale.fit(events.values, events.column, events.series, channels)
    known_mean, known_std = np.zeros(known), np.ones(known)
    for i in range(known):
        values = events.values[events.column == channels - known + i]
        if len(values):
            known_mean[i], known_std[i] = values.mean(), values.std() or 1.0
    static = frame.static[np.isfinite(last)]
    empty = np.isnan(static).all(0)
    static = np.where(empty, 0.0, static)
    static_std = np.nanstd(static, 0)
    return RowMaker(
        columns, cycles, lookback, horizon, scale, known_mean, known_std, np.nanmean(static, 0),
        np.where(static_std > 0, static_std, 1.0), int(np.isfinite(last).sum()) >= MIN_LEVEL_SERIES,
    )  # fmt: skip
