"""The shared circuit: from a query and a key to the motor neurons that gate their logit."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from nsac.circuit.synapses import Synapses
from nsac.circuit.wiring import Wiring


class Potentials(NamedTuple):
    """Cell potentials of the circuit, one circuit per query-key pair."""

    inter: Tensor  # (inter, ...)
    command: Tensor  # (command, ...)
    motor: Tensor  # (motor, ...), before the gates' nonlinearities


class Backbone(nn.Module):
    r"""`u = [q; k] -> inter -> command -> motor` along a wiring, with tanh cells. Neurons are the first axis.

    The first layer is linear in u, so $W u = W_q q + W_k k$: the caller multiplies by the `halves` apart, once per
    query and once per key, and they are added per pair. Recurrent command synapses act `unfolds` times:
    $c_0 = \tanh(W_{ic} i + b)$, $c_{s+1} = \tanh(W_{ic} i + W_{cc} c_s + b)$.

    Args:
        wiring: the connectome; its inputs are the two halves of u.
        unfolds: recurrent command steps.
        generator: draws the weights.
    """

    def __init__(self, wiring: Wiring, unfolds: int, generator: torch.Generator):
        super().__init__()
        self.unfolds = unfolds
        self.sensory = Synapses(wiring.sensory, generator)
        self.inter = Synapses(wiring.inter, generator)
        self.recurrent = Synapses(wiring.recurrent, generator, bias=False) if unfolds else None
        self.motor = Synapses(wiring.motor, generator)

    def halves(self, dim: int) -> tuple[Tensor, Tensor]:
        """W_q and W_k, transposed: (inter, dim) each."""
        w_q, w_k = self.sensory.matrix().mT.split(dim, 1)
        return w_q, w_k

    def forward(self, from_query: Tensor, from_key: Tensor) -> Potentials:
        """Potentials of each pair, given $W_q q + b$ and $W_k k$, (inter, ...), broadcast against each other."""
        inter = fast_tanh(from_query + from_key)
        drive = self.inter(inter)
        command = fast_tanh(drive)
        if self.recurrent is not None:
            for _ in range(self.unfolds):
                command = fast_tanh(drive + self.recurrent(command))
        return Potentials(inter, command, self.motor(command))


def fast_tanh(x: Tensor) -> Tensor:
    r"""$\tanh x = 2\sigma(2x) - 1$: the same cell, a fifth of the time, for the logistic function is vectorised."""
    return 2 * torch.sigmoid(2 * x) - 1
