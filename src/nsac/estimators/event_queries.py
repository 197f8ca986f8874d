"""What a forecaster of events is asked for: origins of the series, and times after them."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nsac.estimators.event_frames import NANOSECONDS, EventFrame
from nsac.estimators.event_rows import target_events
from nsac.estimators.times import read_at, restore_times

if TYPE_CHECKING:
    from nsac.estimators.forecasting import AbstractForecaster

ROUNDING = 1e-9  # of the horizon
MIN_ROWS_WITHOUT_TARGET, USUAL_GAPS = 3, 3.0
"""Rows without a target at the end of a series, and its median gaps between targets, from which on a warning tells."""
MIN_SMALL_VALUES, SMALL = 10, 0.05
"""Values of a series whose variation is compared, and the share of the typical one below which it is surprising."""


def ask(
    frame: EventFrame, model: "AbstractForecaster", at: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Origin of each series, series and times of all queries, sorted by both, and the number of queries by series.

    With known-future columns the origin is the last observation, and later rows are what is predicted. Otherwise it is
    the last row. `at` are the times to predict in every series; by default those rows, or else the steps after it. The
    last step is no later than the horizon, if that is a duration.
    """
    columns, count = model.columns_, len(frame.names)
    channels = len(columns.targets) + len(columns.covariates)
    origins = frame.origins(channels if columns.known_future else None)
    if at is not None:
        times = np.unique(read_at(at, model.axis_.dtype, columns.reading))
        series, times = np.repeat(np.arange(count), len(times)), np.tile(times, count)
    else:
        ahead = frame.row_times > origins[frame.row_series]
        series, times = frame.row_series[ahead], frame.row_times[ahead]
        others = np.setdiff1d(np.arange(count), series)
        steps = np.arange(1, model.horizon_ + 1) * model.step_
        axis, last = model.axis_, _end(model, origins[others])
        later = axis.times(axis.nearest(axis.positions(origins[others]))[:, None] + steps)
        kept = np.ones_like(later, dtype=bool)
        if axis.calendar is not None:  # a horizon of 2 days has one business day or none, if it begins on a Thursday
            kept[:, 1:] = later[:, 1:] <= last[:, None]
        series = np.concatenate([series, np.repeat(others, kept.sum(1))])
        times = np.concatenate([times, np.minimum(later, last[:, None])[kept]])
        order = np.lexsort([times, series])
        series, times = series[order], times[order]
    _check_leads(frame, model, origins, series, times)
    return origins, series, times, np.bincount(series, minlength=count)


def _end(model: "AbstractForecaster", origins: np.ndarray) -> np.ndarray:
    """The end of the horizon of each origin."""
    if origins.dtype == np.int64:
        return origins + round(model.events_.horizon * NANOSECONDS)
    return origins + model.events_.horizon


def _check_leads(
    frame: EventFrame, model: "AbstractForecaster", origins: np.ndarray, series: np.ndarray, times: np.ndarray
) -> None:
    first, last = origins[series], _end(model, origins)[series]
    rounding = ROUNDING * model.events_.horizon if times.dtype == np.float64 else 0
    bad = (times <= first) | (times > last + rounding)
    if not bad.any():
        return
    which = int(np.argmax(bad))
    begin, end, given = restore_times(np.array([first[which], last[which], times[which]]), frame.time_dtype)
    raise ValueError(
        f"Times to predict{_of_series(frame, model, series[which])} must be after {begin}, the forecast origin, and no "
        f"later than {end}, the end of the horizon. Got {given} instead. Drop such rows, pass other times as `at`, or "
        "fit with a longer `horizon`."
    )


def warn_short_future(frame: EventFrame, model: "AbstractForecaster", origins: np.ndarray) -> None:
    """Warn if rows to predict end a step or more before the horizon does: no other times are predicted."""
    last, axis = frame.origins(None), model.axis_
    before_last_step = axis.nearest(axis.positions(origins)) + (model.horizon_ - 1) * model.step_
    short = (last > origins) & (axis.positions(last) <= before_last_step)
    if not short.any():
        return
    which = int(np.argmax(short))
    rows = int((frame.row_times[frame.row_series == which] > origins[which]).sum())
    times = np.array([origins[which], last[which], _end(model, origins)[which]])
    begin, stop, end = restore_times(times, frame.time_dtype)
    warnings.warn(
        f"Forecasts{_of_series(frame, model, which)} are only for {'1 row' if rows == 1 else f'{rows} rows'} after the "
        f"forecast origin, {begin}: they end at {stop}, and the horizon at {end}{_others(short)}. Add rows, or pass "
        "other times as `at`.",
        stacklevel=5,
    )


