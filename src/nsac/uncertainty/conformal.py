r"""Conformal intervals: their coverage does not depend on the model being right.

The score of a row is its error in predicted standard deviations, $|y - \mu|/\sigma$, a column at a time; an interval is
$\mu \pm m\sigma$ with a margin $m$ that is a high score of a held-out calibration set.

Adaptive conformal inference (Gibbs and Candes, 2021) follows a stream whose distribution shifts:
$\alpha_{t+1} = \alpha_t + \gamma(\alpha - err_t)$, with $\alpha$ the nominal and $err_t$ the observed share of misses.
After a miss the next intervals are wider, after a hit a little narrower.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from nsac._checks import check_columns, check_int, check_positive, check_probability, check_shape
from nsac.uncertainty.prediction import Calibrator, Predictor, check_rows

GAMMA = 0.005
"""Step size of the recursion; the authors' choice."""
WINDOW = 500
"""Latest scores that are kept."""
COVERAGES = np.array([0.5, 0.8, 0.9, 0.95, 0.99])
"""Coverages that `LeadTimeConformal` tracks; between them the correction is interpolated."""
EXTRAPOLATION_FACTOR = 2.0
"""Where the rank is above the number of scores, `LeadTimeConformal` takes this multiple of the largest score."""


def conformal_scores(prediction: Predictor, y: Tensor) -> Tensor:
    r"""$|y - \mu|/\sigma$, (rows, *columns), in double precision and without a gradient; NaN where `y` is NaN."""
    return ((y - prediction.mean).abs() / prediction.std).detach().double()


def conformal_margin(scores: Tensor, coverage: float | Tensor) -> Tensor:
    r"""Per column the score of rank $\lceil(n+1)\cdot coverage\rceil$ among the n that are not NaN.

    Infinite where the rank is above n (too few scores), 0 where it is below 1. `scores` are (rows, *columns), in any
    order; `coverage` is a number, or a tensor (..., *columns), and so is the margin.
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


def groups_needed(coverage: float) -> int:
    """Fewest groups for which `group_margin` is a weighted quantile: coverage / (1 - coverage), rounded up."""
    return math.ceil(round(coverage / (1 - coverage), 9))


def enough_groups(n_groups: int, coverage: float) -> bool:
    """Whether the weighted quantile of `group_margin` is finite at this coverage; otherwise the worst group decides."""
    return n_groups >= groups_needed(coverage)


def count_groups(scores: Tensor, groups: Tensor) -> Tensor:
    """Number of groups that have a score that is not NaN, (*columns)."""
    return (_group_sizes(scores, groups)[1] > 0).sum(0)


def group_margin(scores: Tensor, groups: Tensor, coverage: float) -> Tensor:
    r"""Per column a margin that is valid for a row of a new group (Lee, Barber and Willett, 2023).

    Of G groups, a score of a group with $n_g$ scores weighs $1/((G+1)\,n_g)$, and infinity weighs $1/(G+1)$; the margin
    is the quantile of these weighted scores. If the groups, the new one included, are exchangeable, and so are the rows
    within each, it covers a row of the new group with probability at least `coverage`. That is a mean over groups, the
    calibration groups included: one group may be covered less. If every group has one row it is `conformal_margin`.

    Where there are too few groups (see `enough_groups`) that quantile is infinite, and shortly before it is the largest
    score of all. The margin is therefore at most the least that covers a share $\max(coverage, G/(G+1))$ of each group,
    so that a higher coverage never has a smaller margin. Where this limit applies, what holds for any distribution is a
    coverage of $G/(G+1)$ times the share, at least 0.73 for 6 groups and 0.90 for 19. The margin is infinite only for a
    column without any score.

    Args:
        scores: (n, *columns), in any order; NaN where not observed.
        groups: (n,), integers.
        coverage: strictly between 0 and 1.
    """
    check_probability("coverage", coverage)
    check_groups(groups, len(scores))
    if not len(scores):
        return torch.full_like(scores.sum(0), math.inf)
    index, sizes = _group_sizes(scores, groups)
    n_groups = (sizes > 0).sum(0)
    ascending, order = scores.sort(0)  # NaN last
    group = index[order]
    mass = (1.0 / sizes.double()).gather(0, group).masked_fill(ascending.isnan(), 0.0).cumsum(0)  # 1 per group
    place = (mass < (n_groups + 1).double() * coverage - 1e-9).sum(0, keepdim=True)
    margin = ascending.gather(0, place.clamp(max=len(scores) - 1))[0]
    by_group = ascending.gather(0, group.argsort(dim=0, stable=True))  # the groups in turn, ascending in each
    share = (n_groups / (n_groups + 1.0)).clamp(min=coverage)
    rank = (sizes.double() * share - 1e-9).ceil().long().clamp(min=1)
    rows = index.bincount()
    start = (rows.cumsum(0) - rows).reshape(-1, *(1,) * (scores.ndim - 1))
    own = by_group.gather(0, start + rank - 1).masked_fill(sizes == 0, -math.inf)
    margin = margin.masked_fill(n_groups < groups_needed(coverage), math.inf)
    return torch.minimum(margin, own.amax(0)).masked_fill(n_groups == 0, math.inf)


def check_groups(groups: Tensor, rows: int) -> None:
    """`groups` are one integer per row."""
    kind = groups.dtype
    if groups.shape != (rows,) or kind == torch.bool or kind.is_floating_point or kind.is_complex:
        raise ValueError(
            f"`groups` must have one integer per row, shape ({rows},). Got {kind} of shape {tuple(groups.shape)} "
            "instead. Number the groups, for instance by `pandas.factorize`."
        )


def _group_sizes(scores: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Index of each row's group, (n,), and the number of known scores of each group, (groups, *columns)."""
    values, index = groups.unique(return_inverse=True)
    sizes = torch.zeros(len(values), *scores.shape[1:], dtype=torch.long, device=scores.device)
    return index, sizes.index_add(0, index, (~scores.isnan()).long())


