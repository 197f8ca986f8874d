"""Adaptive conformal margins for forecasts of several steps, which can be judged only step by step."""

from dataclasses import dataclass, field

import numpy as np

LEVELS = np.array([0.5, 0.8, 0.9, 0.95, 0.99])
"""Coverages that are followed; between them the correction is interpolated."""
GAMMA, WINDOW = 0.005, 500
"""Size of a step, and scores remembered, as in `uncertainty.AdaptiveConformal`."""
BEYOND = 2.0
"""Where no score is high enough, the margin is this many times the highest."""


@dataclass
class Stream:
    r"""Adaptive conformal inference (Gibbs and Candes, 2021), for each step ahead by itself.

    $\alpha \leftarrow \alpha + \gamma\,(1 - coverage - err)$, err the share of misses among the forecasts that came
    due. A forecast for h steps ahead comes due h steps after it was made, and is judged by the margin of then.
    """

    scores: np.ndarray
    """(at most WINDOW, horizon), latest errors in predicted deviations, oldest first; NaN where not observed"""
    alpha: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(levels, horizon), share of misses aimed at now"""
    said: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(horizon + 1, levels, horizon), margins as they were 0, 1, ... steps ago"""
    now: int = 0
    """step of the latest update; 0 is that of the first"""
    begun: bool = False

    def __post_init__(self):
        horizon = self.scores.shape[1]
        if not self.begun:
            self.scores = self.scores[-WINDOW:]
            self.alpha = np.repeat(1 - LEVELS[:, None], horizon, 1)
            self.said = np.repeat(self._margins(self.alpha)[None], horizon + 1, 0)

    def margin(self, coverage: float) -> np.ndarray:
        """Factor on the predicted deviation, (horizon,)."""
        shift = [np.interp(coverage, LEVELS, column) for column in (self.alpha - (1 - LEVELS[:, None])).T]
        return self._margins(1 - coverage + np.array(shift)[None])[0]

    def update(self, steps: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Forecasts that came due.

        Args:
            steps: (rows,), at which step of time, ascending; rows of several series may share one.
            scores: (rows, horizon), errors of the forecasts for that step made 1, ..., horizon steps before; NaN where
                there is none.

        Returns:
            (rows, levels, horizon), the margins they were judged by.
        """
        ahead = np.arange(1, scores.shape[1] + 1)
        judged = np.empty((len(scores), len(LEVELS), scores.shape[1]))
        edges = np.flatnonzero(np.diff(steps)) + 1
        for first, stop in zip(np.append(0, edges), np.append(edges, len(steps)), strict=True):
            if first == stop:
                continue
            passed = int(np.clip(steps[first] - self.now, 1 if self.begun else 0, len(self.said)))
            self.said = np.concatenate([np.repeat(self.said[:1], passed, 0), self.said])[: len(self.said)]
            self.now, self.begun = int(steps[first]), True
            margin = self.said[ahead, :, ahead - 1].T  # levels, horizon
            judged[first:stop] = margin
            new = scores[first:stop]
            known = ~np.isnan(new)
            missed = (new[:, None] > margin).sum(0) / np.maximum(known.sum(0), 1)
            self.alpha = self.alpha + GAMMA * np.where(known.any(0), 1 - LEVELS[:, None] - missed, 0.0)
            self.scores = np.concatenate([self.scores, new])[-WINDOW:]
            self.said[0] = self._margins(self.alpha)
        return judged

    def _margins(self, alpha: np.ndarray) -> np.ndarray:
        """The score of rank (n + 1)(1 - alpha) per column."""
        ordered = np.sort(self.scores, 0)  # NaN last
        n = (~np.isnan(self.scores)).sum(0)
        rank = np.ceil((n + 1) * (1 - alpha) - 1e-9).astype(np.int64)
        columns = np.arange(alpha.shape[1])
        if not len(ordered):
            return np.zeros_like(alpha)
        chosen = ordered[np.clip(rank, 1, np.maximum(n, 1)) - 1, columns]
        margin = np.where(rank > n, BEYOND * chosen, np.where(rank < 1, 0.0, chosen))
        return np.where(n > 0, margin, 0.0)
