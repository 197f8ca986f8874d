"""Calibration of predictions on a held-out set.

A column is an entry of a row: an output, a lead time, or one of each. Every column is calibrated by itself, and the
rows of the calibration set, (rows, *columns), are assumed to be exchangeable with those to be predicted.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from nsac._checks import check_columns, check_probability
from nsac.core import mixture_quantile
from nsac.uncertainty.conformal import (
    check_groups,
    conformal_margin,
    conformal_scores,
    count_groups,
    enough_groups,
    group_margin,
    groups_needed,
    interval_around,
)
from nsac.uncertainty.mondrian import class_margins
from nsac.uncertainty.prediction import Calibrator, Prediction, Predictor, check_rows

PRIOR_ROWS = 4.0
"""Weight, in rows, of the prior that no scale is needed: a small calibration set must not change the scale much."""
KNOTS = 201
"""Quantile levels at which `Isotonic` keeps its map: every half per cent."""
MOMENT_NODES = 61
"""Nodes of the integral over quantiles that gives mean and variance; the error is about 1 % of the std."""
MOMENT_RANGE = 5.0
"""Standard deviations on either side that the integral covers."""


@dataclass(frozen=True)
class VarianceScale(Calibrator):
    r"""One factor $s$ per column on the standard deviation, $s^2 = \frac1n\sum_i (y_i - \mu_i)^2/\sigma_i^2$.

    This $s$ minimises the negative log-likelihood of the moment-matched Gaussian. The mixture is stretched about its
    mean, so aleatoric and epistemic variance both grow by $s^2$ and keep their proportion.
    """

    scale: Tensor
    """(*columns), factor on the standard deviation"""

    @classmethod
    def fit(cls, prediction: Prediction, y: Tensor) -> "VarianceScale":
        """From a held-out calibration set."""
        check_rows(prediction, y)
        scale = ((y - prediction.mean) / prediction.std).detach().double().square().mean(0).sqrt()
        if (scale == 0).any():
            raise ValueError(
                "`y` must differ from the predicted mean in at least one row of each column, or no scale above 0 fits. "
                "Got errors of exactly 0. Calibrate on rows that were not trained on."
            )
        return cls(scale)

    def __call__(self, prediction: Prediction) -> Prediction:
        """The same draws, stretched about their mean."""
        check_columns("VarianceScale", self.scale.shape, prediction.shape)
        scale, mean = self.scale.to(prediction.mean_draws), prediction.mean
        return Prediction(mean + scale * (prediction.mean_draws - mean), prediction.log_std_draws + scale.log())


@dataclass(frozen=True)
class Calibration:
    r"""A variance scale and split-conformal scores, both per column, from a set that may have missing targets.

    The scale is $s^2 = (n_0 + \sum_i z_i^2)/(n_0 + n)$ with errors z in predicted standard deviations; the scores are
    $|z_i|/s$, sorted. An entry of y that is NaN was not observed: it counts for no column. With groups, the margins
    are those of `group_margin`, which are valid for rows of a new group. With classes, a row has the margin of the
    scores of its class, which is valid in the class whatever the others are (Mondrian conformal prediction).
    """

    scale: Tensor
    """(*columns), factor on the standard deviation"""
    scores: Tensor
    """(n, *columns), NaN where a column has fewer than n; sorted, NaN at the end, if there are no groups or classes"""
    groups: Tensor | None = None
    """(n,), integers, the group of each row of scores"""
    classes: Tensor | None = None
    """(n,), integers from 0, the class of each row of scores"""

    @classmethod
    def fit(
        cls,
        prediction: Prediction,
        y: Tensor,
        groups: Tensor | None = None,
        rescale: bool = True,
        classes: Tensor | None = None,
    ) -> "Calibration":
        """From predictions and targets, (n, *columns), of a held-out calibration set, and the group of each row.

        Without `rescale` the scale is 1: the variances are right already, and only the margins are wanted. Rows without
        groups may have classes, (n,), integers from 0.
        """
        scores = conformal_scores(prediction, y)
        known = ~torch.isnan(scores)
        scale = torch.ones_like(scores[0])
        if rescale:
            scale = ((PRIOR_ROWS + scores.square().nansum(0)) / (PRIOR_ROWS + known.sum(0))).sqrt()
        if groups is None and classes is None:
            return cls(scale, (scores / scale).sort(0).values)
        if groups is None:
            return cls(scale, scores / scale, None, classes)
        check_groups(groups, len(scores))
        return cls(scale, scores / scale, groups.long().unique(return_inverse=True)[1])

    def apply(self, prediction: Prediction) -> Prediction:
        """The draws, stretched about their mean."""
        return VarianceScale(self.scale)(prediction)

    def interval(self, prediction: Prediction, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Lower and upper ends, conformal, of a prediction that is not calibrated yet (`apply` is done here)."""
        check_columns("Calibration", self.scale.shape, prediction.shape)
        return self.scaled_interval(self.apply(prediction), coverage)

    def scaled_interval(
        self, scaled: Prediction, coverage: float = 0.9, classes: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Lower and upper ends, conformal, of a prediction that `apply` returned, in any unit.

        `classes`, (n,), are those of the rows; rows of a class without scores have the margin of all scores. A column
        with too few scores for this coverage, n < coverage / (1 - coverage), gets the central interval of the scaled
        mixture, with a warning. Too few groups get the margin of the worst group, with a warning.
        """
        margin = self.margin(coverage)
        if classes is not None and self.classes is not None:
            margins = class_margins(self.scores, self.classes, coverage)
            margin = margins[classes.clamp(max=len(margins) - 1)]
        if self.groups is not None:
            n = int(count_groups(self.scores, self.groups).min())
            if not enough_groups(n, coverage):
                warnings.warn(
                    f"{n} groups of calibration are too few to guarantee a coverage of {coverage} for a new group. The "
                    "interval is that of the group with the largest errors, without a guarantee. Name at least "
                    f"{groups_needed(coverage)} groups, or lower the coverage to {n / (n + 1):.3g}.",
                    stacklevel=3,
                )
        lower, upper = interval_around(scaled, margin)
        too_few = margin.isinf()
        if too_few.any():
            n = int((~torch.isnan(self.scores)).sum(0).min())
            warnings.warn(
                f"{n} rows of calibration are too few for a conformal interval of coverage {coverage}. The interval "
                "of the model, calibrated in scale only, takes its place. Fit more rows, or lower the coverage to "
                f"{n / (n + 1):.3g}.",
                stacklevel=3,
            )
            central_lower, central_upper = scaled.interval(coverage)
            lower = torch.where(too_few, central_lower, lower)
            upper = torch.where(too_few, central_upper, upper)
        return lower, upper

    def margin(self, coverage: float) -> Tensor:
        """Conformal margin in scaled standard deviations, (*columns); infinite where there are too few scores."""
        check_probability("coverage", coverage)
        if self.groups is None:
            return conformal_margin(self.scores, coverage)
        return group_margin(self.scores, self.groups, coverage)

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        tensors = {"scale": self.scale, "scores": self.scores}
        optional = {"groups": self.groups, "classes": self.classes}
        return tensors | {name: each for name, each in optional.items() if each is not None}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "Calibration":
        """Inverse of `to_tensors`; folders of older versions have no groups and no classes."""
        scale, scores, groups = tensors["scale"].double(), tensors["scores"].double(), tensors.get("groups")
        classes = tensors.get("classes")
        if scores.ndim != scale.ndim + 1 or scores.shape[1:] != scale.shape or not bool((scale > 0).all()):
            raise ValueError(f"`scores` must have shape (rows, *{tuple(scale.shape)}) and `scale` be above 0.")
        if groups is not None:
            check_groups(groups, len(scores))
        if classes is not None:
            check_groups(classes, len(scores))
            if groups is not None or not ((classes >= 0) & (classes < len(scores))).all() or not len(classes):
                raise ValueError(f"`classes` must be from 0 to {len(scores) - 1}, and without `groups`.")
        return cls(scale, scores, groups, classes)


@dataclass(frozen=True)
class Isotonic(Calibrator):
    r"""Monotone map $R$ per column from predicted to observed level (Kuleshov et al., 2018); the CDF becomes $R(F(y))$.

    It corrects the shape of a distribution, which a scale cannot, and needs more rows: a few hundred per column.
    """

    levels: Tensor
    r"""(KNOTS, *columns), $R^{-1}$ at evenly spaced levels from 0 to 1; straight lines between"""

    @classmethod
    def fit(cls, prediction: Prediction, y: Tensor) -> "Isotonic":
        """From a held-out calibration set."""
        check_rows(prediction, y)
        predicted = prediction.cdf(y)
        eps = torch.finfo(predicted.dtype).eps  # a level of 0 or 1 has an infinite quantile
        columns = predicted.double().clamp(eps, 1 - eps).reshape(len(predicted), -1).T.numpy(force=True)
        levels = np.stack([_inverse_map(column) for column in columns], 1)
        return cls(torch.as_tensor(levels).reshape(KNOTS, *prediction.shape[1:]))

    def __call__(self, prediction: Prediction) -> "Recalibrated":
        """The recalibrated prediction."""
        check_columns("Isotonic", self.levels.shape[1:], prediction.shape)
        return Recalibrated(prediction, self.levels.to(prediction.mean_draws))


@dataclass(frozen=True)
class Recalibrated(Predictor):
    r"""A prediction with CDF $R(F(y))$: quantiles, intervals, mean and standard deviation as those of a `Prediction`.

    It has no draws, hence no split into aleatoric and epistemic variance, and no density: the slope of a fitted map is
    noise. Tails end where the map ends, at the quantile of the last level below 1 in the prediction's precision.
    """

    prediction: Prediction
    levels: Tensor
    """(KNOTS, *columns), see `Isotonic`"""

    @property
    def shape(self) -> torch.Size:
        """Of the entries."""
        return self.prediction.shape

    def cdf(self, y: Tensor) -> Tensor:
        """Probability of a value at most `y`."""
        level = self.prediction.cdf(y)
        knots = self.levels.reshape(len(self.levels), -1)
        return _interpolate(level.reshape(-1, knots.shape[1]), knots).reshape(level.shape)

    def _quantile(self, q: float) -> Tensor:
        knot = q * (len(self.levels) - 1)
        left = min(int(knot), len(self.levels) - 2)
        level = torch.lerp(self.levels[left], self.levels[left + 1], knot - left)
        eps = torch.finfo(level.dtype).eps
        p = self.prediction
        return mixture_quantile(p.mean_draws, p.log_std_draws.exp(), level.clamp(eps, 1 - eps))

    @property
    def variance(self) -> Tensor:
        """Total variance, an integral over quantiles."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        r"""With $q = \Phi(t)$, $E[g(Y)] = \int g(Q(\Phi(t)))\,\varphi(t)\,dt$; the trapezoid rule is accurate."""
        t = torch.linspace(-MOMENT_RANGE, MOMENT_RANGE, MOMENT_NODES, dtype=torch.float64)
        weights = (-t.square() / 2).exp() / (-t.square() / 2).exp().sum()
        values = self.quantile(torch.special.ndtr(t)) - self.prediction.mean  # no cancellation in the square
        weights = weights.to(values).reshape(-1, *(1,) * (values.ndim - 1))
        shift = (weights * values).sum(0)
        return self.prediction.mean + shift, (weights * (values - shift).square()).sum(0)

    def check(self) -> None:
        """Refuse a mean that is not finite and a standard deviation that is not above 0."""
        self.prediction.check()


def _inverse_map(predicted: np.ndarray) -> np.ndarray:
    """$R^{-1}$ at KNOTS even levels, $R$ the isotonic regression of empirical level i / (n + 1) on predicted level."""
    from sklearn.isotonic import IsotonicRegression

    observed = np.arange(1, len(predicted) + 1) / (len(predicted) + 1)
    fitted = IsotonicRegression(y_min=0, y_max=1).fit(np.sort(predicted), observed)
    ends = [0, *fitted.y_thresholds_, 1], [0, *fitted.X_thresholds_, 1]
    return np.interp(np.linspace(0, 1, KNOTS), *ends)


def _interpolate(x: Tensor, knots: Tensor) -> Tensor:
    """Levels 0 to 1 are reached at `knots` (KNOTS, columns); the level at `x` (rows, columns), linear between."""
    last = len(knots) - 1
    right = torch.searchsorted(knots.T.contiguous(), x.T.contiguous()).T.clamp(1, last)
    a, b = knots.gather(0, right - 1), knots.gather(0, right)
    share = (x - a) / (b - a).clamp(min=torch.finfo(x.dtype).tiny)
    return (right - 1 + share.clamp(0, 1)) / last
