import numpy as np
import pytest
import torch
from scipy import stats

from nsac.core import euler_maruyama, nac_logit, ou_moments, ou_sample, piecewise_moments
from support import ALPHA

N_DRAWS = 100_000


@pytest.fixture
def gates(generator) -> dict[str, torch.Tensor]:
    phi, *positive = torch.randn(3, 6, generator=generator)
    kappa, psi = (z.exp() for z in positive)
    return {"phi": phi, "kappa": kappa, "psi": psi}


def test_two_ou_steps_are_one(gates):
    s, r, a0 = torch.tensor(0.3), torch.tensor(0.9), torch.tensor(-2.0)
    m1, v1 = ou_moments(t=s, a0=a0, **gates)
    m2, v2 = ou_moments(t=r, a0=m1, **gates)
    carried = torch.exp(-2 * gates["kappa"] * r) * v1
    torch.testing.assert_close((m2, v2 + carried), ou_moments(t=s + r, a0=a0, **gates))


def test_a_start_at_zero_is_the_default(gates):
    t = torch.tensor(0.7)
    torch.testing.assert_close(ou_moments(t=t, **gates), ou_moments(t=t, a0=torch.tensor(0.0), **gates))


@pytest.mark.parametrize("a0", [0.0, 1.0, -1.0])
def test_a_start_may_be_a_number_or_a_tensor(a0, gates):
    t = torch.tensor(0.7)
    torch.testing.assert_close(ou_moments(t=t, a0=a0, **gates), ou_moments(t=t, a0=torch.tensor(a0), **gates))


@pytest.mark.parametrize("t", [1e-6, 1e-8, 1e-12, 1e-16])
def test_small_times_lose_no_digits(gates, t):
    phi, kappa, psi = gates.values()
    mean, var = ou_moments(phi, kappa, psi, torch.tensor(t))
    x = kappa * t  # 1 - e^-x = x - x^2/2 + x^3/6 - ...; the next term is below rounding
    torch.testing.assert_close(mean, phi * x * (1 - x / 2 + x**2 / 6), rtol=1e-12, atol=0)
    torch.testing.assert_close(var, psi**2 * t * (1 - x + 2 * x**2 / 3), rtol=1e-12, atol=0)


def test_single_precision_agrees_with_double_at_every_scale_of_time():
    t = torch.logspace(-8, 2, 50)
    phi, kappa, psi = torch.tensor(0.5), torch.tensor([[1e-5], [1e-2], [1.0], [30.0]]), torch.tensor(0.1)
    single = ou_moments(phi.float(), kappa.float(), psi.float(), t.float())
    for got, expected in zip(single, ou_moments(phi, kappa, psi, t), strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=0)  # a few units of float32


def test_moments_have_the_right_gradients(generator):
    phi, a0 = torch.randn(2, 4, generator=generator)
    kappa, psi, t = torch.rand(3, 4, generator=generator) + 0.1
    leaves = [z.clone().requires_grad_() for z in (phi, kappa, psi, t, a0)]
    assert torch.autograd.gradcheck(ou_moments, leaves)


def test_nac_logit_has_the_right_gradients(generator):
    leaves = [z.clone().requires_grad_() for z in torch.rand(3, 4, generator=generator) + 0.1]
    assert torch.autograd.gradcheck(nac_logit, leaves)


def test_nac_logit_solves_its_ode():
    gamma, omega = torch.tensor([0.2, 0.9]), torch.tensor([0.5, 3.0])
    t = torch.linspace(0.0, 5.0, 20)[:, None].expand(20, 2).clone().requires_grad_()
    a = nac_logit(gamma, omega, t)
    (slope,) = torch.autograd.grad(a.sum(), t)
    torch.testing.assert_close(slope, gamma - omega * a)
    assert (a[0] == 0).all()


def test_nac_logit_is_the_ou_mean_without_noise(gates):
    phi, kappa, psi = gates.values()
    t = torch.tensor(0.7)
    torch.testing.assert_close(nac_logit(phi * kappa, kappa, t), ou_moments(phi, kappa, psi, t)[0])


def test_exact_draws_are_normal_with_the_closed_form_moments(generator):
    mean, var = ou_moments(torch.tensor(0.5), torch.tensor(2.0), torch.tensor(0.8), torch.tensor(0.4), a0=-1.0)
    draws = ou_sample(mean, var, torch.randn(N_DRAWS, generator=generator)).numpy()
    assert stats.kstest(draws, "norm", args=(mean.item(), var.sqrt().item())).pvalue > ALPHA
    assert stats.ttest_1samp(draws, mean.item()).pvalue > ALPHA
    chi2 = stats.chi2(N_DRAWS - 1).cdf((N_DRAWS - 1) * draws.var(ddof=1) / var.item())
    assert min(chi2, 1 - chi2) > ALPHA / 2


