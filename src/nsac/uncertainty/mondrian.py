"""Conformal margins that are valid in each class of rows (Mondrian conformal prediction)."""

import torch
from torch import Tensor

from nsac.uncertainty.conformal import conformal_margin


def class_margins(scores: Tensor, classes: Tensor, coverage: float) -> Tensor:
    """Conformal margin of each class, (classes + 1, *columns); the last one is that of all scores, for other classes.

    If the calibration rows of a class and a new row of this class are exchangeable, its interval covers the new row
    with probability at least `coverage`, whatever the other classes are. A class with too few scores for this coverage
    has its largest score, or the margin of all scores if that is larger, without a guarantee.

    Args:
        scores: (n, *columns), in any order; NaN where not observed.
        classes: (n,), integers from 0.
        coverage: strictly between 0 and 1.
    """
    of_all = conformal_margin(scores, coverage)
    margins = []
    for number in range(int(classes.max()) + 1):
        own = scores[classes == number]
        margin = conformal_margin(own, coverage)
        largest = torch.cat([own.nan_to_num(nan=0.0), of_all[None]]).amax(0)
        margins.append(torch.where(margin.isinf(), largest, margin))
    return torch.stack([*margins, of_all])
