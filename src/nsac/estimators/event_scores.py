"""Forecasts of events beside observed values and baselines, for backtests and evaluations."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac.estimators.backtesting import HALF_MEAN, ScoredForecasts
from nsac.estimators.event_frames import EventFrame, read_events
from nsac.estimators.event_rows import Origins, RowMaker, target_events
from nsac.estimators.steps import CYCLES
from nsac.estimators.windows import subsample
from nsac.methods import METHODS
from nsac.training import cut_origins
from nsac.uncertainty import Prediction

if TYPE_CHECKING:
    from nsac.estimators.event_forecasts import Answers, EventForecasts

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
    events = read_events(known, model.columns_)
    origins = _origins(events, maker, first)
    if not len(origins):
        raise ValueError(
            f"`frame` must hold observations that are followed by a value of {', '.join(model.targets_)} within the "
            f"horizon. Got none in {len(known)} rows."
        )
    origins = origins.where(subsample(np.arange(len(origins)), max_origins))
    rows = maker.rows(events, origins, maker.observed_queries(events, origins), torch.float64)
    answers = forecasts.answers(rows)
    p, cell = forecasts._calibrated(answers)
    lower, upper = model.calibration_.interval(p, cell, 0.9)
    earlier = read_events(past, model.columns_)
    before = _origins(earlier, maker, None)
    before = before.where(subsample(np.arange(len(before)), max_origins))
    past_rows = maker.rows(earlier, before, maker.observed_queries(earlier, before), torch.float64)
    baselines = {}
    for name in BASELINES:
        method: Any = METHODS[name](model.problem_).double()  # pyright: ignore[reportCallIssue]
        method.solve(past_rows, past_rows)
        found = forecasts.answers(rows, [method])
        baselines[name] = found.prediction.affine(found.scale, found.offset)
    seasonal = _seasonal(forecasts, events, origins, answers, baselines["persistence"])
    if seasonal is not None:
        baselines["seasonal"] = seasonal
    series = origins.series[answers.row.numpy()]
    step = maker.horizon / model.horizon_
    lead = np.clip(np.ceil(answers.lead.numpy() / step - 1e-6), 1, model.horizon_).astype(np.int64)
    targets = np.array(model.targets_, dtype=object)[answers.target.numpy()]
    names = np.array(events.names, dtype=object)[series]
    times = events.times(origins.times[answers.row.numpy()] + answers.lead.numpy())
    return ScoredForecasts(answers.y, p, lower, upper, baselines, names, lead, targets, times)


def _origins(events: EventFrame, maker: RowMaker, first: Any) -> Origins:
    """Observations that are followed by a target within the horizon; all that follows is from `first` on."""
    channels = len(maker.columns.targets) + len(maker.columns.covariates)
    seen = events.events.where(events.events.column < channels)
    clock = events.clock(seen.times)
    new = np.append(True, (np.diff(seen.series) != 0) | (np.diff(clock) != 0))
    series, times = seen.series[new], clock[new]
    if first is not None:
        start = float(events.clock(np.array([first]))[0])
        following = np.append(times[1:], np.inf)
        last = np.append(np.diff(series) != 0, True)
        chosen = (times >= start) | (~last & (following >= start))
        series, times = series[chosen], times[chosen]
    targets = target_events(events, maker.columns)
    _, _, begin, end = cut_origins(targets.series, events.clock(targets.times), series, times, 0.0, maker.horizon)
    kept = (end > begin).numpy()
    return Origins(series[kept], times[kept], times[kept])


def _seasonal(
    forecasts: "EventForecasts", events: EventFrame, origins: Origins, answers: "Answers", persistence: Prediction
) -> Prediction | None:
    """The value one cycle before, or a multiple that was observed; None if there is no cycle or hardly such a value.

    Its standard deviation is that of its errors in units of the series; without such a value it is persistence.
    """
    cycles = forecasts.model.cycles_
    if not cycles:
        return None
    length = CYCLES[cycles[0]] / 1e9
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
    known = ~np.isnan(value)
    if known.mean() < MIN_SEASONAL:
        return None
    mean = torch.from_numpy(np.where(known, value, persistence.mean.numpy()))
    error = ((answers.y - mean) / answers.scale).square()
    std = _rms_by_target(error, answers.target, len(forecasts.model.targets_))[answers.target] * answers.scale
    return Prediction.gaussian(mean, std.clamp(min=1e-12))


def _rms_by_target(square: Tensor, target: Tensor, targets: int) -> Tensor:
    zero, known = torch.zeros(targets, dtype=torch.float64), ~square.isnan()
    total = zero.index_add(0, target[known], square[known])
    return (total / zero.index_add(0, target[known], torch.ones_like(square[known])).clamp(min=1)).sqrt()
