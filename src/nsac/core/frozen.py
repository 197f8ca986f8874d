r"""Moments under time-varying $\kappa(t), \phi(t), \psi(t)$, and bounds on the error of freezing the coefficients.

The derivation of the bounds, and why the published ones fail, is in `docs/theory.md`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from nsac.core.ou import ou_moments


class Lipschitz(NamedTuple):
    """Lipschitz constants of the three coefficients."""

    kappa: float
    phi: float
    psi: float


def piecewise_moments(
    phi: Tensor, kappa: Tensor, psi: Tensor, dt: Tensor | float, a0: Tensor | float = 0.0
) -> tuple[Tensor, Tensor]:
    """Mean and variance at the end of each interval when coefficients are constant on intervals of length `dt`.

    The result is exact for step functions. As intervals get shorter it converges to the moments under varying
    coefficients, with order 2 if each value is taken at the midpoint of its interval.

    Args:
        phi, kappa, psi: (steps, ...), the value on each interval.
        dt: length of an interval.
        a0: initial value, with variance 0.

    Returns:
        mean, var: (steps, ...).
    """
    decay = torch.exp(-kappa * dt)
    added_mean, added_var = ou_moments(phi, kappa, psi, torch.as_tensor(dt, dtype=phi.dtype))
    # m_n = decay_n m_{n-1} + added_mean_n and v_n = decay_n^2 v_{n-1} + added_var_n: two linear recursions.
    mean = torch.empty_like(added_mean)
    var = torch.empty_like(added_var)
    m = torch.zeros_like(phi[0]) + a0
    v = torch.zeros_like(phi[0])
    for n in range(len(phi)):
        m = decay[n] * m + added_mean[n]
        v = decay[n] ** 2 * v + added_var[n]
        mean[n], var[n] = m, v
    return mean, var


def printed_bounds(t: Tensor, kappa0: float, psi0: float, c_mu: float, slope: Lipschitz) -> tuple[Tensor, Tensor]:
    r"""The bounds as published (Theorem 2). They do not hold: $L_\kappa L_\phi s^2$ and $L_\psi^2 s^2$ were dropped."""
    c_var = psi0**2 / (2 * kappa0)
    mean = (kappa0 * slope.phi + slope.kappa * c_mu) / slope.kappa * torch.expm1(slope.kappa * t**2 / 2)
    var = (slope.kappa * c_var + slope.psi * psi0) / slope.kappa * torch.expm1(slope.kappa * t**2)
    return mean, var


def frozen_bounds(t: Tensor, kappa0: float, psi0: float, c_mu: float, slope: Lipschitz) -> tuple[Tensor, Tensor]:
    r"""Bounds on the error of freezing the coefficients at time 0, for every $\kappa(t) \ge 0$.

    $$|\varepsilon_\mu(t)| \le (\kappa_0 L_\phi + L_\kappa C_\mu)\frac{t^2}{2} + L_\kappa L_\phi\frac{t^3}{3}$$
    $$|\varepsilon_{\sigma^2}(t)| \le L_\kappa\min\Big(\frac{\psi_0^2}{2\kappa_0}t^2, \frac{2\psi_0^2}{3}t^3\Big)
      + \psi_0 L_\psi t^2 + L_\psi^2\frac{t^3}{3}$$

    Args:
        t: times since the freeze.
        kappa0, psi0: the frozen values.
        c_mu: $|a_0 - \phi_0|$.
        slope: Lipschitz constants of the coefficients.
    """
    mean = (kappa0 * slope.phi + slope.kappa * c_mu) * t**2 / 2 + slope.kappa * slope.phi * t**3 / 3
    reversion = slope.kappa * psi0**2 * torch.minimum(t**2 / (2 * kappa0), 2 * t**3 / 3)
    var = reversion + psi0 * slope.psi * t**2 + slope.psi**2 * t**3 / 3
    return mean, var
