"""The predicted distribution: a Gaussian mixture of draws, and its aleatoric and epistemic variance."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from nsac._checks import check_probability, check_std, check_values
from nsac.core import decompose, mixture_cdf, mixture_log_prob, mixture_quantile

if TYPE_CHECKING:
    import numpy as np
    from pandas import DataFrame


class Predictor(ABC):
    """One distribution per entry, whatever its family: the interface of most scores and of conformal intervals."""

    shape: torch.Size
    """of the entries: rows first, then outputs or lead times"""
    variance: Tensor
    """total variance"""
    _moments: tuple[Tensor, ...]
    """the mean first"""

    @abstractmethod
    def cdf(self, y: Tensor) -> Tensor:
        """Probability of a value at most `y`."""

    @abstractmethod
    def check(self) -> None:
        """Refuse a mean that is not finite and a standard deviation that is not above 0."""

    @abstractmethod
    def _quantile(self, q: float) -> Tensor: ...

    @property
    def mean(self) -> Tensor:
        """Predictive mean."""
        return self._moments[0]

    @property
    def std(self) -> Tensor:
        """Square root of the total variance."""
        return self.variance.sqrt()

    def quantile(self, q: float | Sequence[float] | Tensor) -> Tensor:
        """The value that is not exceeded with probability `q`; for several levels (levels, ...)."""
        levels = torch.as_tensor(q, dtype=torch.float64)
        for level in levels.flatten().tolist():
            check_probability("q", level, "For the median pass 0.5.")
        if levels.ndim == 0:
            return self._quantile(levels.item())
        if levels.ndim > 1 or not len(levels):
            raise ValueError(f"`q` must be one level or a sequence of levels. Got shape {tuple(levels.shape)} instead.")
        return torch.stack([self._quantile(level) for level in levels.tolist()])

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval: lower and upper ends, each missed with probability (1 - coverage) / 2."""
        check_probability("coverage", coverage)
        return self._quantile((1 - coverage) / 2), self._quantile((1 + coverage) / 2)


class DecomposedPredictor(Predictor):
    """One distribution per entry, as draws; `_moments` are mean, aleatoric and epistemic variance."""

    @property
    def aleatoric(self) -> Tensor:
        """Aleatoric variance, of the noise in the data: mean over draws of the variance within a draw."""
        return self._moments[1]

    @property
    def epistemic(self) -> Tensor:
        """Epistemic variance, of the model: variance over draws of the mean of a draw."""
        return self._moments[2]

    @property
    def variance(self) -> Tensor:
        """Total variance, aleatoric + epistemic."""
        return self.aleatoric + self.epistemic


@dataclass(frozen=True)
class Prediction(DecomposedPredictor):
    """Equal-weight Gaussian mixture of N draws, one distribution per entry of `mean`.

    Density, CDF, quantiles and intervals are those of the mixture. `mean` and `std` give the Gaussian with the same
    first two moments. `p[rows]` is the prediction of these rows.
    """

    mean_draws: Tensor
    """(N, ...), mean of each draw"""
    log_std_draws: Tensor
    """(N, ...), logarithm of the standard deviation of each draw"""

    def __post_init__(self):
        shape = self.mean_draws.shape  # not `len`, which would fix the number of draws of an exported graph
        if shape != self.log_std_draws.shape or len(shape) < 1 or shape[0] == 0:
            raise ValueError(
                "`mean_draws` and `log_std_draws` must have the same shape, (draws, ...), with at least one draw. "
                f"Got {tuple(self.mean_draws.shape)} and {tuple(self.log_std_draws.shape)} instead."
            )

    @classmethod
    def gaussian(cls, mean: Tensor, std: Tensor) -> "Prediction":
        """One Gaussian per entry: a mixture of one draw, without epistemic variance."""
        check_values("`mean`", mean)
        check_values("`std`", std, mean.shape, "`mean`")
        check_std("`std`", std)
        log_std = std.log()
        dtype = torch.promote_types(mean.dtype, log_std.dtype)
        return cls(mean[None].to(dtype), log_std[None].to(dtype))

    def __getitem__(self, index: Any) -> "Prediction":
        index = index if isinstance(index, tuple) else (index,)
        return Prediction(self.mean_draws[:, *index], self.log_std_draws[:, *index])

    @property
    def shape(self) -> torch.Size:
        """Of the entries: rows first, then outputs or lead times."""
        return self.mean_draws.shape[1:]

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor, Tensor]:
        return decompose(self.mean_draws, self.log_std_draws)

    def cdf(self, y: Tensor) -> Tensor:
        """Probability of a value at most `y`."""
        return mixture_cdf(self.mean_draws, self.log_std_draws.exp(), y)

    def log_prob(self, y: Tensor) -> Tensor:
        """Logarithm of the density at `y`."""
        return mixture_log_prob(self.mean_draws, self.log_std_draws.exp(), y)

    def _quantile(self, q: float) -> Tensor:
        return mixture_quantile(self.mean_draws, self.log_std_draws.exp(), self.mean_draws.new_tensor(q))

    def affine(self, scale: Tensor, shift: Tensor) -> "Prediction":
        """The prediction of `scale * y + shift`, both broadcast against one draw; `scale` is above 0."""
        return Prediction(shift + scale * self.mean_draws, self.log_std_draws + scale.log())

    def sample(self, num_samples: int, generator: torch.Generator | None = None) -> Tensor:
        """Values from the mixture, (num_samples, ...); entries are independent."""
        shape = (num_samples, *self.shape)
        which = torch.randint(len(self.mean_draws), shape, generator=generator, device=self.mean_draws.device)
        noise = torch.randn(shape, generator=generator, dtype=self.mean_draws.dtype, device=self.mean_draws.device)
        return self.mean_draws.gather(0, which) + self.log_std_draws.exp().gather(0, which) * noise

    def moment_matched(self) -> "Prediction":
        """The Gaussian with the same mean and total variance, all of it aleatoric."""
        return Prediction(self.mean[None], self.variance.log()[None] / 2)

    def to_frame(self, coverage: float = 0.9, names: Sequence[str] | None = None) -> "DataFrame":
        """A table with one row per entry of the first axis: mean, std, both variances, `lower_90` and `upper_90`.

        `names` are a suffix per output (for several axes: per entry of a row, in order); by default its index.
        """
        return prediction_frame(self, coverage, names)

    def check(self) -> None:
        """Refuse a mean that is not finite and a standard deviation that is not above 0."""
        check_values("The prediction's mean", self.mean_draws)
        check_std("The prediction's standard deviation", self.log_std_draws.exp())


