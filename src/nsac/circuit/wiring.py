"""The connectome as frozen data: which neuron reaches which, layer by layer."""

from dataclasses import dataclass

import numpy as np
from ncps.wirings import AutoNCP

SPARSITY_RANGE = (0.1, 0.9)
"""What `AutoNCP` can wire: below, it refuses; above, every neuron is down to one synapse."""


@dataclass(frozen=True)
class Wiring:
    """Adjacency of a neuronal circuit policy: inputs -> inter -> command (-> command) -> motor.

    Each array is boolean, (from, to), and cannot be written to.
    """

    sensory: np.ndarray
    """(inputs, inter)"""
    inter: np.ndarray
    """(inter, command)"""
    recurrent: np.ndarray
    """(command, command)"""
    motor: np.ndarray
    """(command, motor)"""

    @property
    def synapses(self) -> int:
        """How many connections there are."""
        return sum(int(a.sum()) for a in (self.sensory, self.inter, self.recurrent, self.motor))


def ncp_wiring(inputs: int, motors: int, units: int = 32, sparsity: float = 0.5, seed: int = 0) -> Wiring:
    """C. elegans-style wiring of `units` neurons, `motors` of them motor neurons; the same for the same seed.

    Every neuron has at least one synapse in and one out, so every neuron matters.
    """
    low, high = SPARSITY_RANGE
    if not low <= sparsity <= high:
        raise ValueError(
            f"`sparsity` must be between {low} (dense) and {high} (sparse). Got {sparsity} instead. "
            "0.5 is a good start."
        )
    if units < motors + 3:
        raise ValueError(
            f"`circuit_units` must be at least {motors + 3} ({motors} motor neurons and the other kinds). "
            f"Got {units} instead. 32 is a good start."
        )
    ncp = AutoNCP(units, motors, sparsity_level=sparsity, seed=seed)
    ncp.build(inputs)
    inter, command, motor = (ncp.get_neurons_of_layer(layer) for layer in range(3))
    between = ncp.adjacency_matrix != 0
    parts = (
        np.asarray(ncp.sensory_adjacency_matrix)[:, inter] != 0,
        between[np.ix_(inter, command)],
        between[np.ix_(command, command)],
        between[np.ix_(command, motor)],
    )
    for part in parts:
        part.setflags(write=False)
    return Wiring(*parts)


def sensory_wiring(inputs: int, neurons: int, sparsity: float, rng: np.random.Generator) -> np.ndarray:
    """Random (inputs, neurons) adjacency: a share 1 - sparsity of the synapses, no neuron and no input without one."""
    fan_in = max(1, round((1 - sparsity) * inputs))
    adjacency = rng.random((inputs, neurons)).argsort(0) < fan_in
    for source in np.flatnonzero(~adjacency.any(1)):
        adjacency[source, rng.integers(neurons)] = True
    return adjacency
