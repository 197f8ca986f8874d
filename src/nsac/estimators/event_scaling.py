r"""Offset and scale of every series and channel, from its own observations before a forecast origin.

With n observations of mean m and variance v in the lookback, and $v_0$ the variance that is typical of series of that
size, offset and scale are
$$o = \frac{n m + k \mu}{n + k},\quad k = \min(v_0, v_1) / b,\qquad s^2 = \frac{n v + n_0 v_0}{n + n_0},$$
with $\mu$ the mean and $b$ the variance of the means of all series, and $v_1$ the variance of a typical one: a series
that is new is taken for a typical one, and its own observations soon count for more. $\log v_0$ is linear in
$\log |m|$, as large series often vary more.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac.estimators.new_rows import FAR, usual_range
from nsac.training import EventsData

PRIOR_COUNT = 2.0  # n_0, observations that the typical variance counts for
MIN_RELATIVE_SCALE = 0.02  # least scale of a series, over the typical one of its size
RELATIVE_ROUNDING = 1e-12  # of values of that size; a series that varies less is constant
QUARTILE_WIDTH = 1.35  # distance of the quartiles of a normal distribution, in standard deviations
MIN_SIZE = 1e-3  # sizes of series are counted from this fraction of their root mean square on
SLOPE_STD, MIN_RESIDUAL = 0.5, 0.1  # prior of the slope of log std over log size; least variance of its residuals
MAX_SLOPE = 1.5
UNITS_CHUNK = 1024  # rows in memory at once


class SeriesScale(NamedTuple):
    """What is typical of a channel over all series, all (channels,)."""

    mean: Tensor  # of the means of the series
    std: Tensor  # of a value of an unknown series
    between: Tensor  # variance of the means of the series
    size: Tensor  # added to the size of a series, before its logarithm
    level: Tensor  # log standard deviation of a series of size 1
    slope: Tensor  # its change with the logarithm of the size
    typical: Tensor  # standard deviation of a typical series

    @classmethod
    def fit(cls, values: np.ndarray, channel: np.ndarray, series: np.ndarray, channels: int) -> "SeriesScale":
        """From training observations, all (n,)."""
        rows = [_fit_channel(values[channel == c], series[channel == c]) for c in range(channels)]
        return cls(*(torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True)))

    def typical_std(self, centre: Tensor) -> Tensor:
        """Standard deviation that is typical of series with these means, (..., channels)."""
        return (self.level + self.slope * (centre.abs() + self.size).log()).exp()

    def of_rows(self, data: EventsData, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Offset and scale of these rows, each from its own observations, (B, channels) both."""
        return self.offset_and_scale(*data.moments(rows, len(self.mean)))

    def levels(self, data: EventsData) -> Tensor:
        """Where the offset and scale of each row lie among all series, within -1 and 1, (rows, 2 * channels).

        Values that are standardised by series do not show it. 0 for a channel without an observation.
        """
        found = []
        for rows in torch.arange(len(data)).split(UNITS_CHUNK):
            count, centre, variance = data.moments(rows, len(self.mean))
            offset, std = self.offset_and_scale(count, centre, variance)
            place = torch.tanh((offset - self.mean) / self.between.sqrt() / 2)
            width = torch.tanh((std / self.typical_std(centre)).log() / 2)
            known = count > 0
            found.append(torch.cat([place.where(known, 0.0), width.where(known, 0.0)], 1))
        return torch.cat(found) if found else torch.zeros(0, 2 * len(self.mean), dtype=torch.float64)

    def offset_and_scale(self, count: Tensor, centre: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Offset and scale from the number, mean and variance of the observations of a series, all (B, channels)."""
        prior = self.typical_std(centre).square()
        shrinkage = torch.minimum(prior, self.typical.square()) / self.between
        offset = (count * centre + shrinkage * self.mean) / (count + shrinkage)
        square = (count * variance + PRIOR_COUNT * prior) / (count + PRIOR_COUNT)
        scale = square.clamp(min=MIN_RELATIVE_SCALE**2 * prior).sqrt()
        known = count > 0
        return torch.where(known, offset, self.mean), torch.where(known, scale, self.std)


def _fit_channel(values: np.ndarray, series: np.ndarray) -> tuple[float, ...]:
    """The fields of a `SeriesScale`, of one channel."""
    if not len(values):
        return 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0
    values = _without_outliers(values, series)
    names, codes = np.unique(series, return_inverse=True)
    count = np.bincount(codes)
    means = np.bincount(codes, weights=values) / count
    residual = values - means[codes]
    total = np.bincount(codes, weights=residual**2)
    several = count > 1
    stds = np.sqrt(total[several] / (count[several] - 1))
    spread = float(values.std())
    floor = RELATIVE_ROUNDING * max(float(np.sqrt((values**2).mean())), 1e-12)
    size = max(MIN_SIZE * float(np.sqrt((means**2).mean())), 1e-12)
    x, y = np.log(np.abs(means[several]) + size), np.log(np.maximum(stds, floor))
    kept = stds > floor
    slope, level = 0.0, float(np.log(max(spread, floor)))
    usual = float(np.exp(level))
    if kept.any():
        x, y, weight = x[kept], y[kept], np.sqrt(count[several][kept])
        centre = np.average(x, weights=weight), np.average(y, weights=weight)
        dx, dy = x - centre[0], y - centre[1]
        steepest = (dx * dy).sum() / max((dx**2).sum(), 1e-12)
        residual_variance = max(float(np.mean((dy - steepest * dx) ** 2)), MIN_RESIDUAL)
        slope = float((dx * dy).sum() / ((dx**2).sum() + residual_variance / SLOPE_STD**2))
        slope = float(np.clip(slope, -MAX_SLOPE, MAX_SLOPE))
        level, usual = float(centre[1] - slope * centre[0]), float(np.exp(centre[1]))
    typical = np.exp(level + slope * np.log(np.abs(means) + size))
    between = max(float(means.var()) - float(np.mean(typical**2 / count)), 1e-3 * float(np.mean(typical**2)))
    std = float(np.sqrt(between + np.mean(typical**2))) if len(names) > 1 else max(spread, float(typical.mean()))
    return float(means.mean()), std, between, size, level, slope, usual


def _without_outliers(values: np.ndarray, series: np.ndarray) -> np.ndarray:
    """Values far from the others of their series, cut: one error code must not set the scale of every series.

    Far is measured by the middle of all values, or by that of the series where it is wider.
    """
    quartiles = pd.Series(values).groupby(series)
    centre, low, high = (quartiles.transform("quantile", q).to_numpy() for q in (0.5, 0.25, 0.75))
    limit = FAR * np.maximum(usual_range(values)[1], (high - low) / QUARTILE_WIDTH)
    return np.where(limit > 0, np.clip(values, centre - limit, centre + limit), values)
