"""Which encoding suits a series: windows of a regular grid, or events in continuous time."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from nsac.estimators.new_rows import usual_range
from nsac.estimators.observations import SeriesColumns, read_observations
from nsac.estimators.steps import GAP_TOLERANCE, MIN_WHOLE_GAPS, TimeAxis

ENCODINGS = ("auto", "events", "grid")
MAX_EMPTY_SLOTS = 0.8  # share of the slots of a grid without a value of the target, if gaps are whole steps
MAX_IRREGULAR_SLOTS, MAX_GAP_RATIO = 0.5, 2.0
"""If they are not: such a share, and the upper over the lower quartile of the gaps between values of the target."""
MAX_EMPTY_PANEL = 0.05  # the share for several series: on a grid, new ones with gaps are covered too seldom
MAX_SCALE_RATIO, ODD_SERIES = 30.0, 0.05
"""Largest over smallest standard deviation of the series on a grid, without this share of the series at each end."""


class Choice(NamedTuple):
    """An encoding, and a sentence on why it was taken."""

    encoding: str
    reason: str


def choose_encoding(
    encoding: str,
    targets: Sequence[str],
    static: Sequence[str],
    known_future: Sequence[str],
    method_takes_events: bool,
) -> Choice | None:
    """The choice that the arguments decide; None if the data has to."""
    reasons = {"several targets": len(targets) > 1, "static columns": bool(static)}
    reasons["known-future columns"] = bool(known_future)
    needs = [reason for reason, holds in reasons.items() if holds]
    if encoding == "grid" and needs:
        raise ValueError(
            f"`encoding` must be 'events' or 'auto' for {' and '.join(needs)}. Got 'grid' instead. Leave them out, or "
            "pass another `encoding`."
        )
    if encoding != "auto":
        return Choice(encoding, f"Encoding {encoding!r} was chosen by the argument `encoding`.")
    if needs:
        return Choice("events", f"Encoding 'events' was chosen for {' and '.join(needs)}.")
    if not method_takes_events:
        return Choice("grid", "Encoding 'grid' was chosen: the method takes windows only.")
    return None


def choose_by_times(frame: pd.DataFrame, columns: SeriesColumns, step: str | float | None) -> Choice:
    """The choice by the times at which the target was observed, and by the scales of several series."""
    observations = read_observations(frame, columns)
    axis = TimeAxis.find(step, observations.times, observations.codes, observations.time_dtype)
    known = np.isfinite(observations.values[:, 0])
    position = axis.nearest(axis.positions(observations.times[known]))
    gaps = (np.diff(position)[np.diff(observations.codes[known]) == 0] / axis.step).astype(np.float64)
    if not len(gaps):
        return Choice("grid", "Encoding 'grid' was chosen: no series has two observations of the target.")
    empty = float(1 - len(gaps) / np.maximum(np.rint(gaps), 1.0).sum())
    lower, upper = np.quantile(gaps, [0.25, 0.75])
    ratio = float(upper / max(lower, 1e-12))
    whole = bool((np.abs(gaps - np.rint(gaps)) < GAP_TOLERANCE).mean() >= MIN_WHOLE_GAPS)
    facts = f"{100 * empty:.0f} % of the steps of {axis.describe()} have no value, and the gaps between values are "
    facts += "whole steps" if whole else f"irregular: their quartiles differ by a factor of {ratio:.2g}"
    series = len(np.unique(observations.codes[known]))
    if series > 1 and empty > MAX_EMPTY_PANEL:
        return Choice("events", f"Encoding 'events' was chosen: there are {series} series, {facts}.")
    scales = _scale_ratio(observations.values[known, 0], observations.codes[known])
    if scales > MAX_SCALE_RATIO:
        reason = f"standard deviations of the {series} series differ by a factor of {scales:.2g}, and each has its own"
        return Choice("events", f"Encoding 'events' was chosen: {reason}.")
    regular = empty <= MAX_EMPTY_SLOTS if whole else empty <= MAX_IRREGULAR_SLOTS and ratio <= MAX_GAP_RATIO
    encoding = "grid" if regular else "events"
    return Choice(encoding, f"Encoding {encoding!r} was chosen: {facts}.")


def _scale_ratio(values: np.ndarray, codes: np.ndarray) -> float:
    stds = np.array([usual_range(values[codes == each])[1] for each in np.unique(codes)])
    stds = stds[stds > 0]
    if len(stds) < 2:
        return 1.0
    smallest = np.quantile(stds, ODD_SERIES, method="lower")
    return float(np.quantile(stds, 1 - ODD_SERIES, method="higher") / smallest)


def as_names(names: str | Sequence[str] | None) -> list[str]:
    """Names of columns as a list."""
    return [names] if isinstance(names, str) else list(names or ())
