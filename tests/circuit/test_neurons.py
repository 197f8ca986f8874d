import numpy as np
import pytest
import torch

from nsac.circuit import Backbone, Synapses, ncp_wiring, sensory_wiring


def test_only_existing_synapses_are_parameters(generator):
    adjacency = np.array([[1, 0, 1], [0, 1, 1]], dtype=bool)
    synapses = Synapses(adjacency, generator)
    assert torch.equal(synapses.matrix() != 0, torch.from_numpy(adjacency))
    assert synapses.weight.numel() == 4


def test_absent_synapses_can_be_stored_as_zeros(generator):
    adjacency = np.array([[1, 0, 1], [0, 1, 1]], dtype=bool)
    synapses = Synapses(adjacency, generator)
    sparse = synapses.matrix()
    synapses.densify()
    assert synapses.weight.shape == (2, 3) and torch.equal(synapses.matrix(), sparse)


def test_initial_weights_keep_the_scale_of_the_signal(generator):
    adjacency = sensory_wiring(200, 400, sparsity=0.8, generator=np.random.default_rng(0))
    out = Synapses(adjacency, generator, bias=False).matrix().T @ torch.randn(200, 500, generator=generator)
    assert out.var().item() == pytest.approx(1.0, abs=0.05)  # 200,000 nearly independent numbers


def test_the_backbone_agrees_with_its_equations(generator):
    wiring = ncp_wiring(6, 3, units=16, seed=3)
    circuit = Backbone(wiring, unfolds=2, generator=generator)
    q, k = torch.randn(2, 3, 7, generator=generator).unbind(0)
    w_q, w_k, bias = circuit.halves(3)
    out = circuit(w_q @ q + bias, w_k @ k)
    inter = torch.tanh(circuit.sensory.matrix().T @ torch.cat([q, k]) + circuit.sensory.bias[:, None])
    drive = circuit.inter.matrix().T @ inter + circuit.inter.bias[:, None]
    command = torch.tanh(drive)
    for _ in range(2):
        command = torch.tanh(drive + circuit.recurrent.matrix().T @ command)
    motor = circuit.motor.matrix().T @ command + circuit.motor.bias[:, None]
    torch.testing.assert_close((2 * out.inter - 1, 2 * out.command - 1, out.motor), (inter, command, motor))
