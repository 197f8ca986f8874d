"""Online calibration of events: forecasts that came due since the last update move the factors of their margins."""

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from nsac.estimators.event_calibration import BINS
from nsac.estimators.event_frames import EventFrame, Observed
from nsac.estimators.event_rows import Origins, RowMaker, target_events
from nsac.estimators.event_scores import lead_steps, scored_origins
from nsac.estimators.online import SeenTimes, coverage_columns
from nsac.estimators.preprocessing import check_array_shapes
from nsac.training.events import Queries
from nsac.uncertainty import track_margins
from nsac.uncertainty.conformal import COVERAGES
from nsac.uncertainty.tracking import MAX_LOG_FACTOR, MIN_LOG_FACTOR

if TYPE_CHECKING:
    from nsac.estimators.event_forecasts import EventForecasts

TRACKED_COVERAGE = 0.9  # whose misses move the factors; intervals of other coverages are stretched alike
CHUNK_ROWS = 2048  # origins whose draws are in memory at once


@dataclass
class EventStream:
    """Factors on the margins of each target and bin of lead time, and the observations they have seen."""

    log_factor: np.ndarray  # (targets * BINS,)
    seen: SeenTimes

    @classmethod
    def start(cls, targets: int) -> "EventStream":
        """Factors of 1; nothing has been seen."""
        return cls(np.zeros(targets * BINS), SeenTimes())

    def remember(self, frame: EventFrame, series: np.ndarray, target: np.ndarray, times: np.ndarray) -> None:
        """These observed targets have been seen, (n,) each."""
        last = np.full((len(frame.names), len(self.log_factor) // BINS), _before(frame.row_times.dtype))
        np.maximum.at(last, (series, target), times)
        self.seen.remember(frame.names, last)

    def update(self, forecasts: "EventForecasts", frame: EventFrame) -> pd.DataFrame:
        """Adapt to the new observations, and report the coverage of their forecasts by lead time in steps."""
        model, targets = forecasts.model, target_events(frame, forecasts.model.columns_)
        if not self.seen:
            warnings.warn(
                "The model was fitted by an earlier version, which did not save the times it has seen. The rows of "
                "this call count as seen; later ones will be evaluated.",
                stacklevel=5,
            )
            self.remember(frame, targets.series, targets.column, targets.times)
        before = np.full(len(model.targets_), _before(frame.row_times.dtype))
        due = _due_forecasts(forecasts, frame, targets, self.seen.last(frame.names, before))
        calibration = replace(model.calibration_, factor=None)
        largest = calibration.scores.max()  # an interval without enough scores is at least that wide
        of_cells = {each: calibration.margins(float(each)).flatten().clamp(max=largest) for each in COVERAGES}
        margins = {each: margin[due["cell"]].numpy() for each, margin in of_cells.items()}
        column, margin = due["cell"] % len(calibration.scale), margins[TRACKED_COVERAGE]
        log_factor = self.log_factor[column]
        some = margin > 0  # others would not change with a factor
        given = due["time"][some], column[some], due["score"][some] / margin[some], TRACKED_COVERAGE
        self.log_factor, log_factor[some] = track_margins(self.log_factor, *given)
        self.remember(frame, due["series"], due["target"], due["time"])
        covered = np.stack([due["score"] <= each * np.exp(log_factor) for each in margins.values()])
        return _report(covered, due, model.targets_, model.horizon_)

    def to_dict(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values, and arrays, under the names of a model folder."""
        times = np.array(list(self.seen.values())).reshape(len(self.seen), len(self.log_factor) // BINS)
        return {"seen": list(self.seen)}, {"seen": times, "log_factor": self.log_factor}

    @classmethod
    def from_dict(cls, facts: dict[str, Any], arrays: dict[str, np.ndarray], targets: int) -> "EventStream":
        """From what `to_dict` gave; folders of earlier versions have no stream."""
        if "seen" not in facts:
            return cls.start(targets)
        check_array_shapes(arrays, {"log_factor": (targets * BINS,), "seen": (len(facts["seen"]), targets)})
        log_factor = arrays["log_factor"]
        if not ((log_factor >= MIN_LOG_FACTOR) & (log_factor <= MAX_LOG_FACTOR)).all():
            raise ValueError(f"`log_factor` must be between {MIN_LOG_FACTOR:.3g} and {MAX_LOG_FACTOR:.3g}.")
        return cls(log_factor, SeenTimes(zip(facts["seen"], arrays["seen"], strict=True)))


def _due_forecasts(
    forecasts: "EventForecasts", frame: EventFrame, targets: Observed, seen: np.ndarray
) -> dict[str, np.ndarray]:
    """Forecasts of all targets that were observed after `seen`, (series, targets), in order of time.

    Time, lead time in steps, number of the series, number of the target, cell of the calibration, and absolute error in
    calibrated standard deviations.
    """
    model, maker = forecasts.model, forecasts.model.events_
    new = targets.times > seen[targets.series, targets.column]
    origins, queries = _new_queries(frame, targets, maker, new)
    if len(new) and new.all() and not len(origins):
        warnings.warn(
            f"None of the {new.sum()} new values has an earlier observation within the horizon, so there is no "
            "forecast to evaluate. Pass lookback and horizon of earlier rows beside the new ones.",
            stacklevel=6,
        )
    found = [{name: np.empty(0, kind) for name, kind in _COLUMNS.items()}]
    for first in range(0, len(origins), CHUNK_ROWS):
        rows = np.arange(first, min(first + CHUNK_ROWS, len(origins)))
        chosen, asked = origins.where(rows), queries._replace(start=queries.start[rows], stop=queries.stop[rows])
        answers = forecasts.answers(maker.rows(frame, chosen, asked, torch.float64))
        p, cell = forecasts.calibrated(answers)
        count = (asked.stop - asked.start).numpy()
        first_of_row = np.repeat(asked.start.numpy() - np.cumsum(count) + count, count)
        place = first_of_row + np.arange(len(first_of_row))  # answers are in the order of the queries
        times = targets.times[place]
        begins = frame.times(chosen.times[answers.row.numpy()])
        steps = lead_steps(model, begins, times, answers.lead.numpy())
        score = ((answers.y - p.mean).abs() / p.std).numpy()
        values = times, steps, targets.series[place], answers.target.numpy(), cell.numpy(), score
        found.append({name: value[new[place]] for name, value in zip(_COLUMNS, values, strict=True)})
    due = {name: np.concatenate([each[name] for each in found]) for name in _COLUMNS}
    kept = np.flatnonzero(due["step"] <= model.horizon_)  # fewer steps of a calendar may take longer
    order = kept[np.argsort(due["time"][kept], kind="stable")]
    return {name: values[order] for name, values in due.items()}


_COLUMNS = dict.fromkeys(("time", "step", "series", "target", "cell"), np.int64) | {"score": np.float64}


def _new_queries(frame: EventFrame, targets: Observed, maker: RowMaker, new: np.ndarray) -> tuple[Origins, Queries]:
    """Origins that are followed by new targets within the horizon, and their queries from the first of these on."""
    origins = scored_origins(frame, maker, None)
    queries = maker.observed_queries(frame, origins)
    first = np.full(len(frame.names), len(targets.times))
    np.minimum.at(first, targets.series[new], np.flatnonzero(new))
    queries = queries._replace(start=torch.maximum(queries.start, torch.from_numpy(first[origins.series])))
    kept = np.flatnonzero((queries.stop > queries.start).numpy())
    return origins.where(kept), queries._replace(start=queries.start[kept], stop=queries.stop[kept])


def _before(kind: np.dtype) -> Any:
    """A time before all others."""
    return np.iinfo(np.int64).min if kind == np.int64 else np.finfo(np.float64).min


def _report(covered: np.ndarray, due: dict[str, np.ndarray], targets: list[str], horizon: int) -> pd.DataFrame:
    tables: list[Any] = []
    for number, name in enumerate(targets):
        own = due["target"] == number
        forecasts = np.bincount(due["step"][own], minlength=horizon + 1)[1:]
        inside = np.stack([np.bincount(due["step"][own], each[own], horizon + 1)[1:] for each in covered])
        table = coverage_columns(forecasts, inside)
        if len(targets) > 1:
            table.insert(0, "target", name)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)
