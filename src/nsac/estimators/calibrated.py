"""What the calibration part of the data corrects, a column at a time; a column is an output, or a step of a horizon."""

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from nsac.uncertainty import Prediction
from nsac.uncertainty.calibration import VarianceScale
from nsac.uncertainty.checks import check_columns, check_probability

PRIOR = 4.0
"""Rows that say "no correction" and count with those of calibration: few rows must not change the scale much."""


@dataclass(frozen=True)
class Calibration:
    r"""A variance scale and split-conformal scores, both per column.

    The scale is $s^2 = (n_0 + \sum_i z_i^2)/(n_0 + n)$ with errors z in predicted deviations; the scores are
    $|z_i|/s$, sorted. An entry of y that is NaN was not observed: it counts for no column.
    """

    scale: Tensor
    """(*columns), factor on the standard deviation"""
    scores: Tensor
    """(n, *columns), sorted; NaN, at the end, where a column has fewer than n"""

    @classmethod
    def fit(cls, prediction: Prediction, y: Tensor) -> "Calibration":
        """From predictions and targets, (n, *columns), of rows that were used for nothing else."""
        z = ((y - prediction.mean) / prediction.std).detach().double()
        known = ~torch.isnan(z)
        scale = ((PRIOR + z.square().nansum(0)) / (PRIOR + known.sum(0))).sqrt()
        return cls(scale, (z.abs() / scale).sort(0).values)

    def apply(self, prediction: Prediction) -> Prediction:
        """The draws, stretched about their mean."""
        return VarianceScale(self.scale)(prediction)

    def interval(self, prediction: Prediction, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Lower and upper ends, conformal, for a prediction as the model gives it (`apply` is done here).

        A column with too few scores for this coverage, n < coverage / (1 - coverage), gets the central interval of the
        scaled mixture, and a warning says so.
        """
        check_probability("coverage", coverage)
        check_columns("Calibration", self.scale.shape, prediction.shape)
        scaled = self.apply(prediction)
        margin, enough = self.margin(coverage)
        half = margin.to(scaled.mean) * scaled.std
        lower, upper = scaled.mean - half, scaled.mean + half
        if not enough.all():
            n = int((~torch.isnan(self.scores)).sum(0).min())
            warnings.warn(
                f"{n} rows of calibration are too few for a conformal interval of coverage {coverage}. "
                "The model's own, calibrated in scale only, takes its place. Fit more rows, or ask for "
                f"{n / (n + 1):.3g}.",
                stacklevel=3,
            )
            own = scaled.interval(coverage)
            lower, upper = torch.where(enough, lower, own[0]), torch.where(enough, upper, own[1])
        return lower, upper

    def margin(self, coverage: float) -> tuple[Tensor, Tensor]:
        """Score of rank (n + 1) coverage, and whether there is one, per column."""
        n = (~torch.isnan(self.scores)).sum(0)
        rank = ((n + 1) * coverage - 1e-9).ceil().long()
        enough = (rank <= n) & (n > 0)
        if not len(self.scores):
            return torch.zeros_like(self.scale), enough
        chosen = self.scores.gather(0, (rank.clamp(min=1) - 1).clamp(max=len(self.scores) - 1)[None])[0]
        return torch.where(enough, chosen, 0.0), enough

    def to_tensors(self) -> dict[str, Tensor]:
        """For a file."""
        return {"scale": self.scale, "scores": self.scores}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "Calibration":
        """From what `to_tensors` gave."""
        scale, scores = tensors["scale"].double(), tensors["scores"].double()
        if scores.ndim != scale.ndim + 1 or scores.shape[1:] != scale.shape or not bool((scale > 0).all()):
            raise ValueError(f"`scores` must have shape (rows, *{tuple(scale.shape)}) and `scale` be above 0.")
        return cls(scale, scores)
