r"""Conformal intervals: their coverage does not depend on the model being right.

The score of a row is its error in predicted standard deviations, $|y - \mu|/\sigma$, a column at a time; an interval is
$\mu \pm m\sigma$ with a margin $m$ that is a high score of a held-out calibration set.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nsac.uncertainty.checks import check_columns, check_probability
from nsac.uncertainty.prediction import Predictor, check_rows


def conformal_scores(prediction: Predictor, y: Tensor) -> Tensor:
    r"""$|y - \mu|/\sigma$, (rows, *columns), in double precision and without a gradient; NaN where `y` is NaN."""
    return ((y - prediction.mean).abs() / prediction.std).detach().double()


def conformal_margin(scores: Tensor, coverage: float | Tensor) -> Tensor:
    r"""Per column the score of rank $\lceil(n+1)\cdot coverage\rceil$ among the n that are not NaN.

    Infinite where the rank is above n (too few scores), 0 where it is below 1.

    Args:
        scores: (rows, *columns), in any order.
        coverage: a number, or a tensor (..., *columns).

    Returns:
        (..., *columns); (*columns) for a number.
    """
    known = (~scores.isnan()).sum(0)
    coverage = torch.as_tensor(coverage, dtype=torch.float64, device=scores.device)
    rank = ((known + 1) * coverage - 1e-9).ceil().long()  # 100 * 0.07 is a little more than 7
    if len(scores):
        place = rank.clamp(min=1, max=len(scores)) - 1
        margin = scores.sort(0).values.gather(0, place.reshape(-1, *known.shape)).reshape(rank.shape)  # NaN sorts last
    else:
        margin = torch.zeros_like(rank, dtype=scores.dtype)
    return margin.masked_fill(rank > known, math.inf).masked_fill(rank < 1, 0.0)


def interval_around(prediction: Predictor, margin: Tensor) -> tuple[Tensor, Tensor]:
    r"""Lower and upper ends, $\mu \pm m\sigma$."""
    mean = prediction.mean
    half = margin.to(mean) * prediction.std
    return mean - half, mean + half


@dataclass(frozen=True)
class SplitConformal:
    r"""Split conformal prediction: of n calibration scores, the $\lceil(n+1)\cdot coverage\rceil$-th is the margin.

    If the calibration rows and a new row are exchangeable, the interval covers the new row with probability at least
    the nominal coverage, and at most 1 / (n + 1) more if no scores tie. The coverage is marginal: it is not guaranteed
    for one given input, nor under distribution shift.
    """

    scores: Tensor
    """(n, *columns), each column sorted"""
    joint_scores: Tensor
    """(n,), the largest score of each row, sorted"""

    @classmethod
    def fit(cls, prediction: Predictor, y: Tensor) -> "SplitConformal":
        """From a held-out calibration set; the coverage is chosen later."""
        check_rows(prediction, y)
        scores = conformal_scores(prediction, y)
        return cls(scores.sort(0).values, scores.reshape(len(scores), -1).amax(1).sort().values)

    def interval(self, prediction: Predictor, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Lower and upper ends; each column by itself is covered."""
        return self._around(prediction, self.scores, coverage)

    def joint_interval(self, prediction: Predictor, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Lower and upper ends; with probability `coverage` all columns of a row are covered at once."""
        return self._around(prediction, self.joint_scores, coverage)

    def _around(self, prediction: Predictor, scores: Tensor, coverage: float) -> tuple[Tensor, Tensor]:
        check_probability("coverage", coverage)
        margin = conformal_margin(scores, coverage)
        if margin.isinf().any():
            n, needed = len(scores), math.ceil(round(coverage / (1 - coverage), 9))
            raise ValueError(
                f"`coverage` must be at most n / (n + 1) for n = {n} calibration rows. Got {coverage} instead, which "
                f"needs {needed} rows. Calibrate on more rows, or lower it to {n / (n + 1):.3g}."
            )
        check_columns("SplitConformal", self.scores.shape[1:], prediction.shape)
        prediction.check()
        return interval_around(prediction, margin)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"scores": self.scores.tolist(), "joint_scores": self.joint_scores.tolist()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "SplitConformal":
        """Inverse of `to_dict`."""
        scores = torch.tensor(state["scores"], dtype=torch.float64)
        joint_scores = torch.tensor(state["joint_scores"], dtype=torch.float64)
        return cls(scores, joint_scores)
