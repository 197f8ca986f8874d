"""Online calibration: scores of the forecasts that came due since the last update, and margins that adapt to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from nsac.estimators.observations import Observations
from nsac.estimators.preprocessing import SeriesPreprocessor, check_array_shapes
from nsac.estimators.windows import Grid
from nsac.training import WindowData
from nsac.uncertainty import LeadTimeConformal, Prediction
from nsac.uncertainty.conformal import COVERAGES

SCORE_CHUNK = 8192  # windows whose draws are in memory at once
FRESH_STEPS = 0.499  # a slot is new if it is so many steps later than the last target: rows go to their nearest slot


class SeenTimes(dict[str | int | None, Any]):
    """Name of a series to the last time that was seen, or to the last times of its targets."""

    def last(self, names: Sequence[Any], default: Any) -> np.ndarray:
        """The last time of each series; the default of a new one."""
        return np.array([self._last(name, default) for name in names])

    def remember(self, names: Sequence[Any], times: np.ndarray) -> None:
        """These times have been seen."""
        for name, last in zip(names, times, strict=True):
            self[_json_name(name)] = np.maximum(last, self._last(name, last))

    def _last(self, name: Any, default: Any) -> Any:
        """Folders of earlier versions have the names of floats as texts."""
        return self.get(_json_name(name), self.get(str(name), default))


@dataclass
class OnlineCalibration:
    """Adaptive conformal margins, and the observations they have seen."""

    stream: LeadTimeConformal
    origin: Any  # time of step 0 of the stream
    seen: SeenTimes

    @classmethod
    def start(cls, scores: np.ndarray, observations: Observations) -> "OnlineCalibration":
        """From the scores of the calibration split, (windows, horizon), in order of time."""
        online = cls(LeadTimeConformal(scores), observations.times.min(), SeenTimes())
        online._remember(observations)
        return online

    def update(
        self, observations: Observations, preprocessor: SeriesPreprocessor, draws: Callable[[WindowData], Prediction]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Adapt to the new observations; those that their forecasts look at come before them.

        Returns scores of the forecasts that came due, (times, horizon), NaN where there is none, and the margins that
        were in force when they were made, (times, coverages, horizon).
        """
        step, shape = preprocessor.axis.step, preprocessor.shape
        seen = self.seen.last(observations.names, observations.times.min() - step)
        recent = observations.since(seen - (shape.lookback + shape.horizon + 1) * step)
        if not len(recent.times):  # all rows are older than what was seen
            return np.empty((0, shape.horizon)), np.empty((0, len(COVERAGES), shape.horizon))
        grid, windows = preprocessor.past(recent)
        scores = [np.empty((0, shape.horizon))]
        for first in range(0, len(windows), SCORE_CHUNK):
            chunk = windows.with_ends(windows.ends[first : first + SCORE_CHUNK])
            scores.append(absolute_scores(chunk, draws(chunk)))
        due = due_scores(grid, windows.ends.numpy(), np.concatenate(scores))
        fresh = grid.times > seen[grid.codes] + FRESH_STEPS * step
        kept = np.flatnonzero(fresh & ~np.isnan(due).all(1))
        steps = np.rint((grid.times[kept] - self.origin) / step).astype(np.int64)
        order = np.argsort(steps, kind="stable")
        margins = self.stream.update(steps[order], due[kept[order]])
        self._remember(observations)
        return due[kept[order]], margins

    def _remember(self, observations: Observations) -> None:
        """The last known target of each series has been seen; a row without a target may still receive it."""
        known = np.flatnonzero(~np.isnan(observations.values[:, 0]))
        codes, times = observations.codes[known], observations.times[known]
        last = np.flatnonzero(np.append(np.diff(codes) != 0, True)[: len(codes)])
        self.seen.remember([observations.names[code] for code in codes[last]], times[last])

    def to_dict(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values, and arrays, under the names of a model folder."""
        facts = {"seen": list(self.seen), "begun": self.stream.begun, "now": self.stream.now}
        arrays = {"scores": self.stream.scores, "alpha": self.stream.alpha, "said": self.stream.issued}
        return facts, arrays | {"seen": np.array(list(self.seen.values())), "origin": np.array(self.origin)}

    @classmethod
    def from_dict(cls, facts: dict[str, Any], arrays: dict[str, np.ndarray], horizon: int) -> "OnlineCalibration":
        """From what `to_dict` gave."""
        coverages = len(COVERAGES)
        shapes = {"scores": (-1, horizon), "alpha": (coverages, horizon), "said": (horizon + 1, coverages, horizon)}
        check_array_shapes(arrays, shapes)
        stream = LeadTimeConformal(arrays["scores"], arrays["alpha"], arrays["said"], facts["now"], True)
        stream.begun = facts["begun"]
        return cls(stream, arrays["origin"][()], SeenTimes(zip(facts["seen"], arrays["seen"], strict=True)))


def absolute_scores(windows: WindowData, p: Prediction) -> np.ndarray:
    """Absolute errors in predicted standard deviations, (windows, horizon); NaN where the target was not observed."""
    y = windows.batch(torch.arange(len(windows)))["y"].double()
    return ((y - p.mean).abs() / p.std).numpy()


def due_scores(grid: Grid, ends: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Scores of windows by the slot they came due at, (slots, horizon): column h - 1 was forecast h steps before."""
    due = np.full((len(grid.times), scores.shape[1]), np.nan)
    for h in range(scores.shape[1]):
        inside = ends + h + 1 < grid.stop[ends]
        due[ends[inside] + h + 1, h] = scores[inside, h]
    return due


def coverage_report(scores: np.ndarray, margins: np.ndarray) -> pd.DataFrame:
    """Coverage of adaptive intervals per lead time, from what `OnlineCalibration.update` returned."""
    known = ~np.isnan(scores)
    return coverage_columns(known.sum(0), ((scores[:, None] <= margins) & known[:, None]).sum(0))


def coverage_columns(forecasts: np.ndarray, covered: np.ndarray) -> pd.DataFrame:
    """Number of forecasts of each lead time, (horizon,), and the share of them that is covered; NaN if there is none.

    `covered` are (coverages, horizon).
    """
    table = {"step": np.arange(1, len(forecasts) + 1), "forecasts": forecasts}
    share = np.where(forecasts > 0, covered / np.maximum(forecasts, 1), np.nan)
    return pd.DataFrame(table | {f"coverage_{100 * c:g}": share[i] for i, c in enumerate(COVERAGES)})


def _json_name(name: Any) -> str | int | None:
    """A name as JSON has it; whole numbers are equal whatever their type, as missing ids make pandas use floats."""
    whole = isinstance(name, (float, np.floating)) and float(name).is_integer()
    if whole or (isinstance(name, (int, np.integer)) and not isinstance(name, bool)):
        return int(name)
    return None if name is None else str(name)
