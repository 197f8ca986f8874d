import numpy as np
import pytest

from nsac.circuit import ncp_wiring, sensory_wiring


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


def test_a_wiring_is_read_only():
    wiring = ncp_wiring(8, 3)
    with pytest.raises(ValueError, match="read-only"):
        wiring.sensory[0, 0] = True
    with pytest.raises(AttributeError):
        wiring.sensory = wiring.motor  # pyright: ignore[reportAttributeAccessIssue]


def test_a_sparser_wiring_has_fewer_synapses():
    counts = [sum(a.sum() for a in vars(ncp_wiring(16, 3, sparsity=s)).values()) for s in (0.1, 0.5, 0.9)]
    assert counts[0] > counts[1] > counts[2]


@pytest.mark.parametrize("inputs", [1, 3, 40])
def test_every_neuron_and_every_input_of_a_sensory_wiring_has_a_synapse(inputs, seed):
    adjacency = sensory_wiring(inputs, 16, sparsity=0.9, generator=np.random.default_rng(seed))
    assert adjacency.any(0).all() and adjacency.any(1).all()


@pytest.mark.parametrize(("sparsity", "units"), [(0.05, 32), (0.95, 32), (0.5, 5)])
def test_a_wiring_that_is_not_possible_is_refused(sparsity, units):
    with pytest.raises(ValueError, match="must be"):
        ncp_wiring(8, 3, units=units, sparsity=sparsity)