def interval_around(prediction: Predictor, margin: Tensor) -> tuple[Tensor, Tensor]:
    r"""Lower and upper ends, $\mu \pm m\sigma$."""
    mean = prediction.mean
    half = margin.to(mean) * prediction.std
    return mean - half, mean + half


@dataclass(frozen=True)
class SplitConformal(Calibrator):
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


@dataclass
class AdaptiveConformal(Calibrator):
    r"""Adaptive conformal intervals of one coverage, each column by itself.

    Whatever the stream does, the share of misses over T updates differs from $\alpha = 1 - coverage$ by at most
    $(\max(\alpha, 1 - \alpha) + \gamma)/\gamma T$. The price: after many misses $\alpha_t$ may fall below 0, and the
    interval is then infinite until hits raise it again.
    """

    scores: Tensor
    """(at most `window`, *columns), the latest scores, oldest first"""
    alpha: Tensor
    """(*columns), the current target of the share of misses"""
    coverage: float = 0.9
    gamma: float = GAMMA
    window: int = WINDOW

    @classmethod
    def fit(
        cls, prediction: Predictor, y: Tensor, coverage: float = 0.9, gamma: float = GAMMA, window: int = WINDOW
    ) -> "AdaptiveConformal":
        """Start from a held-out calibration set, its rows in order of time, the latest last."""
        check_probability("coverage", coverage)
        check_positive("gamma", gamma)
        check_int("window", window)
        check_rows(prediction, y)
        scores = conformal_scores(prediction, y)[-window:]
        return cls(scores, torch.full_like(scores[0], 1 - coverage), coverage, gamma, window)

    def interval(self, prediction: Predictor) -> tuple[Tensor, Tensor]:
        """Lower and upper ends of rows that are all predicted now."""
        check_columns("AdaptiveConformal", self.alpha.shape, prediction.shape)
        prediction.check()
        return interval_around(prediction, self._margin())

    def update(self, prediction: Predictor, y: Tensor, interval: tuple[Tensor, Tensor] | None = None) -> None:
        """Adapt to observed values, at any delay; rows in order of time.

        Misses are counted against `interval`, if given: the one that was issued, where other updates have happened
        since. By default they are counted against the interval that would be issued now.
        """
        check_columns("AdaptiveConformal", self.alpha.shape, prediction.shape)
        check_rows(prediction, y)
        for end in interval or ():
            check_shape("interval", end, "lower and upper ends as `y`", tuple(y.shape))
            if end.isnan().any():
                hint = "Pass the value that `interval` returned."
                raise ValueError(f"`interval` must hold numbers; infinity is allowed. Got nan. {hint}")
        missed = None if interval is None else (y < interval[0]) | (y > interval[1])
        for row, score in enumerate(conformal_scores(prediction, y)):
            miss = score > self._margin() if missed is None else missed[row]
            self.alpha = self.alpha + self.gamma * ((1 - self.coverage) - miss.to(self.alpha))
            self.scores = torch.cat([self.scores, score[None]])[-self.window :]

    def _margin(self) -> Tensor:
        return conformal_margin(self.scores, 1 - self.alpha)


