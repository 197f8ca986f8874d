r"""Intervals whose coverage does not rest on the model being right.

The score of a row is its error in predicted deviations, $|y - \mu|/\sigma$, a column at a time; an interval is
$\mu \pm m\sigma$ with $m$ a high score among those of rows that were used for nothing else.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nsac._checks import check_int, check_positive, check_shape
from nsac.uncertainty.checks import check_columns, check_probability
from nsac.uncertainty.prediction import Predictor, check_rows


@dataclass(frozen=True)
class SplitConformal:
    r"""Split conformal prediction: of n calibration scores, the $\lceil(n+1)\cdot coverage\rceil$-th is the margin.

    If the calibration rows and the new one are exchangeable, the new one is inside with probability at least the
    coverage, and at most 1 / (n + 1) more if no scores tie. It says nothing about one given input, and nothing about
    next season.
    """

    scores: Tensor
    """(n, *columns), each column sorted"""
    joint_scores: Tensor
    """(n,), the largest score of each row, sorted"""

    @classmethod
    def fit(cls, prediction: Predictor, y: Tensor) -> "SplitConformal":
        """From the calibration part; any coverage may be asked for later."""
        scores = _scores(prediction, y)
        return cls(scores.sort(0).values, scores.reshape(len(scores), -1).amax(1).sort().values)

    def interval(self, prediction: Predictor, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Lower and upper ends; each column by itself is covered."""
        return self._around(prediction, self.scores[self._rank(coverage) - 1])

    def joint_interval(self, prediction: Predictor, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Lower and upper ends; with probability `coverage` all columns of a row are inside at once."""
        return self._around(prediction, self.joint_scores[self._rank(coverage) - 1])

    def _around(self, prediction: Predictor, margin: Tensor) -> tuple[Tensor, Tensor]:
        check_columns("SplitConformal", self.scores.shape[1:], prediction.shape)
        prediction.check()
        return _around(prediction, margin)

    def _rank(self, coverage: float) -> int:
        check_probability("coverage", coverage)
        n = len(self.scores)
        rank = math.ceil(round((n + 1) * coverage, 9))  # 100 * 0.07 is a little more than 7
        if rank > n:
            needed = math.ceil(round(coverage / (1 - coverage), 9))
            raise ValueError(
                f"`coverage` must be at most n / (n + 1) for n = {n} calibration rows. Got {coverage} instead, which "
                f"needs {needed} rows. Calibrate on more rows, or ask for {n / (n + 1):.3g}."
            )
        return rank

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"scores": self.scores.tolist(), "joint_scores": self.joint_scores.tolist()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "SplitConformal":
        """From what `to_dict` gave."""
        return cls(*(torch.tensor(state[key], dtype=torch.float64) for key in ("scores", "joint_scores")))


@dataclass
class AdaptiveConformal:
    r"""Adaptive conformal inference for streams (Gibbs and Candes, 2021).

    $\alpha_{t+1} = \alpha_t + \gamma(\alpha - err_t)$, with $\alpha$ the share of misses allowed, $err_t$ 1 for a miss.
    A miss makes the next intervals wider, a hit a little narrower, each column by itself. Whatever the stream does, the
    share of misses over T updates differs from $\alpha$ by at most $(\max(\alpha, 1 - \alpha) + \gamma)/\gamma T$. The
    price: after many misses $\alpha_t$ may fall below 0, and the interval is then infinite until hits bring it back.
    """

    scores: Tensor
    """(at most `window`, *columns), the latest scores, oldest first"""
    alpha: Tensor
    """(*columns), the level of misses aimed at now"""
    coverage: float = 0.9
    gamma: float = 0.005
    """size of a step; 0.005 is the authors' choice"""
    window: int = 500
    """scores remembered"""

    @classmethod
    def fit(
        cls, prediction: Predictor, y: Tensor, coverage: float = 0.9, gamma: float = 0.005, window: int = 500
    ) -> "AdaptiveConformal":
        """Start from the calibration part, its rows in order of time, the latest last."""
        check_probability("coverage", coverage)
        check_positive("gamma", gamma)
        check_int("window", window)
        scores = _scores(prediction, y)[-window:]
        return cls(scores, torch.full_like(scores[0], 1 - coverage), coverage, gamma, window)

    def interval(self, prediction: Predictor) -> tuple[Tensor, Tensor]:
        """Lower and upper ends for rows that are all predicted now."""
        check_columns("AdaptiveConformal", self.alpha.shape, prediction.shape)
        prediction.check()
        return _around(prediction, self._margin())

    def update(self, prediction: Predictor, y: Tensor, interval: tuple[Tensor, Tensor] | None = None) -> None:
        """What came, whenever it comes; rows in order of time.

        Args:
            prediction: what had been predicted for these rows.
            y: what came.
            interval: what had been said, if other updates have happened since: misses are then counted against that.
                By default, against the interval that would be said now.
        """
        check_columns("AdaptiveConformal", self.alpha.shape, prediction.shape)
        scores = _scores(prediction, y)
        missed = None if interval is None else _missed(interval, y)
        for row, score in enumerate(scores):
            miss = score > self._margin() if missed is None else missed[row]
            self.alpha = self.alpha + self.gamma * ((1 - self.coverage) - miss.to(self.alpha))
            self.scores = torch.cat([self.scores, score[None]])[-self.window :]

    def _margin(self) -> Tensor:
        """The score of rank (n + 1)(1 - alpha); infinite beyond the largest, 0 (nothing inside) below the least."""
        n = len(self.scores)
        rank = ((n + 1) * (1 - self.alpha) - 1e-9).ceil().long()
        margin = self.scores.sort(0).values.gather(0, (rank.clamp(1, n) - 1)[None])[0]
        return margin.masked_fill(rank > n, math.inf).masked_fill(rank < 1, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        settings = {"coverage": self.coverage, "gamma": self.gamma, "window": self.window}
        return {"scores": self.scores.tolist(), "alpha": self.alpha.tolist(), **settings}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "AdaptiveConformal":
        """From what `to_dict` gave."""
        scores, alpha = (torch.tensor(state[key], dtype=torch.float64) for key in ("scores", "alpha"))
        return cls(scores, alpha, state["coverage"], state["gamma"], state["window"])


def _scores(prediction: Predictor, y: Tensor) -> Tensor:
    check_rows(prediction, y)
    return ((y - prediction.mean).abs() / prediction.std).detach().double()


def _missed(interval: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
    for end in interval:
        check_shape("interval", end, "lower and upper ends as `y`", tuple(y.shape))
        if end.isnan().any():
            raise ValueError("`interval` must be numbers; infinite ones will do. Got nan. Pass what `interval` gave.")
    return (y < interval[0]) | (y > interval[1])


def _around(prediction: Predictor, margin: Tensor) -> tuple[Tensor, Tensor]:
    mean, half = prediction.mean, margin.to(prediction.mean) * prediction.std
    return mean - half, mean + half
