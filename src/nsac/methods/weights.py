"""Weights of several models, from their errors on rows that none of them was trained on."""

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

MEDIAN_TO_STD = 1.4826  # standard deviation of Gaussian errors over the median of their size
HUBER_WIDTH = 3.0  # robust standard deviations from which on a row counts less for the weights
ROBUST_STEPS = 5  # times that these rows are found anew


def robust_weights(means: np.ndarray, y: np.ndarray, row_weight: np.ndarray) -> Tensor:
    """Non-negative least squares; rows with large errors count as if their error were smaller.

    Args:
        means: predictions of the models, (models, rows).
        y: observed values, (rows,).
        row_weight: weight of each row, (rows,).
    """
    w = np.full(len(means), 1 / len(means))
    for _ in range(ROBUST_STEPS):
        error = np.abs(y - w @ means)
        limit = HUBER_WIDTH * MEDIAN_TO_STD * np.median(error) + 1e-12
        root = np.sqrt(row_weight * np.minimum(1, limit / np.maximum(error, limit)))
        w, _ = nnls((root * means).T, root * y)
    return torch.from_numpy(w)