@dataclass
class LeadTimeConformal:
    """Adaptive conformal margins of forecasts, for each lead time and for several coverages at once.

    A forecast h steps ahead can be compared with the observed value h steps after its origin, and is then compared with
    the margin that was issued at its origin. Where the rank is above the number of scores the margin stays finite.
    """

    scores: np.ndarray
    """(at most WINDOW, horizon), latest errors in predicted standard deviations, oldest first; NaN: not observed"""
    alpha: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(coverages, horizon), the current targets of the share of misses"""
    issued: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(horizon + 1, coverages, horizon), margins issued 0, 1, ... steps ago"""
    now: int = 0
    """time step of the latest update; 0 is that of the first"""
    begun: bool = False
    """whether there was an update"""

    def __post_init__(self):
        horizon = self.scores.shape[1]
        if not self.begun:
            self.scores = self.scores[-WINDOW:]
            self.alpha = np.repeat(1 - COVERAGES[:, None], horizon, 1)
            self.issued = np.repeat(self._margins(self.alpha)[None], horizon + 1, 0)

    def margin(self, coverage: float) -> np.ndarray:
        """Factor on the predicted standard deviation, (horizon,)."""
        shift = [np.interp(coverage, COVERAGES, column) for column in (self.alpha - (1 - COVERAGES[:, None])).T]
        return self._margins(1 - coverage + np.array(shift)[None])[0]

    def update(self, steps: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Adapt to forecasts whose values have been observed; returns the margins compared, (rows, coverages, horizon).

        Args:
            steps: (rows,), time step of the observation, ascending; rows of several series may share one.
            scores: (rows, horizon), errors of the forecasts made 1, ..., horizon steps before; NaN where there is none.
        """
        lead = np.arange(1, scores.shape[1] + 1)
        compared = np.empty((len(scores), len(COVERAGES), scores.shape[1]))
        edges = np.flatnonzero(np.diff(steps)) + 1
        for first, stop in zip(np.append(0, edges), np.append(edges, len(steps)), strict=True):
            if first == stop:
                continue
            passed = int(np.clip(steps[first] - self.now, 1 if self.begun else 0, len(self.issued)))
            self.issued = np.concatenate([np.repeat(self.issued[:1], passed, 0), self.issued])[: len(self.issued)]
            self.now, self.begun = int(steps[first]), True
            margin = self.issued[lead, :, lead - 1].T  # coverages, horizon
            compared[first:stop] = margin
            latest = scores[first:stop]
            known = ~np.isnan(latest)
            missed = (latest[:, None] > margin).sum(0) / np.maximum(known.sum(0), 1)
            self.alpha = self.alpha + GAMMA * np.where(known.any(0), 1 - COVERAGES[:, None] - missed, 0.0)
            self.scores = np.concatenate([self.scores, latest])[-WINDOW:]
            self.issued[0] = self._margins(self.alpha)
        return compared

    def _margins(self, alpha: np.ndarray) -> np.ndarray:
        """(..., horizon); above the largest score a multiple of it, and 0 where there is no score."""
        margin = conformal_margin(torch.as_tensor(self.scores), torch.as_tensor(1 - alpha)).numpy()
        largest = np.where(np.isnan(self.scores), 0.0, self.scores).max(0, initial=0.0)
        return np.where(np.isinf(margin), EXTRAPOLATION_FACTOR * largest, margin)
