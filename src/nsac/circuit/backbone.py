"""The shared circuit: from a query and a key to the motor neurons that gate their logit."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from nsac.circuit.sensory import Synapses
from nsac.circuit.wiring import Wiring


class Potentials(NamedTuple):
    """Cell potentials of the circuit, one circuit per query-key pair."""

    inter: Tensor  # (inter, ...), as (1 + tanh) / 2
    command: Tensor  # (command, ...), as (1 + tanh) / 2
    motor: Tensor  # (motor, ...), before the gates' nonlinearities


class Backbone(nn.Module):
    r"""`u = [q; k] -> inter -> command -> motor` along a wiring, with tanh cells. Neurons are the first axis.

    The first layer is linear in u, so $W u = W_q q + W_k k$: the caller multiplies by the two `halves` separately,
    once per query and once per key, and adds the products per pair. Recurrent command synapses act `unfolds` times:
    $c_0 = \tanh(W_{ic} i + b)$, $c_{s+1} = \tanh(W_{ic} i + W_{cc} c_s + b)$.

    A cell is computed as $\sigma(2z) = (1 + \tanh z)/2$, because the logistic function is vectorised and takes a sixth
    of the time. The factor 2 of z and the conversion back to tanh are part of the small matrices before and after it.
    """

    def __init__(self, wiring: Wiring, unfolds: int, generator: torch.Generator):
        super().__init__()
        self.unfolds = unfolds
        self.sensory = Synapses(wiring.sensory, generator)
        self.inter = Synapses(wiring.inter, generator)
        self.recurrent = Synapses(wiring.recurrent, generator, bias=False) if unfolds else None
        self.motor = Synapses(wiring.motor, generator)

    def halves(self, dim: int) -> tuple[Tensor, Tensor, Tensor]:
        """Twice W_q and W_k, transposed to (inter, dim), and twice the bias, (inter, 1)."""
        w_q, w_k = (2 * self.sensory.matrix().mT).split(dim, 1)
        return w_q, w_k, 2 * self.sensory.bias[:, None]

    def forward(self, from_query: Tensor, from_key: Tensor) -> Potentials:
        """Potentials of each pair, from the products of `halves` with query (plus bias) and with key, (inter, ...)."""
        inter = torch.sigmoid(from_query + from_key)
        drive = _through(self.inter, inter, gain=2)
        command = torch.sigmoid(drive)
        if self.recurrent is not None:
            for _ in range(self.unfolds):
                command = torch.sigmoid(drive + _through(self.recurrent, command, gain=2))
        return Potentials(inter, command, _through(self.motor, command, gain=1))


def _through(synapses: Synapses, cells: Tensor, gain: float) -> Tensor:
    r"""The gain times $(W^T\tanh z + b)$, given $s = (1 + \tanh z)/2$: that is gain $(2 W^T s + b - W^T 1)$."""
    weight = synapses.matrix().mT
    total = weight.sum(1, keepdim=True)
    shift = synapses.bias[:, None] - total if synapses.biased else -total
    out = torch.addmm(shift, weight, cells.flatten(1), beta=gain, alpha=2 * gain)
    return out.unflatten(1, cells.shape[1:])