def warn_unobserved(frame: EventFrame, model: "AbstractForecaster", origins: np.ndarray) -> None:
    """Warn if no target of a series was observed within the lookback: its forecasts hardly depend on the series."""
    targets, lookback = target_events(frame, model.columns_), model.events_.lookback
    last = np.full(len(origins), -np.inf)
    last[targets.series] = frame.clock(targets.times)  # ascending within a series: the last one stays
    age = frame.clock(origins) - last
    old = age >= lookback
    if not old.any():
        return
    which = int(np.argmax(old))
    origin = restore_times(origins[[which]], frame.time_dtype)[0]
    last_one = "there is none before" if np.isinf(age[which]) else f"the last is {frame.describe(age[which])} old"
    warnings.warn(
        f"No observation of a target{_of_series(frame, model, which)} lies within the lookback, "
        f"{frame.describe(lookback)}, before the forecast origin, {origin}: {last_one}{_others(old)}. Forecasts fall "
        "back on the typical series of the training data.",
        stacklevel=5,
    )


def warn_without_target(frame: EventFrame, model: "AbstractForecaster", origins: np.ndarray) -> None:
    """Warn of rows without a target at the end of a series, if its targets are usually closer.

    If there is none within the lookback, `warn_unobserved` tells.
    """
    targets = target_events(frame, model.columns_)
    clock, first = frame.clock(targets.times), np.searchsorted(targets.series, np.arange(len(origins) + 1))
    for series, origin in enumerate(frame.clock(origins)):
        times = np.unique(clock[first[series] : first[series + 1]])
        if len(times) < 2 or origin - times[-1] >= model.events_.lookback:
            continue
        rows = frame.row_series == series
        rows &= (frame.row_times <= origins[series]) & (frame.clock(frame.row_times) > times[-1])
        if rows.sum() >= MIN_ROWS_WITHOUT_TARGET and origin - times[-1] > USUAL_GAPS * np.median(np.diff(times)):
            begin = restore_times(origins[[series]], frame.time_dtype)[0]
            warnings.warn(
                f"The last {rows.sum()} rows{_of_series(frame, model, series)} have no target: forecasts begin after "
                f"{begin}, the last of them, and intervals are wider. Drop these rows to forecast from the last target "
                "on, or name what is known of the future as `known_future`, with all other columns empty.",
                stacklevel=5,
            )
            return


def warn_small(frame: EventFrame, model: "AbstractForecaster") -> None:
    """Warn of a series that varies far less than is typical of its size: it may have another unit.

    Its values must span the lookback: for a shorter time, any series may hardly vary.
    """
    scale = model.events_.scale
    for i, name in enumerate(model.columns_.targets):
        own = frame.events.where(frame.events.column == i)
        count = np.bincount(own.series, minlength=len(frame.names))
        first, last = np.full((2, len(frame.names)), np.nan)
        clock = frame.clock(own.times)  # ascending within a series
        first[own.series[::-1]], last[own.series] = clock[::-1], clock
        mean = np.bincount(own.series, own.values, len(frame.names)) / np.maximum(count, 1)
        square = np.bincount(own.series, (own.values - mean[own.series]) ** 2, len(frame.names))
        std = np.sqrt(square / np.maximum(count, 1))
        typical = scale.typical_std(torch.from_numpy(mean).unsqueeze(-1))[:, i].numpy()
        known = (count >= MIN_SMALL_VALUES) & (last - first >= model.events_.lookback)
        small = known & (std > 0) & (std < SMALL * typical)
        if small.any():
            which = int(np.argmax(small))
            warnings.warn(
                f"Values of {name!r}{_of_series(frame, model, which)} have a standard deviation of {std[which]:.3g}, "
                f"and {typical[which]:.3g} is typical of the training data{_others(small)}: intervals may be far too "
                "wide. If the unit is not that of `fit`, convert the values.",
                stacklevel=5,
            )


def _of_series(frame: EventFrame, model: "AbstractForecaster", series: int) -> str:
    return "" if model.columns_.series is None else f" of series {frame.names[series]!r}"


def _others(found: np.ndarray) -> str:
    """That something holds for more series than the one named, for messages."""
    others = int(found.sum()) - 1
    return f"; likewise in {others} other series" if others else ""
