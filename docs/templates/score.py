"""Template of a score: copy the function to `src/nsac/uncertainty/scores.py`, and export it in `__init__.py` there.

The pinball loss of one quantile.
"""

import torch
from torch import Tensor

from nsac._checks import check_probability
from nsac.uncertainty.prediction import Predictor, check_pair
from nsac.uncertainty.scores import Score


def pinball(prediction: Predictor, y: Tensor, quantile: float = 0.9, *, reduce: bool = True) -> Score:
    r"""Pinball loss of the predicted quantile $q$ at level $\tau$: $\max(\tau(y - q), (\tau - 1)(y - q))$. Proper."""
    check_pair(prediction, y)  # shapes, NaN, standard deviations that are not positive
    check_probability("quantile", quantile)
    residual = y - prediction.quantile(quantile)
    each = torch.maximum(quantile * residual, (quantile - 1) * residual)
    return each.mean().item() if reduce else each
