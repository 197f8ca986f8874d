"""The predicted distribution: a Gaussian mixture of draws, and its aleatoric and epistemic variance."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from nsac.core import decompose, mixture_cdf, mixture_log_prob, mixture_quantile
from nsac.uncertainty.checks import check_probability, check_std, check_values
from nsac.uncertainty.frame import prediction_columns

if TYPE_CHECKING:
    from pandas import DataFrame


class Predictor(Protocol):
    """One distribution per entry, whatever its family: the interface of most scores and of conformal intervals."""

    @property
    def shape(self) -> torch.Size: ...  # noqa: D102
    @property
    def mean(self) -> Tensor: ...  # noqa: D102
    @property
    def std(self) -> Tensor: ...  # noqa: D102
    def cdf(self, y: Tensor) -> Tensor: ...  # noqa: D102
    def quantile(self, q: float | Sequence[float] | Tensor) -> Tensor: ...  # noqa: D102
    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]: ...  # noqa: D102
    def check(self) -> None: ...  # noqa: D102


@dataclass(frozen=True)
class Prediction:
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

    @property
    def mean(self) -> Tensor:
        """Predictive mean."""
        return self._moments[0]

    @property
    def aleatoric(self) -> Tensor:
        """Aleatoric variance, of the noise in the data: mean over draws of std^2."""
        return self._moments[1]

    @property
    def epistemic(self) -> Tensor:
        """Epistemic variance, of the model: variance over draws of the mean."""
        return self._moments[2]

    @property
    def variance(self) -> Tensor:
        """Total variance, aleatoric + epistemic."""
        return self.aleatoric + self.epistemic

    @property
    def std(self) -> Tensor:
        """Square root of the total variance."""
        return self.variance.sqrt()

    def cdf(self, y: Tensor) -> Tensor:
        """Probability of a value at most `y`."""
        return mixture_cdf(self.mean_draws, self.log_std_draws.exp(), y)

    def log_prob(self, y: Tensor) -> Tensor:
        """Logarithm of the density at `y`."""
        return mixture_log_prob(self.mean_draws, self.log_std_draws.exp(), y)

    def quantile(self, q: float | Sequence[float] | Tensor) -> Tensor:
        """The value that is not exceeded with probability `q`; for several levels (levels, ...)."""
        return each_level(q, self._quantile)

    def _quantile(self, q: float) -> Tensor:
        return mixture_quantile(self.mean_draws, self.log_std_draws.exp(), self.mean_draws.new_tensor(q))

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval: lower and upper ends, each missed with probability (1 - coverage) / 2."""
        check_probability("coverage", coverage)
        return self._quantile((1 - coverage) / 2), self._quantile((1 + coverage) / 2)

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
        """A table with one row per entry of the first axis: mean, std, both variances and the ends of an interval.

        Args:
            coverage: of the interval; 0.9 makes the columns `lower_90` and `upper_90`.
            names: a suffix per output (for several axes: per entry of a row, in order); by default its index.
        """
        from pandas import DataFrame

        columns = self.shape[1:].numel()
        if names is None:
            indices = itertools.product(*map(range, self.shape[1:]))
            names = ["_".join(map(str, i)) for i in indices] if columns > 1 else [""]
        if len(names) != columns:
            raise ValueError(f"`names` must have one name per output ({columns}). Got {len(names)} instead: {names}.")
        return DataFrame(prediction_columns(self, {coverage: self.interval(coverage)}, outputs=names))

    def check(self) -> None:
        """Refuse a mean that is not finite and a standard deviation that is not above 0."""
        check_values("The prediction's mean", self.mean_draws)
        check_std("The prediction's standard deviation", self.log_std_draws.exp())


def each_level(q: float | Sequence[float] | Tensor, quantile: Callable[[float], Tensor]) -> Tensor:
    """`quantile` of one level, or of each level, stacked; levels are checked."""
    levels = torch.as_tensor(q, dtype=torch.float64)
    for level in levels.flatten().tolist():
        check_probability("q", level, "For the median pass 0.5.")
    if levels.ndim == 0:
        return quantile(levels.item())
    if levels.ndim > 1 or not len(levels):
        raise ValueError(f"`q` must be one level or a sequence of levels. Got shape {tuple(levels.shape)} instead.")
    return torch.stack([quantile(level) for level in levels.tolist()])


def check_pair(prediction: Predictor, y: Tensor) -> None:
    """`prediction` is a proper distribution for each entry of `y`."""
    prediction.check()
    check_values("`y`", y, prediction.shape, "the prediction's mean")


def check_rows(prediction: Predictor, y: Tensor) -> None:
    """The pair has rows to fit a calibration on."""
    check_pair(prediction, y)
    if not prediction.shape:
        raise ValueError("`prediction` must have a first axis of rows to calibrate on. Got a single entry instead.")
