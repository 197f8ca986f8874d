"""Checks of the rows that a fitted forecaster is given: their step, their sizes, and targets that end early."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from nsac.estimators.observations import Observations, SeriesColumns
from nsac.estimators.steps import TimeAxis, typical_step
from nsac.estimators.times import restore_times

MIN_COMPARED_GAPS, MAX_GAP_FACTOR = 4, 1.5
"""Rows are of another step if so many gaps or more differ by more than this factor from those of the training rows."""
MAX_STANDARDISED = 1e30  # standard deviations from the mean; forecasts from a larger number may be infinite
MIN_KNOWN_SHARE = 0.8  # of the targets of a window, below which a model of complete windows may be overconfident
FAR = 30.0  # standard deviations from the mean from which on a number is likely to be wrong
INNER_SHARE, INNER_WIDTH = 0.9, 3.29  # share of the values in the middle, and its width in standard deviations


def gap_range(observations: Observations) -> tuple[float, float]:
    """Smallest median gap, and largest smallest gap, of the series: rows of any of them lie between."""
    gaps, codes = _gaps(observations)
    medians, smallest = pd.Series(gaps).groupby(codes).agg(["median", "min"]).to_numpy(dtype=float).T
    return float(medians.min()), float(smallest.max())


def check_gaps(
    observations: Observations, axis: TimeAxis, gaps: tuple[float, float], irregular: bool, time: str
) -> None:
    """Refuse rows that are farther apart, or closer, than those of any series in training; `gaps` is their range."""
    given, _ = _gaps(observations)
    if len(given) < MIN_COMPARED_GAPS:
        return
    finest, coarsest = gaps
    expected = None
    if given.min() > MAX_GAP_FACTOR * max(coarsest, axis.step):  # otherwise rows may be missing
        expected = coarsest
    elif not irregular and np.median(given) * MAX_GAP_FACTOR < finest:
        expected = finest
    if expected is not None:
        fitted, found = axis.describe(expected), axis.describe(typical_step(observations.times, observations.codes))
        raise ValueError(
            f"Rows must be {fitted} apart, as in `fit`. In column {time!r} they are {found} apart. Resample them, "
            "or fit another model to such rows."
        )


def check_sizes(observations: Observations, names: list[str], offset: np.ndarray, scale: np.ndarray) -> None:
    """Refuse numbers that are too far from those of the training rows for finite forecasts; warn of far ones."""
    for i, name in enumerate(names):
        sizes = np.abs(observations.values[:, i] - offset[i]) / scale[i]
        if np.nanmax(sizes, initial=0.0) > MAX_STANDARDISED:
            value = observations.values[np.nanargmax(sizes), i]
            raise ValueError(
                f"Column {name!r} must hold numbers within {MAX_STANDARDISED:g} standard deviations of the training "
                f"rows. Got {value:g} instead. Choose the unit of `fit`, or make it NaN."
            )
        warn_far(name, observations.values[:, i], offset[i], scale[i])


def warn_far(name: str, values: np.ndarray, centre: float, std: float) -> None:
    """Warn of numbers of a column far from its usual ones: an error code among them ruins forecasts."""
    far = np.abs(values - centre) > FAR * std  # never true of NaN
    if far.any():
        what = "1 value" if far.sum() == 1 else f"{far.sum()} values"
        warnings.warn(
            f"Column {name!r} has {what} far from the others, such as {values[far][0]:g}; {centre - 2 * std:.4g} to "
            f"{centre + 2 * std:.4g} is usual. Forecasts that depend on it are not reliable. If it is an error code, "
            "make it NaN: values may be missing.",
            stacklevel=5,
        )


def warn_far_training(name: str, values: np.ndarray) -> None:
    """The same for training rows: what is usual is measured by the middle of the column."""
    known = values[np.isfinite(values)]
    if len(known):
        centre, std = usual_range(known)
        if std > 0:
            warn_far(name, known, centre, std)


def usual_range(values: np.ndarray) -> tuple[float, float]:
    """Median, and standard deviation of a normal distribution with the same middle: both are robust."""
    low, centre, high = np.quantile(values, [(1 - INNER_SHARE) / 2, 0.5, (1 + INNER_SHARE) / 2])
    return float(centre), float(high - low) / INNER_WIDTH


def warn_incomplete(known: np.ndarray, lookback: int, columns: SeriesColumns, names: Sequence[Any]) -> None:
    """Warn of windows with few known targets, for a model of complete ones; `known` counts them, (series,)."""
    least = int(known.argmin())
    if known[least] < MIN_KNOWN_SHARE * lookback:
        whose = repr(columns.target) if columns.series is None else f"{columns.target!r} in series {names[least]!r}"
        warnings.warn(
            f"{known[least]} of the {lookback} values of {whose} before the forecast are known, and the model was "
            "fitted to complete ones: intervals may be too narrow. Pass more rows, or fit the model to rows of which "
            "some are missing.",
            stacklevel=5,
        )


def warn_known_future(observations: Observations, columns: SeriesColumns, axis: TimeAxis, horizon: int) -> None:
    """Warn of rows at the end of a series that have values of covariates and no target."""
    values = observations.values
    stops = np.append(np.flatnonzero(np.diff(observations.codes)) + 1, len(values))
    for series, stop in enumerate(stops):
        start = stops[series - 1] if series else 0
        known = np.flatnonzero(np.isfinite(values[start:stop, 0]))
        first = start + known[-1] + 1 if len(known) else stop
        if np.isfinite(values[first:stop, 1:]).any():
            whose = "" if columns.series is None else f" of series {observations.names[series]!r}"
            ahead = observations.last[series] + np.array([1, horizon]) * axis.step
            begin, end = restore_times(axis.times(ahead), observations.time_dtype)
            warnings.warn(
                f"The last {stop - first} rows{whose} have values of covariates but no {columns.target!r}. Future "
                f"values of covariates are not used: the forecasts are those from {begin} to {end}, after these rows. "
                f"Drop these rows to forecast from the last known {columns.target!r} on.",
                stacklevel=5,
            )
            return


def _gaps(observations: Observations) -> tuple[np.ndarray, np.ndarray]:
    same = np.diff(observations.codes) == 0
    return np.diff(observations.times)[same], observations.codes[1:][same]
