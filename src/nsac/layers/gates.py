"""Gates: from motor neurons to the moments of a logit."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nsac.core import nac_logit, ou_moments

GATE_MIN = 1e-5
"""Added to the positive gates: at a rate or a diffusion of exactly 0 the closed form is undefined."""


class Gates(NamedTuple):
    """Gates of each logit, and the moments that follow from them."""

    values: dict[str, Tensor]  # by paper letter
    mean: Tensor
    var: Tensor | None  # None: the logit is deterministic


def ou_gates(motor: Tensor, t: Tensor) -> Gates:
    """NSAC: rate kappa > 0, long-term mean phi in (-1, 1), diffusion psi > 0."""
    kappa, phi, psi = motor
    kappa, phi, psi = softplus(kappa) + GATE_MIN, torch.tanh(phi), softplus(psi) + GATE_MIN
    return Gates({"kappa": kappa, "phi": phi, "psi": psi}, *ou_moments(phi, kappa, psi, t))


def ode_gates(motor: Tensor, t: Tensor) -> Gates:
    """NAC: content gamma in (0, 1), rate omega > 0."""
    gamma, omega = motor
    gamma, omega = torch.sigmoid(gamma), softplus(omega) + GATE_MIN
    return Gates({"gamma": gamma, "omega": omega}, nac_logit(gamma, omega, t), None)


DYNAMICS = {"ou": (3, ou_gates), "ode": (2, ode_gates)}
"""Law of the logits: its number of motor neurons, and the function from them to the gates."""
