"""Deep evidential regression: the network predicts a distribution over means and variances."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nsac.layers import Draws
from nsac.layers.loss import fill_missing_targets, mean_over_observed
from nsac.methods.base import AbstractProblem, AbstractTrainable, method
from nsac.models import Head, Trunk
from nsac.models.encoder import Batch

EVIDENCE_MIN = 1e-3  # added to the evidence: without it, gradients of its logarithms are unbounded


def nig_nll(gamma: Tensor, nu: Tensor, alpha: Tensor, beta: Tensor, y: Tensor) -> Tensor:
    r"""Negative log-likelihood of y under the Student-t marginal of a Normal-Inverse-Gamma distribution.

    $\frac12\log\frac\pi\nu - \alpha\log\Omega + (\alpha + \frac12)\log((y-\gamma)^2\nu + \Omega)
    + \log\frac{\Gamma(\alpha)}{\Gamma(\alpha + 1/2)}$ with $\Omega = 2\beta(1 + \nu)$.
    """
    omega = 2 * beta * (1 + nu)
    return (
        0.5 * (math.log(math.pi) - nu.log())
        - alpha * omega.log()
        + (alpha + 0.5) * ((y - gamma) ** 2 * nu + omega).log()
        + torch.lgamma(alpha)
        - torch.lgamma(alpha + 0.5)
    )


@method("der")
class DeepEvidential(AbstractTrainable):
    r"""$\sigma^2 \sim \Gamma^{-1}(\alpha, \beta)$, $\mu \sim N(\gamma, \sigma^2/\nu)$, with parameters per row.

    Its "epistemic" variance $\beta / \nu(\alpha - 1)$ is the aleatoric one over a learned number of virtual
    observations, which is not tied to the training data.
    """

    def __init__(self, problem: AbstractProblem, seed: int = 0, reg_weight: float = 0.01):
        super().__init__(problem)
        self.reg_weight = reg_weight
        self.trunk = Trunk(problem.encoder(seed), problem.network, seed)
        self.head = Head(self.trunk, problem.output_dim, 4, seed + 2)

    def evidence(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Parameters gamma, nu, alpha, beta of each row."""
        gamma, nu, alpha, beta = [parameter[0] for parameter in self.head(self.trunk(batch))]
        return gamma, softplus(nu) + EVIDENCE_MIN, softplus(alpha) + 1 + EVIDENCE_MIN, softplus(beta) + EVIDENCE_MIN

    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """Means and variances drawn from the evidence; their mixture is the Student-t distribution."""
        from scipy.special import gammaincinv  # quantile function of the Gamma distribution with rate 1

        gamma, nu, alpha, beta = self.evidence(batch)
        shape = (num_samples, 1, *gamma.shape[1:])
        like = {"generator": generator, "dtype": gamma.dtype, "device": gamma.device}
        u = torch.rand(shape, **like).clamp(1e-6, 1 - 1e-6)
        noise = torch.randn(shape, **like)
        quantile = gammaincinv(alpha.double().numpy(force=True), u.double().numpy(force=True))
        precision = torch.as_tensor(quantile).to(alpha) / beta
        log_std = -0.5 * precision.clamp(min=torch.finfo(precision.dtype).tiny).log()
        return Draws(gamma + log_std.exp() / nu.sqrt() * noise, log_std)

    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Negative log-likelihood, and a penalty on evidence in proportion to the error of the mean."""
        gamma, nu, alpha, beta = self.evidence(batch)
        known, y = fill_missing_targets(self.target(batch), gamma)
        # Double precision: for large alpha the terms are huge and nearly cancel.
        terms = nig_nll(gamma.double(), nu.double(), alpha.double(), beta.double(), y.double())
        nll = mean_over_observed(terms, known).to(y)
        reg = mean_over_observed((y - gamma).abs() * (2 * nu + alpha), known)
        self.parts = {"nll": nll.detach(), "reg": reg.detach()}
        return nll + self.reg_weight * reg
