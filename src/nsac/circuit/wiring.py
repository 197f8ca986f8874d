"""The connectome as immutable data: adjacency matrices, layer by layer."""

from dataclasses import dataclass

import numpy as np
from ncps.wirings import AutoNCP

MIN_SPARSITY, MAX_SPARSITY = 0.1, 0.9  # supported by `AutoNCP`; above the maximum every neuron has a single synapse


@dataclass(frozen=True)
class Wiring:
    """Adjacency of a neuronal circuit policy: inputs -> inter -> command (-> command) -> motor.

    Each array is boolean, (from, to), and read-only.
    """

    sensory: np.ndarray  # (inputs, inter)
    inter: np.ndarray  # (inter, command)
    recurrent: np.ndarray  # (command, command)
    motor: np.ndarray  # (command, motor)


def ncp_wiring(input_dim: int, motors: int, units: int = 32, sparsity: float = 0.5, seed: int = 0) -> Wiring:
    """C. elegans-style wiring of `units` neurons, `motors` of them motor neurons; the same for the same seed.

    Every neuron has at least one incoming and one outgoing synapse.
    """
    if not MIN_SPARSITY <= sparsity <= MAX_SPARSITY:
        raise ValueError(
            f"`sparsity` must be between {MIN_SPARSITY} (dense) and {MAX_SPARSITY} (sparse). "
            f"Got {sparsity} instead. 0.5 is a good start."
        )
    if units < motors + 3:
        raise ValueError(
            f"`circuit_units` must be at least {motors + 3} ({motors} motor and 3 other neurons). "
            f"Got {units} instead. 32 is a good start."
        )
    ncp = AutoNCP(units, motors, sparsity_level=sparsity, seed=seed)
    ncp.build(input_dim)
    inter, command, motor = [ncp.get_neurons_of_layer(layer) for layer in range(3)]
    between = ncp.adjacency_matrix != 0
    adjacencies = (
        np.asarray(ncp.sensory_adjacency_matrix)[:, inter] != 0,
        between[np.ix_(inter, command)],
        between[np.ix_(command, command)],
        between[np.ix_(command, motor)],
    )
    for adjacency in adjacencies:
        adjacency.setflags(write=False)
    return Wiring(*adjacencies)


def sensory_wiring(input_dim: int, neurons: int, sparsity: float, generator: np.random.Generator) -> np.ndarray:
    """Random (inputs, neurons) adjacency: a fraction 1 - sparsity of synapses, at least one per neuron and input."""
    fan_in = max(1, round((1 - sparsity) * input_dim))
    adjacency = generator.random((input_dim, neurons)).argsort(0) < fan_in
    for source in np.flatnonzero(~adjacency.any(1)):
        adjacency[source, generator.integers(neurons)] = True
    return adjacency