def prediction_frame(prediction: Predictor, coverage: float, names: Sequence[str] | None) -> "DataFrame":
    """The table of `Prediction.to_frame`, of any prediction with aleatoric and epistemic variance."""
    from pandas import DataFrame

    shape = prediction.shape
    columns = shape[1:].numel()
    if names is None:
        indices = itertools.product(*map(range, shape[1:]))
        names = ["_".join(map(str, i)) for i in indices] if columns > 1 else [""]
    if len(names) != columns:
        raise ValueError(f"`names` must have one name per output ({columns}). Got {len(names)} instead: {names}.")
    return DataFrame(prediction_columns(prediction, {coverage: prediction.interval(coverage)}, outputs=names))


def prediction_columns(
    prediction: Predictor,
    intervals: Mapping[float, tuple[Tensor, Tensor]],
    quantiles: Mapping[float, Tensor] | None = None,
    outputs: Sequence[str] = ("",),
) -> dict[str, "np.ndarray"]:
    """Columns of a table: `mean`, `std`, `aleatoric`, `epistemic` (variances), `lower_90`, `upper_90`, `quantile_10`.

    `intervals` (by coverage) and `quantiles` (by level) have the prediction's shape. `outputs` are appended to the
    names, in the order of the last entries of a row; a single empty name makes one row of every entry.
    """
    values = {name: getattr(prediction, name) for name in ("mean", "std", "aleatoric", "epistemic")}
    for coverage, (lower, upper) in intervals.items():
        values[f"lower_{100 * coverage:g}"] = lower
        values[f"upper_{100 * coverage:g}"] = upper
    for level, value in (quantiles or {}).items():
        values[f"quantile_{100 * level:g}"] = value
    rows = {name: torch.as_tensor(value).reshape(-1, len(outputs)).numpy(force=True) for name, value in values.items()}
    columns = {}
    for i, output in enumerate(outputs):
        suffix = f"_{output}" if output else ""
        columns |= {name + suffix: value[:, i] for name, value in rows.items()}
    return columns


class Calibrator:
    """A dataclass of tensors and numbers that was fitted on a held-out calibration set."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {name: value.tolist() if isinstance(value, Tensor) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        values = {}
        for name, kind in get_annotations(cls).items():
            values[name] = torch.tensor(state[name], dtype=torch.float64) if kind is Tensor else state[name]
        return cls(**values)


def check_pair(prediction: Predictor, y: Tensor) -> None:
    """`prediction` is a proper distribution for each entry of `y`."""
    prediction.check()
    check_values("`y`", y, prediction.shape, "the prediction's mean")


def check_rows(prediction: Predictor, y: Tensor) -> None:
    """The pair has rows to fit a calibration on."""
    check_pair(prediction, y)
    if not prediction.shape:
        raise ValueError("`prediction` must have a first axis of rows to calibrate on. Got a single entry instead.")
