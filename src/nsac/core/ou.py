r"""The Ornstein-Uhlenbeck logit: $da = \kappa(\phi - a)\,dt + \psi\,dW$, $a(0) = a_0$."""

from collections.abc import Callable

import torch
from torch import Tensor

Coefficient = Tensor | float | Callable[[Tensor], Tensor]


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
    r"""Reference path $a_{n+1} = a_n + \kappa(\phi - a_n)h + \psi\sqrt{h}\,\epsilon_n$, for tests and figures.

    Args:
        phi, kappa, psi: numbers, tensors, or functions of time.
        t: end time; the step is `t / len(noise)`.
        noise: standard normal, (steps, ...).
        a0: initial value.

    Returns:
        The path, (steps + 1, ...).
    """
    steps = len(noise)
    h = t / steps
    path = [torch.full_like(noise[0], a0)]
    for n in range(steps):
        s = torch.as_tensor(n * h, dtype=noise.dtype)
        drift = _at(kappa, s) * (_at(phi, s) - path[-1])
        path.append(path[-1] + drift * h + _at(psi, s) * h**0.5 * noise[n])
    return torch.stack(path)


def _at(coefficient: Coefficient, time: Tensor) -> Tensor | float:
    return coefficient(time) if callable(coefficient) else coefficient
