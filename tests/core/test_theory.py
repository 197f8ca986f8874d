"""The paper's theorems, as stated in docs/theory.md."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.special import erf

from nsac import NSAC
from nsac.core import Lipschitz, frozen_bounds, ou_moments, piecewise_moments, printed_bounds

ROUNDING = 1e-12
"""Slack for inequalities between numbers of size 1."""

ODE_ERROR = 1e-8
"""Error bound of the numerical solution of the moment equations; its tolerance is 1e-11 per step."""

# No deadline, for machines under load; hypothesis tries 100 cases of each property.
without_deadline = settings(deadline=None)

rates, targets, times, unit = st.floats(1e-3, 50), st.floats(-5, 5), st.floats(0, 20), st.floats(0, 1)


def ou_mean(phi, kappa, t, a0):
    phi, kappa, t, a0 = (torch.as_tensor(z, dtype=torch.float64) for z in (phi, kappa, t, a0))
    return ou_moments(phi, kappa, torch.zeros_like(phi), t, a0)[0]


# Theorem 1: state bounds ---------------------------------------------------------------------------------------------

connections = st.lists(st.tuples(rates, targets), min_size=1, max_size=8)


def merge(incoming) -> tuple[torch.Tensor, torch.Tensor]:
    """Total rate K and target Phi of the single connection equivalent to several."""
    kappa, phi = torch.tensor(incoming).T
    return kappa.sum(), (kappa * phi).sum() / kappa.sum()


@without_deadline
@given(connections, unit, times)
def test_mean_stays_between_the_least_and_the_largest_target(incoming, share, t):
    low = min(phi for _, phi in incoming)
    high = max(phi for _, phi in incoming)
    total, target = merge(incoming)
    mean = ou_mean(target, total, t, low + share * (high - low)).item()
    assert low - ROUNDING <= mean <= high + ROUNDING


@without_deadline
@given(connections, targets, st.floats(0, 2))
def test_many_connections_act_as_one_with_the_total_rate(incoming, a0, t):
    total, target = merge(incoming)
    t = torch.tensor(t, requires_grad=True)
    mean = ou_mean(target, total, t, a0)
    (slope,) = torch.autograd.grad(mean, t)
    kappa, phi = torch.tensor(incoming).T
    torch.testing.assert_close(slope, (kappa * (phi - mean)).sum(), rtol=1e-7, atol=1e-9)  # the sum cancels


@without_deadline
@given(st.floats(-3, 3), rates, times)
def test_one_connection_from_zero_moves_towards_phi_and_never_past_it(motor, kappa, t):
    phi = math.tanh(motor)
    path = ou_mean(phi, kappa, torch.linspace(0, t, 20), 0.0) * math.copysign(1, phi)
    assert (path.diff() >= -ROUNDING).all()
    assert (path >= 0).all() and (path <= abs(phi) + ROUNDING).all()


def test_logit_means_of_the_layer_lie_between_zero_and_phi(generator):
    cells = NSAC(2, 1, d_model=16, num_heads=4).trace(3 * torch.randn(8, 20, 2, generator=generator))
    share = cells["mu"] / cells["phi"]
    assert (share > 0).all() and (share < 1).all() and (cells["mu"].abs() < 1).all()


# The corollaries -----------------------------------------------------------------------------------------------------


@without_deadline
@given(targets, rates, times, targets)
def test_mean_error_decays_exponentially(phi, kappa, t, a0):
    error = (ou_mean(phi, kappa, t, a0) - phi).abs().item()
    assert error == pytest.approx(abs(a0 - phi) * math.exp(-kappa * t), abs=ROUNDING)


@without_deadline
@given(rates, rates)
def test_variance_grows_to_its_stationary_value(kappa, psi):
    kappa, psi = torch.tensor(kappa), torch.tensor(psi)
    stationary = psi**2 / (2 * kappa)
    t = torch.linspace(0, 40, 200) / kappa
    _, var = ou_moments(torch.tensor(0.0), kappa, psi, t)
    assert var[0] == 0
    assert (var[:20].diff() > 0).all()  # later it has reached the limit, up to rounding
    assert (var.diff() >= -ROUNDING * stationary).all()
    assert (var <= stationary * (1 + ROUNDING)).all()
    torch.testing.assert_close(var[-1], stationary)


@without_deadline
@given(targets, rates, times, st.floats(0.1, 5))
def test_mean_error_is_bounded_uniformly_over_starts(phi, kappa, t, radius):
    starts = phi + radius * torch.linspace(-1, 1, 41)
    errors = (ou_mean(phi, kappa, t, starts) - phi).abs()
    assert (errors <= radius * math.exp(-kappa * t) + ROUNDING).all()


@without_deadline
@given(targets, rates, st.floats(0.1, 5), st.floats(1e-6, 0.05))
def test_convergence_time_is_the_first_at_which_the_error_is_within_tolerance(phi, kappa, distance, tolerance):
    threshold = math.log(distance / tolerance) / kappa
    before, at = (ou_mean(phi, kappa, [0.999 * threshold, threshold], phi + distance) - phi).abs().tolist()
    assert at <= tolerance + ROUNDING
    assert before > tolerance


# Theorem 2: frozen coefficients --------------------------------------------------------------------------------------


class Drift(NamedTuple):
    """A coefficient $c(t) = c_0 + A (f(\\omega t + p) - f(p))$, clipped at a floor, and its Lipschitz constant."""

    start: float
    size: float
    speed: float
    phase: float
    shape: Callable
    floor: float = -math.inf

    def __call__(self, t):
        moved = self.size * (self.shape(self.speed * t + self.phase) - self.shape(self.phase))
        return np.maximum(self.start + moved, self.floor)

    @property
    def slope(self) -> float:
        return abs(self.size) * self.speed  # shapes have slope at most 1, and clipping does not add any


def ramp(start: float, slope: float, floor: float = -math.inf) -> Drift:
    return Drift(start, slope, 1.0, 0.0, lambda x: x, floor)


def drifts(start, floor=-math.inf):
    shapes = st.sampled_from([lambda x: x, np.sin, lambda x: np.clip(x, -1, 1), np.abs])
    return st.builds(Drift, start, st.floats(-3, 3), st.floats(0.1, 5), st.floats(-2, 2), shapes, st.just(floor))


def true_moments(phi, kappa, psi, a0, t) -> np.ndarray:
    """Mean and variance at times `t`, from mu' = kappa (phi - mu), v' = -2 kappa v + psi^2."""

    def moments(s, y):
        return kappa(s) * (phi(s) - y[0]), -2 * kappa(s) * y[1] + psi(s) ** 2

    # Small steps, so that no kink or wave is missed.
    ode = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-11, "max_step": 0.05}
    return solve_ivp(moments, (0, t[-1]), [a0, 0.0], t_eval=t, **ode).y


class Freeze(NamedTuple):
    error: np.ndarray  # (2, times), absolute: of the mean, of the variance
    at: tuple  # arguments of the bounds


def freeze(phi: Drift, kappa: Drift, psi: Drift, a0: float, t: list[float]) -> Freeze:
    frozen = ou_moments(*(torch.tensor(c.start) for c in (phi, kappa, psi)), torch.tensor(t), a0)
    error = np.abs(true_moments(phi, kappa, psi, a0, t) - torch.stack(frozen).numpy())
    slope = Lipschitz(kappa.slope, phi.slope, psi.slope)
    return Freeze(error, (torch.tensor(t), kappa.start, psi.start, abs(a0 - phi.start), slope))


def stacked(bounds) -> np.ndarray:
    return torch.stack(bounds).numpy()


def gronwall_bounds(t, kappa0, psi0, c_mu, slope):
    """What the published proof gives once the dropped terms are kept; rates may then be of either sign."""
    t, lk = t.numpy(), slope.kappa
    grown = math.sqrt(math.pi / (2 * lk)) * np.exp(lk * t**2 / 2) * erf(t * math.sqrt(lk / 2)) - t
    grown_var = math.sqrt(math.pi / lk) / 2 * np.exp(lk * t**2) * erf(t * math.sqrt(lk)) - t
    mean = (kappa0 * slope.phi / lk + c_mu) * np.expm1(lk * t**2 / 2) + slope.phi * grown
    var = (psi0**2 / (2 * kappa0) + slope.psi * psi0 / lk) * np.expm1(lk * t**2) + slope.psi**2 / (2 * lk) * grown_var
    return np.stack([mean, var])


MOMENTS_AT = [0.01, 0.1, 0.3, 0.6, 1.0, 1.5]


@pytest.mark.parametrize(
    ("phi_start", "phi_slope"),
    [
        pytest.param(0.0, 5.0, id="the theorem's hypotheses"),
        pytest.param(-0.9, 3.0, id="phi inside the range of tanh"),
    ],
)
def test_printed_mean_bound_fails_by_a_factor_of_95(phi_start, phi_slope):
    phi, kappa, psi = ramp(phi_start, phi_slope), ramp(0.01, 5.0), ramp(0.1, 0.1)
    error, at = freeze(phi, kappa, psi, phi_start, [0.5])  # the start is phi_0, so C_mu = 0
    ratio = error[0] / stacked(printed_bounds(*at))[0]
    assert ratio == pytest.approx(95.1, abs=0.05)


def test_printed_variance_bound_fails_by_a_factor_of_65():
    error, at = freeze(ramp(0.0, 1.0), ramp(1.0, 0.1), ramp(0.01, 5.0), 0.0, [0.5])
    ratio = error[1] / stacked(printed_bounds(*at))[1]
    assert ratio == pytest.approx(65.4, abs=0.05)


@without_deadline
@given(
    drifts(st.floats(-1, 1)), drifts(st.floats(0.01, 5), floor=0.0), drifts(st.floats(0.01, 2), floor=0.0), targets
)  # fmt: skip
def test_frozen_bounds_hold_for_non_negative_rates(phi, kappa, psi, a0):
    error, at = freeze(phi, kappa, psi, a0, MOMENTS_AT)
    assert (error <= stacked(frozen_bounds(*at)) + ODE_ERROR).all()


def test_frozen_bounds_need_non_negative_rates():
    error, at = freeze(ramp(0.0, 0.0), ramp(0.01, -5.0), ramp(0.1, 0.0), 1.0, [1.5])
    assert (error > 20 * stacked(frozen_bounds(*at))).all()


@without_deadline
@given(drifts(st.floats(-1, 1)), drifts(st.floats(0.1, 3)), drifts(st.floats(0.01, 2)), targets)
def test_gronwall_form_of_the_bounds_holds_for_rates_of_either_sign(phi, kappa, psi, a0):
    kappa = kappa._replace(size=max(abs(kappa.size), 0.1) * math.copysign(1, kappa.size))  # it divides by the slope
    error, at = freeze(phi, kappa, psi, a0, MOMENTS_AT[:-1])
    gronwall = gronwall_bounds(*at)
    assert (error <= gronwall * (1 + 1e-6) + ODE_ERROR).all()  # relative too: errors grow like e^{t^2} here
    assert (stacked(frozen_bounds(*at)) <= gronwall * (1 + 1e-6) + ROUNDING).all()


def test_frozen_bounds_are_sharp_and_of_order_two_for_short_times():
    t = np.geomspace(1e-3, 1e-2, 5).tolist()  # shorter ones drown in the error of the numerical solution
    error, at = freeze(ramp(0.5, 2.0), ramp(1.0, 3.0), ramp(0.4, 1.0), -0.5, t)  # all terms push the same way
    bound = stacked(frozen_bounds(*at))
    for moment in range(2):
        for curve in (error[moment], bound[moment]):
            assert np.polyfit(np.log(t), np.log(curve), 1)[0] == pytest.approx(2.0, abs=0.1)
        assert error[moment, 0] / bound[moment, 0] == pytest.approx(1.0, abs=0.01)  # -> 1 like 1 - O(t)


def test_the_cubic_terms_of_the_frozen_bounds_are_the_error_where_the_others_vanish():
    """Without reversion at first, mu = L_kappa L_phi t^3 / 3 - ... and v = psi^2 t - 2 L_kappa psi^2 t^3 / 3 + ..."""
    t, nearly_zero = 0.01, 1e-12
    error, at = freeze(ramp(0.0, 2.0), ramp(nearly_zero, 3.0), ramp(1.0, 0.0), 0.0, [t])
    bound = stacked(frozen_bounds(*at))
    assert bound[:, 0] == pytest.approx([2 * 3 * t**3 / 3, 2 * 3 * t**3 / 3], rel=1e-6)
    assert error[:, 0] == pytest.approx(bound[:, 0], rel=0.01)  # the next terms are of order t^5


def test_without_reversion_the_variance_bound_is_the_error():
    """v = int (psi_0 + L s)^2 ds = psi_0^2 t + psi_0 L t^2 + L^2 t^3 / 3."""
    error, at = freeze(ramp(0.0, 0.0), ramp(1e-9, 0.0), ramp(0.5, 2.0), 0.0, [1.5])
    assert error[1] == pytest.approx(stacked(frozen_bounds(*at))[1], rel=1e-6)


def test_at_long_times_the_variance_bound_follows_the_stationary_variance():
    t, slope = torch.tensor([10.0]), Lipschitz(kappa=0.1, phi=0.0, psi=0.0)
    assert frozen_bounds(t, 2.0, 3.0, 0.0, slope)[1].item() == pytest.approx(0.1 * 3.0**2 / (2 * 2.0) * 10.0**2)


def test_the_printed_bounds_solve_their_differential_inequalities():
    """b' = A t + L_kappa t b for the mean, b' = 2 B t + 2 L_kappa t b for the variance, from 0."""
    t, slope = torch.linspace(0, 1, 9, requires_grad=True), Lipschitz(0.7, 0.4, 0.3)
    mean, var = printed_bounds(t, 2.0, 0.5, 1.5, slope)
    (mean_slope,) = torch.autograd.grad(mean.sum(), t, retain_graph=True)
    (var_slope,) = torch.autograd.grad(var.sum(), t)
    a, b = 2.0 * 0.4 + 0.7 * 1.5, 0.7 * 0.5**2 / (2 * 2.0) + 0.3 * 0.5
    torch.testing.assert_close(mean_slope, a * t + 0.7 * t * mean)
    torch.testing.assert_close(var_slope, 2 * b * t + 2 * 0.7 * t * var)
    assert mean[0] == 0 and var[0] == 0


# Moments under varying coefficients ----------------------------------------------------------------------------------


def test_piecewise_moments_chain_the_closed_form(generator):
    phi, kappa, psi, dt = (torch.rand(7, generator=generator) + 0.1 for _ in range(4))
    mean, var = piecewise_moments(phi, kappa, psi, dt, a0=-1.0)
    m, v = torch.tensor(-1.0), torch.tensor(0.0)
    for n in range(7):
        m, added = ou_moments(phi[n], kappa[n], psi[n], dt[n], a0=m)
        v = added + torch.exp(-2 * kappa[n] * dt[n]) * v
        torch.testing.assert_close((mean[n], var[n]), (m, v))


def test_piecewise_moments_treat_trailing_axes_independently(generator):
    phi, kappa, psi = torch.rand(3, 6, 2, 4, generator=generator) + 0.1
    together = piecewise_moments(phi, kappa, psi, 0.2)
    apart = piecewise_moments(phi[:, 1, 2], kappa[:, 1, 2], psi[:, 1, 2], 0.2)
    torch.testing.assert_close(tuple(z[:, 1, 2] for z in together), apart)


WAVES = (
    Drift(0.2, 0.8, 3.0, 0.5, np.sin),
    Drift(2.0, 1.0, 4.0, 1.0, np.sin),
    Drift(0.5, 0.2, 5.0, 0.0, np.sin),
)
"""phi, kappa, psi; the last two stay positive."""


def midpoint_moments(cells: int) -> np.ndarray:
    middles = (np.arange(cells) + 0.5) / cells
    gates = (torch.from_numpy(c(middles)) for c in WAVES)
    return torch.stack(piecewise_moments(*gates, 1 / cells, a0=-1.0)).numpy()


def test_piecewise_moments_agree_with_an_ode_solver():
    cells = 1000
    ends = np.arange(1, cells + 1) / cells
    np.testing.assert_allclose(midpoint_moments(cells), true_moments(*WAVES, -1.0, ends), atol=1e-5)  # about h^2


def test_piecewise_moments_converge_with_order_two():
    cells = [20, 40, 80, 160]
    exact = true_moments(*WAVES, -1.0, [1.0])[:, 0]
    errors = np.array([np.abs(midpoint_moments(n)[:, -1] - exact) for n in cells])
    orders = -np.polyfit(np.log(cells), np.log(errors), 1)[0]
    assert orders == pytest.approx([2.0, 2.0], abs=0.1)
