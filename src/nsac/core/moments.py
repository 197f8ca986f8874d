"""Law of total variance over draws."""

from torch import Tensor


def decompose(mean_draws: Tensor, log_std_draws: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Mean $E_n[\mu_n]$, aleatoric variance $E_n[\sigma_n^2]$, epistemic variance $\mathrm{Var}_n[\mu_n]$ over axis 0.

    The variance over draws divides by N, so that aleatoric + epistemic is the variance of the mixture of the draws.
    """
    epistemic = mean_draws.var(0, correction=0)
    return mean_draws.mean(0), (2 * log_std_draws).exp().mean(0), epistemic
