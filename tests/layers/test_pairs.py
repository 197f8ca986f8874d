import pytest
import torch
from torch.nn.functional import softplus

from nsac import NSAC
from nsac.core import nac_logit, ou_moments
from nsac.layers import Inputs
from nsac.layers.pairs import GATE_MIN, ode_gates, ou_gates
from support.layers import make, series


def test_ou_gates_are_positive_rates_a_bounded_mean_and_the_moments_of_the_logit(generator):
    motor, t = torch.randn(3, 50, generator=generator), torch.rand(50, generator=generator)
    gates = ou_gates(motor, t)
    kappa, phi, psi = softplus(motor[0]) + GATE_MIN, motor[1].tanh(), softplus(motor[2]) + GATE_MIN
    torch.testing.assert_close(gates.values, {"kappa": kappa, "phi": phi, "psi": psi})
    torch.testing.assert_close((gates.mean, gates.var), ou_moments(phi, kappa, psi, t))


def test_ode_gates_are_a_content_a_rate_and_the_deterministic_logit(generator):
    motor, t = torch.randn(2, 50, generator=generator), torch.rand(50, generator=generator)
    gates = ode_gates(motor, t)
    gamma, omega = torch.sigmoid(motor[0]), softplus(motor[1]) + GATE_MIN
    torch.testing.assert_close(gates.values, {"gamma": gamma, "omega": omega})
    torch.testing.assert_close(gates.mean, nac_logit(gamma, omega, t))
    assert gates.var is None


@pytest.mark.parametrize("gates", [ou_gates, ode_gates])
def test_gates_far_below_zero_leave_a_finite_logit(gates):
    motor = torch.full((3 if gates is ou_gates else 2, 1), -1e3)
    assert gates(motor, torch.ones(1)).mean.isfinite().all()


def test_queries_are_the_potentials_of_all_heads_in_order(generator):
    x, times = series(generator=generator)
    layer = make("all")
    q = layer.trace(x, times)["q"]  # b h q d
    torch.testing.assert_close(layer.attention.select(Inputs(x, times)).queries, q.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("width", [8, 64], ids=["project after gathering", "project before gathering"])
def test_keys_are_gathered_and_projected_in_either_order(width, generator):
    """A head of 2 neurons is narrower than the first layer of the circuit, one of 16 is wider."""
    x, times = series(generator=generator)
    layer = NSAC(3, 2, d_model=width, num_heads=4, topk=3, circuit_units=12, readout="all")
    cell, backbone = layer.trace(x, times), layer.attention.backbone
    keys = cell["k"].unsqueeze(2).expand(-1, -1, 9, -1, -1)
    keys = keys.gather(3, cell["index"][..., None].expand(-1, -1, -1, -1, keys.shape[-1]))
    pair = torch.cat([cell["q"].unsqueeze(3).expand_as(keys), keys], -1)
    inter = torch.tanh(pair @ backbone.sensory.matrix() + backbone.sensory.bias)
    torch.testing.assert_close(cell["inter"], inter)
    assert (width // 4 <= inter.shape[-1]) == (width == 8)
