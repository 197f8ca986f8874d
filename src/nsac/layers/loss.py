"""The paper's two-term objective: likelihood, and a larger epistemic variance on out-of-distribution surrogates."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nsac._checks import check_int, check_tensor
from nsac.layers.inputs import take_rows
from nsac.uncertainty.ood import Surrogate, make_surrogate

RELATIVE_EPS = 1e-6
"""Minimum of the OOD variance, over the variance of the target. An absolute one would depend on the unit of y; with a
large one both variances could collapse to 0 at no cost."""


class NSACLoss(nn.Module):
    r"""$L = E_n[\mathrm{NLL}] + \lambda \log\big(1 + E[Var_{ID}] / (E[Var_{OOD}] + \epsilon)\big)$ (Algorithm 1).

    $Var$ is the epistemic variance, over draws, of the predicted mean; OOD rows are surrogates made from the batch and
    go through the layer together with it. After a call, `parts` holds `nll`, `reg`, `var_id` and `var_ood`, detached.

    Args:
        reg_weight: lambda; 0 for no second term.
        num_samples: draws per row.
        ood_mean, ood_std: mean and standard deviation of the Gaussian perturbation of standardised inputs.
        surrogate: `"gaussian"`, `"shuffle"`, `"adversarial"`, or a function (x, epistemic, generator) -> x.
        ood_fraction: surrogates per row of the batch. Fewer are cheaper, and the expectation is the same.
    """

    def __init__(
        self,
        reg_weight: float = 0.5,
        num_samples: int = 5,
        ood_mean: float = 0.0,
        ood_std: float = 5.0,
        surrogate: str | Surrogate = "gaussian",
        ood_fraction: float = 0.25,
    ):
        super().__init__()
        check_int("num_samples", num_samples, minimum=2)
        if not reg_weight >= 0:
            raise ValueError(f"`reg_weight` must be at least 0. Got {reg_weight} instead. 0 omits the term.")
        if not 0 < ood_fraction <= 1:
            raise ValueError(f"`ood_fraction` must be above 0 and at most 1. Got {ood_fraction} instead.")
        self.reg_weight, self.num_samples, self.ood_fraction = reg_weight, num_samples, ood_fraction
        self.surrogate = make_surrogate(surrogate, ood_mean, ood_std) if isinstance(surrogate, str) else surrogate
        self.parts: dict[str, Tensor] = {}

    def forward(
        self, layer: Callable, x: Tensor, y: Tensor, generator: torch.Generator | None = None, **inputs: Any
    ) -> Tensor:
        """Scalar loss.

        Args:
            layer: `NSAC`, or any model that takes `x`, `num_samples` and `generator` and returns draws.
            x, y: (B, T, F), and targets, shaped as one draw of the mean; NaN where none was observed (ignored).
            generator: source of all noise.
            **inputs: other arguments of the layer (`times`, `mask`, `query_times`, ...); the first axis of tensors with
                two or more axes is the batch.
        """
        for name, value in {"x": x, "y": y}.items():
            check_tensor(name, value)
        batch, with_surrogates = len(x), x
        if self.reg_weight:
            n_surrogates = min(batch, max(2, round(self.ood_fraction * batch)))  # shuffling needs 2
            rows = torch.randperm(batch, generator=generator, device=x.device)[:n_surrogates]
            some = take_rows(inputs, rows)
            mask = some.get("mask")  # masked values must not enter a surrogate
            known = x[rows] if mask is None else x[rows].masked_fill(mask.view(*mask.shape, *(1,) * (x.ndim - 2)), 0)

            def epistemic_of(z: Tensor) -> Tensor:
                draws = layer(z, num_samples=self.num_samples, generator=generator, **some)
                return draws.mean.var(0, correction=0).flatten(1).mean(1)

            with torch.no_grad():
                surrogates = self.surrogate(known, epistemic_of, generator)
            with_surrogates = torch.cat([x, surrogates])
            inputs = take_rows(inputs, torch.cat([torch.arange(batch, device=x.device), rows]))
        draws = layer(with_surrogates, num_samples=self.num_samples, generator=generator, **inputs)
        if draws.mean[:, :batch].shape[1:] != y.shape:
            raise ValueError(
                f"`y` must have the shape of one draw of the mean, {tuple(draws.mean[0, :batch].shape)}. "
                f"Got {tuple(y.shape)} instead. For one output add an axis: `y[..., None]`."
            )
        nll = gaussian_nll(draws.mean[:, :batch], draws.log_std[:, :batch], y)
        epistemic = draws.mean.var(0, correction=0)
        var_id = epistemic[:batch].mean()
        self.parts = {"nll": nll.detach(), "var_id": var_id.detach(), "reg": torch.zeros_like(nll)}
        if not self.reg_weight:
            return nll
        var_ood = epistemic[batch:].mean()
        eps = RELATIVE_EPS * y[~y.isnan()].var(correction=0).nan_to_num() + torch.finfo(y.dtype).tiny
        reg = torch.log1p(var_id / (var_ood + eps))
        self.parts |= {"reg": reg.detach(), "var_ood": var_ood.detach()}
        return nll + self.reg_weight * reg


def gaussian_nll(mean: Tensor, log_std: Tensor, y: Tensor, beta: float = 0.0) -> Tensor:
    r"""Mean of $\frac12[\log 2\pi + 2s + (y - \mu)^2 e^{-2s}]$, with $s$ = `log_std`, over observed targets.

    With `beta` each term has the weight $e^{2\beta s}$, which is held constant (Seitzer et al., 2022): the gradient of
    the mean goes from that of the likelihood, at 0, to that of least squares, at 1.
    """
    known, y = fill_missing_targets(y, mean)
    terms = math.log(2 * math.pi) + 2 * log_std + (y - mean) ** 2 * torch.exp(-2 * log_std)
    if beta:
        terms = terms * torch.exp(2 * beta * log_std.detach())
    return 0.5 * mean_over_observed(terms, known)


def fill_missing_targets(y: Tensor, value: Tensor) -> tuple[Tensor | None, Tensor]:
    """Which targets are observed (None: all of them), and the targets, with a detached `value` where one is missing."""
    known = ~y.isnan()  # a NaN times 0 would still be NaN in the gradient, so it is replaced
    if torch.compiler.is_compiling() or not known.all():
        return known, torch.where(known, y, value.detach())
    return None, y


def mean_over_observed(terms: Tensor, known: Tensor | None) -> Tensor:
    """Mean of the terms, (..., *targets), whose target is observed; 0 if none is."""
    if known is None:
        return terms.mean()
    return (terms * known).sum() / (known.sum() * (terms.numel() // known.numel())).clamp(min=1)
