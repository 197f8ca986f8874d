import numpy as np
import pytest
import torch

from nsac.circuit import Synapses, sensory_wiring


def test_only_existing_synapses_are_parameters(generator):
    adjacency = np.array([[1, 0, 1], [0, 1, 1]], dtype=bool)
    synapses = Synapses(adjacency, generator)
    assert torch.equal(synapses.matrix() != 0, torch.from_numpy(adjacency))
    assert synapses.weight.numel() == 4


def test_initial_weights_keep_the_scale_of_the_signal(generator):
    adjacency = sensory_wiring(200, 400, sparsity=0.8, generator=np.random.default_rng(0))
    out = Synapses(adjacency, generator, bias=False).matrix().T @ torch.randn(200, 500, generator=generator)
    assert out.var().item() == pytest.approx(1.0, abs=0.05)  # 200,000 nearly independent numbers