def euler_moments(steps: int, phi=0.5, kappa=2.0, psi=0.8, t=1.0, a0=-1.0) -> torch.Tensor:
    """Exact moments of the Euler path's end: it is affine in the noise, so its variance is the squared gradient."""
    noise = torch.zeros(steps, requires_grad=True)
    end = euler_maruyama(phi, kappa, psi, t, noise, a0)[-1]
    (gradient,) = torch.autograd.grad(end, noise)
    return torch.stack([end.detach(), gradient.square().sum()])


@pytest.mark.parametrize("moment", [0, 1], ids=["mean", "variance"])
def test_euler_converges_to_the_closed_form_with_weak_order_one(moment):
    exact = torch.stack(ou_moments(*map(torch.tensor, (0.5, 2.0, 0.8, 1.0)), a0=-1.0))
    steps = [32, 64, 128, 256]
    errors = [(euler_moments(n) - exact)[moment].abs().item() for n in steps]
    order = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert order == pytest.approx(1.0, abs=0.1)


def test_euler_takes_functions_of_time(generator):
    noise = torch.randn(50, 3, generator=generator)
    constant = euler_maruyama(0.5, 2.0, 0.8, 1.0, noise)
    assert constant.shape == (51, 3)
    functions = [lambda s, c=c: torch.full_like(s, c) for c in (0.5, 2.0, 0.8)]
    torch.testing.assert_close(euler_maruyama(*functions, 1.0, noise), constant)
    ramp = euler_maruyama(lambda s: s, 1.0, 0.0, 1.0, torch.zeros(1000))  # a' = s - a from 0: a(1) = e^-1
    assert ramp[-1].item() == pytest.approx(np.exp(-1), abs=1e-3)  # an Euler step is 1e-3


def test_a_path_starts_at_zero_by_default():
    assert euler_maruyama(0.5, 2.0, 0.8, 1.0, torch.zeros(3, 2))[0].tolist() == [0.0, 0.0]


def test_a_chain_of_intervals_starts_at_zero_by_default(gates):
    phi, kappa, psi = (gate[:, None] for gate in gates.values())
    mean, var = piecewise_moments(phi, kappa, psi, 0.3)
    torch.testing.assert_close((mean[0], var[0]), ou_moments(phi[0], kappa[0], psi[0], torch.tensor(0.3)))


class Oracle(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self, phi, kappa, psi):
        super().__init__()
        self.phi, self.kappa, self.psi = phi, kappa, psi

    def f(self, t, a):
        return self.kappa * (self.phi - a)

    def g(self, t, a):
        return torch.full_like(a, self.psi)


def test_moments_agree_with_torchsde(seed):
    torchsde = pytest.importorskip("torchsde")
    phi, kappa, psi, a0, n = 0.5, 2.0, 0.8, -1.0, 20_000
    ts, start = torch.tensor([0.0, 0.4, 1.0]), torch.full((n, 1), a0)
    noise = torchsde.BrownianInterval(
        0.0, 1.0, size=(n, 1), entropy=seed, dt=0.02, levy_area_approximation="space-time"
    )
    # srk has strong order 1.5 for this noise: at dt = 0.02 its bias is far below the sampling error
    path = torchsde.sdeint(Oracle(phi, kappa, psi), start, ts, bm=noise, method="srk", dt=0.02).squeeze(-1)
    for t, draws in zip(ts[1:], path[1:], strict=True):
        mean, var = ou_moments(*map(torch.tensor, (phi, kappa, psi)), t, a0)
        assert stats.kstest(draws.numpy(), "norm", args=(mean.item(), var.sqrt().item())).pvalue > ALPHA


def test_euler_paths_are_those_of_torchsde_on_the_same_brownian_motion(seed):
    torchsde = pytest.importorskip("torchsde")
    ts = torch.linspace(0.0, 1.0, 33)  # a power of 2: both sides add up the same times
    bm = torchsde.BrownianInterval(0.0, 1.0, size=(5, 1), entropy=seed)
    theirs = torchsde.sdeint(Oracle(0.5, 2.0, 0.8), torch.zeros(5, 1), ts, bm=bm, method="euler", dt=1 / 32)
    increments = torch.stack([bm(a, b) for a, b in zip(ts[:-1], ts[1:], strict=True)])
    torch.testing.assert_close(euler_maruyama(0.5, 2.0, 0.8, 1.0, increments * 32**0.5), theirs)
