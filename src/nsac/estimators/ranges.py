"""Ranges of the training rows, and how much a prediction may err beyond them."""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from nsac.estimators.columns import LINEAR_RANGE
from nsac.estimators.kernel import LeftOut

LEFT_OUT_SHARE = 0.25  # share of the rows, at either end of a column, that are left out to measure errors
MIN_LEFT_OUT = 4  # rows from which on such an error is measured
MAX_MEASURED = 50  # columns whose errors are measured; the others have the median
NUM_INDUCING = 256  # inducing rows of the process that predicts the left-out rows
MIN_DISTANCE = 0.25  # least root mean squared distance, in standard deviations, of the left-out rows from the others
MIN_SLOPE, DEFAULT_SLOPE = 0.1, 1.0  # least slope, and slope if none could be measured: target stds per column std
NOTABLE_DISTANCE = 0.05  # share of the range beyond which a row counts as outside


@dataclass(frozen=True)
class Ranges:
    r"""Variance of the mean outside the training range, as large as the errors of a straight line nobody has checked.

    $$V(x) = \sum_j c_j^2\,d_j^2$$

    with the distance $d_j$ of number j beyond the range, in standard deviations of the column. The slope $c_j$ is
    measured at either end: a quarter of the rows is left out there, and c^2 is their squared error over their squared
    distance from the others.
    """

    lower: Tensor  # (numbers,), least value in training, in standard deviations, as the following
    upper: Tensor
    slope_lower: Tensor  # (numbers,), target standard deviations per standard deviation of the column
    slope_upper: Tensor

    @classmethod
    def fit(cls, x: Tensor, left_out: LeftOut, y: Tensor) -> "Ranges":
        """From standardised numbers, (n, numbers), NaN = missing, and targets, (n, outputs)."""
        values = _unbounded(x.double())
        lower = values.nan_to_num(nan=torch.inf).amin(0) if len(values) else values.sum(0)
        upper = values.nan_to_num(nan=-torch.inf).amax(0) if len(values) else values.sum(0)
        few = left_out.reduced(NUM_INDUCING) if values.shape[1] else left_out
        slopes = [_slopes(values, sign, few, y) for sign in (-1, 1)]
        return cls(lower.nan_to_num(posinf=0), upper.nan_to_num(neginf=0), *slopes)

    def distance(self, x: Tensor) -> Tensor:
        """How far each number is beyond the range, (n, numbers), signed; 0 inside and where it is missing."""
        values = _unbounded(x.double())
        beyond = (values - self.upper).clamp(min=0) - (self.lower - values).clamp(min=0)
        return beyond.nan_to_num(nan=0.0)

    def variance(self, x: Tensor) -> Tensor:
        """V, (n,)."""
        beyond = self.distance(x)
        slope = torch.where(beyond > 0, self.slope_upper, self.slope_lower)
        return (slope * beyond).square().sum(1)

    def outside(self, x: Tensor) -> Tensor:
        """Whether a row is notably outside the range of any number, (n,)."""
        return (self.distance(x).abs() > NOTABLE_DISTANCE * (self.upper - self.lower)).any(1)

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], numbers: int) -> "Ranges":
        """Inverse of `to_tensors`."""
        ranges = cls(*(tensors[field.name].double() for field in fields(cls)))
        if any(tuple(each.shape) != (numbers,) for each in ranges.to_tensors().values()):
            raise ValueError(f"Ranges must have {numbers} numbers.")
        return ranges


def _unbounded(x: Tensor) -> Tensor:
    """Inverse of the logarithmic part of `standardise`: standard deviations from the centre."""
    size = x.abs()
    far = LINEAR_RANGE + torch.expm1((size - LINEAR_RANGE).clamp(min=0, max=30))
    return x.sign() * torch.where(size > LINEAR_RANGE, far, size)


def _slopes(values: Tensor, sign: int, left_out: LeftOut, y: Tensor) -> Tensor:
    """Root mean squared error per distance when the highest (sign 1) or lowest values of a column are left out."""
    squares = torch.full((values.shape[1],), torch.nan).double()
    for j in range(min(values.shape[1], MAX_MEASURED)):
        column = sign * values[:, j]
        known = column[~column.isnan()]
        if not len(known):
            continue
        cut = np.quantile(known.numpy(), 1 - LEFT_OUT_SHARE)
        rows = torch.nonzero(column > cut)[:, 0]
        if MIN_LEFT_OUT <= len(rows) <= len(values) // 2:
            mean, _ = left_out.predict(rows)
            error, distance = (y[rows] - mean).square().mean(), (column[rows] - cut).square().mean()
            squares[j] = error / distance.clamp(min=MIN_DISTANCE**2)
    squares = torch.where(squares.isnan(), squares.nanmedian().nan_to_num(nan=DEFAULT_SLOPE**2), squares)
    return squares.sqrt().clamp(min=MIN_SLOPE)
