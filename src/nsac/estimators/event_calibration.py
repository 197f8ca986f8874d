"""Calibration of forecasts at any lead time, by target, bins of lead time and missing channels; correlated errors."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nsac._checks import check_probability
from nsac.estimators.patterns import MissingPatterns
from nsac.estimators.samples import nearest_correlation
from nsac.uncertainty import Prediction, conformal_margin, enough_groups, group_margin
from nsac.uncertainty.calibration import PRIOR_ROWS

BINS = 8  # of lead time for each target, at most
MIN_BIN_SCORES = 100  # fewest scores of a bin, if there is more than one, and of a pattern of missing channels
MIN_PATTERN_SERIES = 50  # fewest series with a pattern: a margin that is valid for a new one is wide if they are few
MAX_SCORES = 50_000  # scores that are kept
MAX_PAIR_ENTRIES = 24  # forecasts of one origin whose pairs are used to estimate correlations
EXPONENTS = (0.03, 0.06, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of the correlation over lead time that are compared
MODEL_BLOCKS = 4.0  # blocks of time, each a horizon long, that the spread of the model itself counts for
PRIOR_PAIRS = 50.0  # pairs that a correlation of 0 between two targets counts for
SHARED_CORRELATION, SHARED_ERRORS = 0.2, 3.0  # from which on series share shocks, if above so many standard errors
GROUP_COVERAGE = 0.9  # margins of all coverages are those of a new series if there are enough series for this one
PATTERNS = "patterns."  # prefix of the names of their tensors in a file


@dataclass(frozen=True)
class EventCalibration:
    """A variance scale and conformal scores, per target and bin of lead time, and the correlation of errors.

    A cell is a target, a bin of lead time, and a class of rows by the channels that were not observed within the
    lookback: coverage holds in each class that has enough scores.
    """

    edges: Tensor  # (targets, BINS - 1), upper edges of the bins of lead time
    scale: Tensor  # (targets * BINS,), factor on the standard deviation
    scores: Tensor  # (n,), absolute errors, over the standard deviation times their root mean square
    column: Tensor  # (n,), target times BINS plus bin
    groups: Tensor  # (n,), number of the series
    by_series: bool  # whether margins are those of a new series
    exponent: float  # of the correlation over lead time
    weight: float  # of that correlation; the rest of an error is its own
    between: Tensor  # (targets, targets), correlation of errors of two targets at one time
    gap: float  # time that is added to lead times where they are compared
    patterns: MissingPatterns | None = None  # classes of rows; None: no channel is missing
    classes: Tensor | None = None  # (n,), class of each score; None without patterns
    factor: Tensor | None = None  # (targets * BINS,), on margins, adapted to later observations; None: 1

    @classmethod
    def fit(
        cls, p: Prediction, y: Tensor, target: Tensor, lead: Tensor, groups: Tensor, by_series: bool, targets: int,
        horizon: float, trust: float = 1.0, channels: Tensor | None = None,
    ) -> "EventCalibration":  # fmt: skip
        """From predictions and observed values of a calibration set, (n,) each; `trust` is as in `trust_of`.

        `channels` are (n, channels), see `classify`.
        """
        errors = ((y - p.mean) / p.std).double()
        edges = torch.full((targets, BINS - 1), 2 * horizon, dtype=torch.float64)
        for t in range(targets):
            own = lead[target == t].double()
            bins = min(BINS, max(1, len(own) // MIN_BIN_SCORES))
            if bins > 1:
                levels = torch.linspace(0, 1, bins + 1, dtype=torch.float64)[1:-1]
                edges[t, : bins - 1] = torch.quantile(own[:: -(-len(own) // 100_000)], levels)
        column = _columns(edges, target, lead)
        zero = torch.zeros(targets * BINS, dtype=torch.float64)
        total, count = zero.index_add(0, column, errors.square()), zero.index_add(0, column, torch.ones_like(errors))
        found = ((PRIOR_ROWS + total) / (PRIOR_ROWS + count)).sqrt()
        scale = found * found.clamp(max=1) ** (trust - 1)
        kept = torch.from_numpy(np.linspace(0, len(errors) - 1, min(len(errors), MAX_SCORES)).round().astype(np.int64))
        scores = (errors.abs() / found[column])[kept]
        patterns = None if channels is None else MissingPatterns.fit({"x": channels})
        classes = None if patterns is None or channels is None else patterns.classify({"x": channels})[kept]
        return cls(
            edges, scale, scores, column[kept], groups[kept], by_series, 1.0, 0.0,
            torch.eye(targets, dtype=torch.float64), horizon / 100, patterns, classes,
        )  # fmt: skip

    def classify(self, channels: Tensor) -> Tensor:
        """Class of rows, (rows,), whose `channels` are NaN where nothing was observed within the lookback."""
        if self.patterns is None:
            return torch.zeros(len(channels), dtype=torch.int64)
        return self.patterns.classify({"x": channels})

    def cells(self, target: Tensor, lead: Tensor, number: Tensor | int) -> Tensor:
        """Cells of forecasts of these targets and lead times, in rows of these classes, (n,)."""
        return _columns(self.edges, target, lead) + number * len(self.scale)

    def apply(self, p: Prediction, cell: Tensor) -> Prediction:
        """The draws, stretched about their mean."""
        factor = self.scale[cell % len(self.scale)]
        return p.affine(factor, (1 - factor) * p.mean)

    def interval(self, scaled: Prediction, cell: Tensor, coverage: float) -> tuple[Tensor, Tensor]:
        """Lower and upper ends, conformal, of a prediction that `apply` returned, in any unit.

        Where there are too few scores, even for all targets and lead times together, the interval is the central one of
        the mixture, and at least that of the largest score.
        """
        margin = self.margins(coverage).flatten()[cell]
        lower, upper = scaled.mean - margin * scaled.std, scaled.mean + margin * scaled.std
        if margin.isinf().any():
            warnings.warn(
                f"{len(self.scores)} forecasts of calibration are too few for a conformal interval of coverage "
                f"{coverage}. The interval of the model, calibrated in scale only, takes its place. Fit more rows.",
                stacklevel=4,
            )
            factor = 1.0 if self.factor is None else self.factor[cell % len(self.scale)]
            below, above = (factor * (end - scaled.mean).abs() for end in scaled.interval(coverage))
            half = factor * self.scores.max() * scaled.std
            lower = torch.where(margin.isinf(), scaled.mean - torch.maximum(below, half), lower)
            upper = torch.where(margin.isinf(), scaled.mean + torch.maximum(above, half), upper)
        return lower, upper

    def margins(self, coverage: float) -> Tensor:
        """Conformal margins, (classes + 1, targets * BINS); the last ones are those of all patterns.

        A class of rows with few scores in a bin has the margin of its scores at all lead times, or with few of those
        the margin of all patterns; a bin with too few scores has that of all together, but no less than its largest
        score. Which scores count does not depend on the coverage, so intervals are nested.
        """
        margins = self._static_margins(coverage)
        return margins if self.factor is None else margins * self.factor

    def _static_margins(self, coverage: float) -> Tensor:
        check_probability("coverage", coverage)
        together = self._margin(torch.ones_like(self.column, dtype=torch.bool), coverage)
        of_all = together.expand_as(self.scale).clone()
        for c in self.column.unique().tolist():
            of_all[c] = self._margin(self.column == c, coverage, together)
        if self.patterns is None or self.classes is None:
            return of_all[None]
        margins = of_all.repeat(self.patterns.n_classes + 1, 1)
        for number in range(self.patterns.n_classes):
            for target in range(len(self.edges)):
                own = (self.classes == number) & (self.column // BINS == target)
                if self._are_enough(own):
                    bins = slice(BINS * target, BINS * (target + 1))
                    margins[number, bins] = self._margin(own, coverage, of_all[bins])
                for c in self.column[own].unique().tolist():
                    if self._are_enough(own & (self.column == c)):
                        margins[number, c] = self._margin(own & (self.column == c), coverage, of_all[c])
        return margins

    def _are_enough(self, chosen: Tensor) -> bool:
        """Whether these scores of a class of rows have a margin of their own."""
        if int(chosen.sum()) < MIN_BIN_SCORES:
            return False
        return not self.by_series or len(self.groups[chosen].unique()) >= MIN_PATTERN_SERIES

    def _margin(self, chosen: Tensor, coverage: float, fallback: Tensor | None = None) -> Tensor:
        """Margin of these scores; with too few of them the fallback, but no less than the largest."""
        scores, groups = self.scores[chosen], self.groups[chosen]
        if self.by_series and enough_groups(len(groups.unique()), GROUP_COVERAGE):
            return group_margin(scores, groups, coverage)
        margin = conformal_margin(scores, coverage)
        return torch.maximum(fallback, scores.max()) if fallback is not None and margin.isinf() else margin

    def correlation(self, target: Tensor, lead: Tensor) -> Tensor:
        """Correlation of the errors of forecasts of one origin, (n, n)."""
        near = _nearness(lead, self.gap, self.exponent)
        matrix = self.between[target[:, None], target] * self.weight * near
        return matrix + torch.diag(1 - matrix.diagonal())

    def with_correlation(self, z: Tensor, target: Tensor, lead: Tensor, row: Tensor, gap: float) -> "EventCalibration":
        r"""Learn the correlation from normal scores z of the calibration set; `row` is the origin of each.

        Two errors of one target at lead times $s < t$ have the correlation $w ((s + g)/(t + g))^a$.
        """
        first, second = _pairs(row)
        product = (z[first] * z[second]) / z.square().mean().clamp(min=1e-12)
        same = target[first] == target[second]
        leads = torch.stack([lead[first], lead[second]]).double() + gap
        ratio = leads.amin(0) / leads.amax(0)
        best = (math.inf, 1.0, 0.0)
        for exponent in EXPONENTS:
            near, own = ratio[same] ** exponent, product[same]
            weight = float(((near * own).sum() / near.square().sum().clamp(min=1e-12)).clamp(0, 0.999))
            best = min(best, (float((own - weight * near).square().mean()), exponent, weight))
        _, exponent, weight = best
        targets = len(self.between)
        near = weight * ratio**exponent
        place = target[first] * targets + target[second]
        zero = torch.zeros(targets**2, dtype=torch.float64)
        cross = zero.index_add(0, place, near * product).view(targets, targets)
        square = zero.index_add(0, place, near.square()).view(targets, targets)
        count = zero.index_add(0, place, torch.ones_like(near)).view(targets, targets)
        cross, square, count = (each + each.T for each in (cross, square, count))
        between = (cross / square.clamp(min=1e-12) * count / (count + PRIOR_PAIRS)).clamp(-1, 1)
        between = nearest_correlation(between.fill_diagonal_(1.0)) if len(z) else self.between
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return EventCalibration(**values | {"exponent": exponent, "weight": weight, "between": between, "gap": gap})

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        numbers = torch.tensor([self.exponent, self.weight, self.gap, float(self.by_series)], dtype=torch.float64)
        tensors = {name: getattr(self, name) for name in ("edges", "scale", "scores", "column", "groups", "between")}
        if self.patterns is not None and self.classes is not None:
            tensors |= {PATTERNS + name: each for name, each in self.patterns.to_tensors().items()}
            tensors["classes"] = self.classes
        return tensors | {"correlation": numbers}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], targets: int) -> "EventCalibration":
        """Inverse of `to_tensors`, checked."""
        n = len(tensors["scores"])
        shapes = {"edges": (targets, BINS - 1), "scale": (targets * BINS,), "scores": (n,), "column": (n,)}
        shapes |= {"groups": (n,), "between": (targets, targets), "correlation": (4,)}
        for name, shape in shapes.items():
            if tuple(tensors[name].shape) != shape:
                raise ValueError(f"Tensor {name!r} must have shape {shape}. Got {tuple(tensors[name].shape)} instead.")
        column, groups = tensors["column"].long(), tensors["groups"].long()
        exponent, weight, gap, by_series = tensors["correlation"].double().tolist()
        inside = not n or (int(column.min()) >= 0 and int(column.max()) < targets * BINS)
        if not inside or not bool((tensors["scale"] > 0).all()) or not (0 <= weight <= 1 and exponent > 0 and gap > 0):
            raise ValueError("Scales, bins and correlations of the calibration must be possible ones.")
        if bool((tensors["scores"] < 0).any()) or bool(tensors["scores"].isnan().any()):
            raise ValueError("`scores` must be at least 0.")
        floats = {name: tensors[name].double() for name in ("edges", "scale", "scores", "between")}
        patterns = classes = None
        if "classes" in tensors:
            stored = {name.removeprefix(PATTERNS): each for name, each in tensors.items() if name.startswith(PATTERNS)}
            patterns, classes = (
                MissingPatterns.from_tensors(stored, stored["learned"].numel()),
                tensors["classes"].long(),
            )
            if classes.shape != (n,) or (n and not 0 <= int(classes.min()) <= int(classes.max()) < patterns.n_classes):
                raise ValueError(f"`classes` must be {n} numbers from 0 to {patterns.n_classes - 1}.")
        return cls(
            floats["edges"], floats["scale"], floats["scores"], column, groups, bool(by_series), exponent, weight,
            floats["between"], gap, patterns, classes,
        )  # fmt: skip


def shared_correlation(z: Tensor, series: np.ndarray, times: np.ndarray, horizon: float) -> tuple[float, float]:
    """Correlation of the errors z of two series in the same block of time, a horizon long, and its standard error.

    Predictable common cycles leave none; shocks that series share do. Both are 0 where series do not overlap.
    """
    cells, place = np.unique(np.stack([np.floor(times / horizon), series], 1), axis=0, return_inverse=True)
    means = np.bincount(place, z.numpy()) / np.bincount(place)  # of a series in a block
    block = np.unique(cells[:, 0], return_inverse=True)[1]
    count, total, square = np.bincount(block), np.bincount(block, means), np.bincount(block, means**2)
    pairs, product = count * (count - 1) / 2, (total**2 - square) / 2
    variance = square.sum() / max(count.sum(), 1)
    if not pairs.sum() or variance == 0:
        return 0.0, 0.0
    correlation = product.sum() / pairs.sum() / variance
    return float(correlation), float(np.linalg.norm(product / variance - correlation * pairs) / pairs.sum())


def trust_of(times: np.ndarray, horizon: float) -> float:
    r"""Exponent of scales below 1 that are learned from forecasts at these times, the latest of the training rows.

    Errors of forecasts that overlap are alike: B blocks of time, each a horizon long, count for B errors, whatever the
    number of forecasts. A quiet time would make all intervals narrow, so a scale $s < 1$ of the model's standard
    deviation becomes $s^{B/(B + B_0)}$; larger ones stay.
    """
    blocks = len(np.unique(np.floor((times - times.min()) / horizon)))
    return blocks / (blocks + MODEL_BLOCKS)


def _columns(edges: Tensor, target: Tensor, lead: Tensor) -> Tensor:
    return target * BINS + (lead[:, None] > edges[target]).sum(1)


def _nearness(lead: Tensor, gap: float, exponent: float) -> Tensor:
    later = lead.double() + gap
    return (torch.minimum(later[:, None], later) / torch.maximum(later[:, None], later)) ** exponent


def _pairs(row: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of entries of one row; of a row with many entries evenly spaced ones. Rows ascend."""
    edges = np.flatnonzero(np.diff(row.numpy(), prepend=-1, append=-1))
    firsts, seconds = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        entries = np.linspace(start, stop - 1, min(stop - start, MAX_PAIR_ENTRIES)).round().astype(np.int64)
        i, j = np.triu_indices(len(entries), 1)
        firsts.append(entries[i])
        seconds.append(entries[j])
    return torch.from_numpy(np.concatenate(firsts)), torch.from_numpy(np.concatenate(seconds))
