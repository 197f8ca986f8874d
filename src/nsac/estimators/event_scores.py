"""Forecasts of events beside observed values and baselines, for backtests and evaluations."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac.estimators.backtesting import HALF_MEAN, ScoredForecasts
from nsac.estimators.event_frames import EventFrame
from nsac.estimators.event_rows import Origins, RowMaker, target_events
from nsac.estimators.steps import CYCLES
from nsac.estimators.windows import subsample
from nsac.methods import METHODS
from nsac.training import cut_origins
from nsac.uncertainty import Prediction

if TYPE_CHECKING:
    from nsac.estimators.event_forecasts import Answers, EventForecasts
    from nsac.estimators.forecasting import AbstractForecaster

MAX_ORIGINS = 1000  # forecast origins that are scored, at most; subsampled evenly
BASELINES = ("persistence", HALF_MEAN)
MIN_SEASONAL = 0.5  # share of the forecasts with a value about one cycle before, if that is a baseline
SEASONAL_TOLERANCE = 0.05  # a value is of one cycle before if it is this close, in cycles


def scored_events(
    forecasts: "EventForecasts", past: pd.DataFrame, known: pd.DataFrame, first: Any, max_origins: int = MAX_ORIGINS
) -> ScoredForecasts:
    """Forecasts from origins in the rows that are `known`, whose values are from `first` on (None: all).

    Standard deviations of the baselines are those of their errors in the rows that are `past`.
    """
    model, maker = forecasts.model, forecasts.model.events_
    events = forecasts.read(known)
    origins = scored_origins(events, maker, first)
    if not len(origins):
        raise ValueError(
            f"`frame` must hold observations that are followed by a value of {', '.join(model.targets_)} within the "
            f"horizon. Got none in {len(known)} rows."
        )
    origins = origins.where(subsample(np.arange(len(origins)), max_origins))
    rows = maker.rows(events, origins, maker.observed_queries(events, origins), torch.float64)
    answers = forecasts.answers(rows)
    p, cell = forecasts.calibrated(answers)
    lower, upper = model.calibration_.interval(p, cell, 0.9)
    earlier = forecasts.read(past)
    before = scored_origins(earlier, maker, None)
    before = before.where(subsample(np.arange(len(before)), max_origins))
    past_rows = maker.rows(earlier, before, maker.observed_queries(earlier, before), torch.float64)
    baselines = {}
    for name in BASELINES:
        method: Any = METHODS[name](model.problem_).double()  # pyright: ignore[reportCallIssue]
        method.solve(past_rows, past_rows)
        found = forecasts.answers(rows, [method])
        baselines[name] = found.prediction.affine(found.scale, found.offset)
    if model.cycles_:
        value = _one_cycle_before(forecasts, events, origins, answers)
        if value.isnan().double().mean() <= 1 - MIN_SEASONAL:
            found = forecasts.answers(past_rows, [method])  # of a baseline, for times, targets and units
            error = (found.y - _one_cycle_before(forecasts, earlier, before, found)) / found.scale
            std = _rms_by_target(error.square(), found.target, len(model.targets_))[answers.target] * answers.scale
            mean = torch.where(value.isnan(), baselines["persistence"].mean, value)
            baselines["seasonal"] = Prediction.gaussian(mean, std.clamp(min=1e-12))
    series = origins.series[answers.row.numpy()]
    targets = np.array(model.targets_, dtype=object)[answers.target.numpy()]
    names = np.array(events.names, dtype=object)[series]
    begins = events.times(origins.times[answers.row.numpy()])
    times = events.times(origins.times[answers.row.numpy()] + answers.lead.numpy())
    lead = lead_steps(model, begins, times, answers.lead.numpy())
    kept = torch.from_numpy(lead <= model.horizon_)  # fewer steps of a calendar may take longer
    values = answers.y[kept], p[kept], lower[kept], upper[kept], {name: each[kept] for name, each in baselines.items()}
    return ScoredForecasts(*values, *(each[kept.numpy()] for each in (names, lead, targets, times)))


def lead_steps(model: "AbstractForecaster", origins: np.ndarray, times: np.ndarray, lead: np.ndarray) -> np.ndarray:
    """Lead times as whole steps; `lead` is that on the clock."""
    axis = model.axis_
    if axis.calendar is None:
        step = model.events_.horizon / model.horizon_
        return np.clip(np.ceil(lead / step - 1e-6), 1, model.horizon_).astype(np.int64)
    ahead = axis.nearest(axis.positions(times)) - axis.nearest(axis.positions(origins))
    return np.maximum(np.ceil(ahead / axis.step - 1e-6), 1).astype(np.int64)


def scored_origins(events: EventFrame, maker: RowMaker, first: Any) -> Origins:
    """Observations that are followed by a target within the horizon; all that follows is from `first` on."""
    channels = len(maker.columns.targets) + len(maker.columns.covariates)
    seen = events.events.where(events.events.column < channels)
    clock = events.clock(seen.times)
    new = np.append(True, (np.diff(seen.series) != 0) | (np.diff(clock) != 0))[: len(clock)]
    series, times = seen.series[new], clock[new]
    if first is not None:
        start = float(events.clock(np.array([first]))[0])
        following = np.append(times[1:], np.inf)[: len(times)]
        last = np.append(np.diff(series) != 0, True)[: len(series)]
        chosen = (times >= start) | (~last & (following >= start))
        series, times = series[chosen], times[chosen]
    targets = target_events(events, maker.columns)
    _, _, begin, end = cut_origins(targets.series, events.clock(targets.times), series, times, 0.0, maker.horizon)
    kept = (end > begin).numpy()
    return Origins(series[kept], times[kept], times[kept])


def _one_cycle_before(forecasts: "EventForecasts", events: EventFrame, origins: Origins, answers: "Answers") -> Tensor:
    """The value one cycle of the calendar before, or a multiple that was observed, (n,); NaN if there is none."""
    length = CYCLES[forecasts.model.cycles_[0]] / 1e9
    targets = target_events(events, forecasts.model.columns_)
    clock = events.clock(targets.times)
    lead, row = answers.lead.numpy(), answers.row.numpy()
    asked = origins.times[row] + lead - length * np.ceil(lead / length)
    value = np.full(len(lead), np.nan)
    for series in np.unique(targets.series):
        for target in range(len(forecasts.model.targets_)):
            own = (targets.series == series) & (targets.column == target)
            mine = (origins.series[row] == series) & (answers.target.numpy() == target)
            if not own.any() or not mine.any():
                continue
            times, values = clock[own], targets.values[own]
            right = np.clip(np.searchsorted(times, asked[mine]), 1, len(times) - 1) if len(times) > 1 else 0
            left = np.maximum(np.asarray(right) - 1, 0)
            nearer = np.where(np.abs(times[left] - asked[mine]) <= np.abs(times[right] - asked[mine]), left, right)
            visible = times[nearer] <= origins.times[row][mine]
            close = np.abs(times[nearer] - asked[mine]) <= SEASONAL_TOLERANCE * length
            value[mine] = np.where(visible & close, values[nearer], np.nan)
    return torch.from_numpy(value)


def _rms_by_target(square: Tensor, target: Tensor, targets: int) -> Tensor:
    zero, known = torch.zeros(targets, dtype=torch.float64), ~square.isnan()
    total = zero.index_add(0, target[known], square[known])
    return (total / zero.index_add(0, target[known], torch.ones_like(square[known])).clamp(min=1)).sqrt()
