"""Query-key pairs: the selected keys, the circuit on each pair, and the gates: motor neurons to moments of a logit."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nsac.circuit import Backbone, Potentials
from nsac.core import nac_logit, ou_moments
from nsac.layers.times import Clock

GATE_MIN = 1e-5  # added to the positive gates: at a rate or a diffusion of exactly 0 the closed form is undefined


class Gates(NamedTuple):
    """Gates of each logit, and the moments that follow from them."""

    values: dict[str, Tensor]  # by paper letter
    mean: Tensor
    var: Tensor | None  # None: the logit is deterministic


def ou_gates(motor: Tensor, t: Tensor) -> Gates:
    """NSAC: rate kappa > 0, long-term mean phi in (-1, 1), diffusion psi > 0."""
    kappa, phi, psi = motor
    kappa, phi, psi = softplus(kappa) + GATE_MIN, torch.tanh(phi), softplus(psi) + GATE_MIN
    return Gates({"kappa": kappa, "phi": phi, "psi": psi}, *ou_moments(phi, kappa, psi, t))


def ode_gates(motor: Tensor, t: Tensor) -> Gates:
    """NAC: content gamma in (0, 1), rate omega > 0."""
    gamma, omega = motor
    gamma, omega = torch.sigmoid(gamma), softplus(omega) + GATE_MIN
    return Gates({"gamma": gamma, "omega": omega}, nac_logit(gamma, omega, t), None)


DYNAMICS = {"ou": (3, ou_gates), "ode": (2, ode_gates)}
"""Law of the logits: its number of motor neurons, and the function from them to the gates."""


class Pairs(NamedTuple):
    """Quantities of each query-key pair; pairs are the last four axes, (K, B, H, Q)."""

    potentials: Potentials
    t: Tensor  # internal time
    gates: Gates
    values: Tensor  # (D, K, B, H, Q)
    keep: Tensor | None


class Selected(NamedTuple):
    """Queries, keys and values, and the keys that each query attends to. Neurons are the first axis."""

    q: Tensor  # (D, B, H, Q)
    k: Tensor  # (D, B, H, T)
    v: Tensor  # (D, B, H, T)
    index: Tensor | None  # (K, B, H, Q), key of each pair; None: every key, in order
    keep: Tensor | None  # (K, B, H, Q), False where fewer than K keys are allowed; None: all are kept
    query_clock: Tensor | None  # (B, Q), None: no times
    key_clock: Tensor | None  # (B, T)

    @property
    def n_selected(self) -> int:
        """Keys per query, K."""
        return self.k.shape[-1] if self.index is None else len(self.index)

    @property
    def queries(self) -> Tensor:
        """Potentials of the queries, (B, Q, d_model)."""
        return self.q.permute(1, 3, 2, 0).flatten(-2)

    def pairs(
        self, step: int, backbone: Backbone, clock: Clock, gate: Callable[[Tensor, Tensor], Gates], elapsed: bool
    ) -> Iterator[tuple[slice, Pairs]]:
        """The pairs of each slice of `step` queries; the clock reads the query's time, or the time since the key."""
        w_q, w_k, bias = backbone.halves(len(self.q))
        from_query = torch.addmm(bias, w_q, self.q.flatten(1)).unflatten(1, self.q.shape[1:])  # (inter, B, H, Q)
        gather_first = len(self.k) <= len(w_k)  # the order that moves fewer numbers
        from_key = self.k if gather_first else _project(w_k, self.k)
        for start in range(0, self.q.shape[-1], step):
            rows = slice(start, start + step)
            index = None if self.index is None else self.index[..., rows].permute(1, 2, 0, 3).flatten(2)  # b h (k q)
            keys, values = self._gather(from_key, index), self._gather(self.v, index)
            keys = _project(w_k, keys) if gather_first else keys
            potentials = backbone(from_query[:, None, ..., rows], keys)
            t = None if self.query_clock is None else self.query_clock[:, None, rows]
            if elapsed and t is not None and self.key_clock is not None:
                t = (t - self._gather(self.key_clock[None, :, None].expand_as(self.v[:1]), index)[0]).abs()
            t, keep = clock(t), None if self.keep is None else self.keep[..., rows]
            yield rows, Pairs(potentials, t, gate(potentials.motor, t), values, keep)

    def _gather(self, per_key: Tensor, index: Tensor | None) -> Tensor:  # c b h t -> c k b h q
        if index is None:
            return per_key.movedim(-1, 1).unsqueeze(-1)
        gathered = per_key.gather(-1, index.expand(len(per_key), -1, -1, -1))
        gathered = gathered.unflatten(-1, (self.n_selected, -1)).movedim(-2, 1)
        return gathered.contiguous()  # the elementwise operations that follow are ten times slower on strided memory


def _project(weight: Tensor, z: Tensor) -> Tensor:  # (to, from), (from, ...) -> (to, ...)
    return (weight @ z.flatten(1)).unflatten(1, z.shape[1:])
