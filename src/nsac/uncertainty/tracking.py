r"""Factors on conformal margins that follow a stream of forecasts, at any times.

A margin $m$ of coverage $1 - \alpha$ becomes $f m$. Whenever values are observed,
$\log f \leftarrow \log f + \eta(err - \alpha)$, with $err$ the share of their forecasts whose error is above $f m$:
quantile tracking (Angelopoulos, Candes and Tibshirani, 2023) of the logarithm of the margin. Over T updates the mean of
$err - \alpha$ is $(\log f_T - \log f_0)/\eta T$, so the coverage approaches the nominal one whatever the stream does,
as long as f stays between its bounds. At the minimum intervals are wider than that, so that they are soon right again
after a time without errors (a sensor that is stuck).
"""

import itertools
import math

import numpy as np

STEP_SIZE = 0.02
"""Step size of the recursion: a miss of a 90 % interval makes the next ones 1.8 % wider, a hit 0.2 % narrower."""
MIN_LOG_FACTOR, MAX_LOG_FACTOR = math.log(0.5), math.log(10.0)
"""Bounds of the logarithm: intervals are from half to ten times as wide as calibrated."""


def track_margins(
    log_factor: np.ndarray, times: np.ndarray, column: np.ndarray, ratio: np.ndarray, coverage: float
) -> tuple[np.ndarray, np.ndarray]:
    """Factors after forecasts came due, (columns,), and the one that each forecast was compared with, (n,); logarithms.

    Forecasts of one column that come due at the same time are one update.

    Args:
        log_factor: (columns,), logarithm of the factors before.
        times: (n,), when a forecast came due, ascending.
        column: (n,), its column, for instance a bin of lead times.
        ratio: (n,), its absolute error over the margin without a factor.
        coverage: of the intervals.
    """
    log_factor, compared = log_factor.copy(), np.empty(len(times))
    edges = np.append(np.flatnonzero(np.append(True, np.diff(times) != 0)[: len(times)]), len(times))
    for first, stop in itertools.pairwise(edges):
        own = column[first:stop]
        compared[first:stop] = log_factor[own]
        missed = ratio[first:stop] > np.exp(log_factor[own])
        count, misses = (np.bincount(own, weights, len(log_factor)) for weights in (None, missed))
        log_factor += STEP_SIZE * (misses / np.maximum(count, 1) - (1 - coverage)) * (count > 0)
        log_factor = np.clip(log_factor, MIN_LOG_FACTOR, MAX_LOG_FACTOR)
    return log_factor, compared
