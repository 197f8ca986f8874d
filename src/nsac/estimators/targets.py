"""The scale on which targets are learned: a link chosen by the data, and standardisation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.kernel import Kernel
from nsac.uncertainty import Link

MIN_SPREAD = 3.0  # largest over smallest target from which on a logarithm is considered
MAX_LOG_STD = 1.0  # largest epistemic standard deviation of the logarithm of a target
MAX_SCORE_RATIO = 0.98  # CRPS over that of the plainest link from which on a link is not worth it
MIN_ROWS, MAX_ROWS = 30, 300  # rows from which on links are compared, and rows that compare them
FOLDS, QUANTILES = 8, 19  # parts that are left out, and quantile levels whose pinball losses make the CRPS


def max_epistemic(link: Link, scale: np.ndarray) -> Tensor | None:
    """Largest epistemic variance of standardised targets, (outputs,), or None: the logarithm of a target may be unknown
    by a factor e, not more, because the mean of its exponential would exceed everything.
    """
    return torch.from_numpy((MAX_LOG_STD / scale) ** 2) if link.name == "log" else None


def check_range(target_range: Any) -> tuple[float | None, float | None]:
    """Lower and upper bound of the targets, either of them None."""
    if target_range is None:
        return None, None
    try:
        lower, upper = (None if bound is None else float(bound) for bound in target_range)
        fits = lower is None or upper is None or lower < upper
    except (TypeError, ValueError):
        fits, lower, upper = False, None, None
    if not fits:
        raise ValueError(
            "`target_range` must be a lower and a larger upper bound, either of which may be None, such as (0, None). "
            f"Got {target_range!r} instead."
        )
    return lower, upper


def choose_link(x: Tensor, y: np.ndarray, target_range: Any, groups: Sequence[int], order: np.ndarray) -> Link:
    """The link with which a Gaussian process predicts left-out rows best, among those that the range allows.

    A link is taken instead of the plainest one if the continuous ranked probability score falls by 2 %, and the mean
    absolute error does not rise.

    Args:
        x: rows as vectors, (n, inputs).
        y: (n, outputs).
        target_range: as the user gave it.
        groups: inputs that share a length scale.
        order: row numbers; the first ones are used.
    """
    lower, upper = check_range(target_range)
    names = ["identity"]
    if lower is not None and upper is not None:
        names = ["logit"]
    elif lower is not None or upper is not None:
        names = ["softplus", "log"]
    elif y.min() > 0 and y.max() > MIN_SPREAD * y.min():
        names, lower = ["identity", "softplus", "log"], 0.0
    targets = torch.tensor(y)
    links = [Link.fit(name, targets, None if name == "identity" else lower, upper) for name in names]
    if len(links) == 1 or len(y) < MIN_ROWS:
        return links[0]
    rows = torch.from_numpy(order[:MAX_ROWS].copy())
    errors, scores = zip(*(_left_out_scores(x[rows], targets, rows, link, groups) for link in links), strict=True)
    allowed = [i for i, error in enumerate(errors) if error <= errors[0]]
    best = min(allowed, key=lambda i: scores[i])
    return links[best] if scores[best] < MAX_SCORE_RATIO * scores[0] else links[0]


def _left_out_scores(x: Tensor, y: Tensor, rows: Tensor, link: Link, groups: Sequence[int]) -> tuple[float, float]:
    """Mean absolute error and CRPS, in the unit of y, of left-out rows."""
    z = link.forward(y)
    std, centre = torch.std_mean(z, 0)
    targets = (z[rows] - centre) / std
    kernel, left_out = Kernel.fit(x, targets, groups, None, torch.Generator().manual_seed(0), quick=True)
    folds = torch.arange(len(rows)).chunk(FOLDS)
    mean, variance = (torch.cat(column) for column in zip(*(left_out.predict(fold) for fold in folds), strict=True))
    spread = (variance + kernel.variances[3]).sqrt()[:, None]
    levels = torch.arange(1, QUANTILES + 1).double() / (QUANTILES + 1)
    quantiles = mean + spread * torch.special.ndtri(levels)[:, None, None]
    difference = y[rows] - link.inverse(quantiles * std + centre)  # levels, rows, outputs
    pinball = torch.maximum(levels[:, None, None] * difference, (levels[:, None, None] - 1) * difference)
    unit = y.std(0)  # outputs may have different units
    return float((difference[QUANTILES // 2].abs() / unit).mean()), float((2 * pinball / unit).mean())
