r"""The Ornstein-Uhlenbeck logit: $da = \kappa(\phi - a)\,dt + \psi\,dW$, $a(0) = a_0$.

For coefficients that vary in time, the derivation of the bounds is in `docs/theory.md`, with why the published fail.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Coefficient = Tensor | float | Callable[[Tensor], Tensor]


class Lipschitz(NamedTuple):
    """Lipschitz constants of the three coefficients."""

    kappa: float
    phi: float
    psi: float


def ou_moments(phi: Tensor, kappa: Tensor, psi: Tensor, t: Tensor, a0: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
    r"""Mean $\phi + (a_0 - \phi)e^{-\kappa t}$ and variance $\psi^2(1 - e^{-2\kappa t}) / 2\kappa$ of $a(t)$.

    Args:
        phi: long-term mean the logit reverts to.
        kappa: rate of reversion, positive.
        psi: diffusion scale.
        t: time since `a0`, non-negative.
        a0: initial value.
    """
    gain = -torch.expm1(-kappa * t)  # 1 - e^{-kappa t}, without cancellation as t -> 0
    mean = gain * phi if isinstance(a0, float) and a0 == 0.0 else a0 + gain * (phi - a0)
    var = psi**2 * (gain * (2 - gain)) / (2 * kappa)  # 1 - e^{-2 kappa t} = gain (2 - gain)
    return mean, var


def ou_sample(mean: Tensor, var: Tensor, noise: Tensor) -> Tensor:
    r"""Exact draws $a = \mu + \sigma\epsilon$; `noise` is standard normal and broadcasts against the moments."""
    return torch.addcmul(mean, var.sqrt(), noise)


def nac_logit(gamma: Tensor, omega: Tensor, t: Tensor) -> Tensor:
    r"""NAC's logit: $da/dt = \gamma - \omega a$ from 0 gives $\frac{\gamma}{\omega}(1 - e^{-\omega t})$."""
    return gamma / omega * -torch.expm1(-omega * t)


def euler_maruyama(
    phi: Coefficient, kappa: Coefficient, psi: Coefficient, t: float, noise: Tensor, a0: float = 0.0
) -> Tensor:
    r"""Reference path $a_{n+1} = a_n + \kappa(\phi - a_n)h + \psi\sqrt{h}\,\epsilon_n$ up to time t, (steps + 1, ...).

    For tests and figures. Coefficients are numbers, tensors or functions of time; `noise` is (steps, ...).
    """
    h = t / len(noise)
    path = [torch.full_like(noise[0], a0)]
    for n, epsilon in enumerate(noise):
        s = torch.as_tensor(n * h, dtype=noise.dtype)
        f, k, p = [value(s) if callable(value) else value for value in (phi, kappa, psi)]
        path.append(path[-1] + k * (f - path[-1]) * h + p * h**0.5 * epsilon)
    return torch.stack(path)


def piecewise_moments(
    phi: Tensor, kappa: Tensor, psi: Tensor, dt: Tensor | float, a0: Tensor | float = 0.0
) -> tuple[Tensor, Tensor]:
    """Mean and variance, (steps, ...), at the end of each interval of length `dt`, from `a0`, with variance 0.

    Coefficients, (steps, ...), are constant on each interval. The result is exact for step functions. As intervals get
    shorter it converges to the moments under varying coefficients, with order 2 if each value is taken at the midpoint
    of its interval.
    """
    decay = torch.exp(-kappa * dt)
    added_mean, added_var = ou_moments(phi, kappa, psi, torch.as_tensor(dt, dtype=phi.dtype))
    # m_n = decay_n m_{n-1} + added_mean_n and v_n = decay_n^2 v_{n-1} + added_var_n: two linear recursions.
    mean, var = torch.empty_like(added_mean), torch.empty_like(added_var)
    m, v = torch.zeros_like(phi[0]) + a0, torch.zeros_like(phi[0])
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
    r"""Bounds on the error at time t of freezing the coefficients at time 0, for every $\kappa(t) \ge 0$.

    $$|\varepsilon_\mu(t)| \le (\kappa_0 L_\phi + L_\kappa C_\mu)\frac{t^2}{2} + L_\kappa L_\phi\frac{t^3}{3},
      \qquad C_\mu = |a_0 - \phi_0|$$
    $$|\varepsilon_{\sigma^2}(t)| \le L_\kappa\min\Big(\frac{\psi_0^2}{2\kappa_0}t^2, \frac{2\psi_0^2}{3}t^3\Big)
      + \psi_0 L_\psi t^2 + L_\psi^2\frac{t^3}{3}$$
    """
    mean = (kappa0 * slope.phi + slope.kappa * c_mu) * t**2 / 2 + slope.kappa * slope.phi * t**3 / 3
    reversion = slope.kappa * psi0**2 * torch.minimum(t**2 / (2 * kappa0), 2 * t**3 / 3)
    var = reversion + psi0 * slope.psi * t**2 + slope.psi**2 * t**3 / 3
    return mean, var
