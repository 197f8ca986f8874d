"""Query-key pairs: the selected keys, the circuit on each pair, and the gates: motor neurons to moments of a logit."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nsac.circuit import Backbone, Potentials
from nsac.core import nac_logit, ou_moments
from nsac.layers.times import Clock

GATE_MIN = 1e-5
"""Added to the positive gates: at a rate or a diffusion of exactly 0 the closed form is undefined."""


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


class Pairs(NamedTuple):
    """Quantities of each query-key pair; pairs are the last four axes, (K, B, H, Q)."""

    potentials: Potentials
    t: Tensor  # internal time
    gates: Gates
    values: Tensor  # (D, K, B, H, Q)
    keep: Tensor | None


class Drive(NamedTuple):
    """Quantities computed once per query and once per key, before pairs are formed."""

    selected: Selected
    from_query: Tensor  # (inter, B, H, Q), the queries' half of the circuit's first layer, with its bias
    from_key: Tensor  # (inter, B, H, T), the keys' half; the keys themselves, (D, B, H, T), if `key_weight` is given
    key_weight: Tensor | None  # (inter, D), applied after keys are gathered, if that moves fewer numbers

    def pairs(
        self, rows: slice, backbone: Backbone, clock: Clock, gate: Callable[[Tensor, Tensor], Gates], elapsed: bool
    ) -> Pairs:
        """The pairs of a slice of queries; `clock` reads the time of the query, or the time `elapsed` since the key."""
        s, index = self.selected, self.selected.index
        if index is not None:
            index = index[..., rows].permute(1, 2, 0, 3).flatten(2)  # k b h q -> b h (k q)
        from_key, values = self._gather(self.from_key, index), self._gather(s.v, index)
        if self.key_weight is not None:
            from_key = _project(self.key_weight, from_key)
        potentials = backbone(self.from_query[:, None, ..., rows], from_key)
        t = None if s.query_clock is None else s.query_clock[:, None, rows]
        if elapsed and t is not None and s.key_clock is not None:
            t = (t - self._gather(s.key_clock[None, :, None].expand_as(s.v[:1]), index)[0]).abs()
        t = clock(t)
        return Pairs(potentials, t, gate(potentials.motor, t), values, None if s.keep is None else s.keep[..., rows])

    def _gather(self, per_key: Tensor, index: Tensor | None) -> Tensor:  # c b h t -> c k b h q
        if index is None:
            return per_key.movedim(-1, 1).unsqueeze(-1)
        gathered = per_key.gather(-1, index.expand(len(per_key), -1, -1, -1))
        gathered = gathered.unflatten(-1, (self.selected.n_selected, -1)).movedim(-2, 1)
        return gathered.contiguous()  # the elementwise operations that follow are ten times slower on strided memory


def drive(backbone: Backbone, selected: Selected) -> Drive:
    """The two halves of the circuit's first layer."""
    q, k = selected.q, selected.k
    w_q, w_k, bias = backbone.halves(len(q))
    from_query = torch.addmm(bias, w_q, q.flatten(1)).unflatten(1, q.shape[1:])
    if len(k) > len(w_k):
        return Drive(selected, from_query, _project(w_k, k), None)
    return Drive(selected, from_query, k, w_k)


def _project(weight: Tensor, z: Tensor) -> Tensor:  # (to, from), (from, ...) -> (to, ...)
    return (weight @ z.flatten(1)).unflatten(1, z.shape[1:])
