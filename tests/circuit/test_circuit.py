import numpy as np
import pytest
import torch

from nsac.circuit import Backbone, Synapses, ncp_wiring, sensory_wiring


@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("inputs", [2, 8, 128])
def test_every_neuron_of_a_wiring_has_a_synapse_in_and_out(inputs, sparsity, seed):
    wiring = ncp_wiring(inputs, motors=3, units=32, sparsity=sparsity, seed=seed)
    for adjacency in (wiring.sensory, wiring.inter, wiring.motor):
        assert adjacency.any(0).all() and adjacency.any(1).all()
    assert wiring.recurrent.any()


def test_a_wiring_depends_on_its_seed_alone():
    one, same, other = (ncp_wiring(8, 3, seed=s) for s in (1, 1, 2))
    assert all(np.array_equal(getattr(one, n), getattr(same, n)) for n in ("sensory", "inter", "recurrent", "motor"))
    assert not np.array_equal(one.sensory, other.sensory)


def test_a_wiring_is_frozen():
    wiring = ncp_wiring(8, 3)
    with pytest.raises(ValueError, match="read-only"):
        wiring.sensory[0, 0] = True
    with pytest.raises(AttributeError):
        wiring.sensory = wiring.motor  # pyright: ignore[reportAttributeAccessIssue]


def test_a_sparser_wiring_has_fewer_synapses():
    counts = [ncp_wiring(16, 3, sparsity=s).synapses for s in (0.1, 0.5, 0.9)]
    assert counts[0] > counts[1] > counts[2]


@pytest.mark.parametrize("inputs", [1, 3, 40])
def test_sensory_wiring_leaves_no_neuron_and_no_input_out(inputs, seed):
    adjacency = sensory_wiring(inputs, 16, sparsity=0.9, generator=np.random.default_rng(seed))
    assert adjacency.any(0).all() and adjacency.any(1).all()


def test_only_existing_synapses_are_parameters(generator):
    adjacency = np.array([[1, 0, 1], [0, 1, 1]], dtype=bool)
    synapses = Synapses(adjacency, generator)
    assert torch.equal(synapses.matrix() != 0, torch.from_numpy(adjacency))
    assert np.array_equal(synapses.adjacency(), adjacency)
    assert synapses.weight.numel() == 4


def test_initial_weights_keep_the_scale_of_the_signal(generator):
    adjacency = sensory_wiring(200, 400, sparsity=0.8, generator=np.random.default_rng(0))
    out = Synapses(adjacency, generator, bias=False).matrix().T @ torch.randn(200, 500, generator=generator)
    assert out.var().item() == pytest.approx(1.0, abs=0.05)  # 200,000 nearly independent numbers


def test_the_backbone_is_its_equations(generator):
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


@pytest.mark.parametrize(("sparsity", "units"), [(0.05, 32), (0.95, 32), (0.5, 5)])
def test_what_cannot_be_wired_is_refused(sparsity, units):
    with pytest.raises(ValueError, match="must be"):
        ncp_wiring(8, 3, units=units, sparsity=sparsity)
