"""What a method predicts: a distribution, its two kinds of variance, and the draws behind it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nsac.core import decompose, mixture_cdf, mixture_log_prob, mixture_quantile


@dataclass(frozen=True)
class Prediction:
    """Equal-weight Gaussian mixture of N draws, one distribution per entry of `mean`.

    Density, CDF, quantiles and intervals are those of the mixture. `mean` and `std` give the Gaussian with the same
    first two moments.
    """

    mean_draws: Tensor
    """(N, ...), mean of each draw"""
    log_std_draws: Tensor
    """(N, ...), logarithm of the standard deviation of each draw"""

    def __post_init__(self):
        if self.mean_draws.shape != self.log_std_draws.shape or self.mean_draws.ndim < 1 or not len(self.mean_draws):
            raise ValueError(
                "`mean_draws` and `log_std_draws` must have the same shape, (draws, ...), with at least one draw. "
                f"Got {tuple(self.mean_draws.shape)} and {tuple(self.log_std_draws.shape)} instead."
            )

    @property
    def mean(self) -> Tensor:
        """Predictive mean."""
        return self.mean_draws.mean(0)

    @property
    def aleatoric(self) -> Tensor:
        """Variance of the data's noise: mean over draws of std^2."""
        return decompose(self.mean_draws, self.log_std_draws)[1]

    @property
    def epistemic(self) -> Tensor:
        """Variance of what the model does not know: variance over draws of the mean."""
        return decompose(self.mean_draws, self.log_std_draws)[2]

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

    def quantile(self, q: float) -> Tensor:
        """The value that is not exceeded with probability `q`."""
        if not 0 < q < 1:
            raise ValueError(f"`q` must be strictly between 0 and 1. Got {q} instead. For the median pass 0.5.")
        level = self.mean_draws.new_tensor(q)
        return mixture_quantile(self.mean_draws, self.log_std_draws.exp(), level)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval: lower and upper ends, each missed with probability (1 - coverage) / 2."""
        if not 0 < coverage < 1:
            raise ValueError(f"`coverage` must be strictly between 0 and 1. Got {coverage} instead. For 90 % pass 0.9.")
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)

    def sample(self, num_samples: int, generator: torch.Generator | None = None) -> Tensor:
        """Values from the mixture, (num_samples, ...); entries are independent."""
        shape = (num_samples, *self.mean_draws.shape[1:])
        which = torch.randint(len(self.mean_draws), shape, generator=generator, device=self.mean_draws.device)
        noise = torch.randn(shape, generator=generator, dtype=self.mean_draws.dtype, device=self.mean_draws.device)
        return self.mean_draws.gather(0, which) + self.log_std_draws.exp().gather(0, which) * noise
