"""Query-key pairs: the selected keys, and the circuit on each pair."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nsac.circuit import Backbone, Potentials
from nsac.layers.gates import Gates


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


@dataclass(frozen=True)
class Drive:
    """Quantities computed once per query and once per key, before pairs are formed. `rows` are slices of queries."""

    selected: Selected
    from_query: Tensor
    """(inter, B, H, Q), the queries' half of the circuit's first layer, with its bias"""
    from_key: Tensor
    """(inter, B, H, T), the keys' half; the keys themselves, (D, B, H, T), if `key_weight` is given"""
    key_weight: Tensor | None
    """(inter, D), applied after keys are gathered, if that moves fewer numbers"""

    def potentials(self, backbone: Backbone, rows: slice) -> tuple[Potentials, Tensor]:
        """Potentials of the circuit and values, (cells, K, B, H, q); every operation runs along the batch."""
        index = self._flat_index(rows)
        from_key, values = self._gather(self.from_key, index), self._gather(self.selected.v, index)
        if self.key_weight is not None:
            from_key = _project(self.key_weight, from_key)
        return backbone(self.from_query[:, None, ..., rows], from_key), values

    def query_time(self, rows: slice) -> Tensor | None:
        """Time of the query of each pair; None without times."""
        clock = self.selected.query_clock
        return None if clock is None else clock[:, None, rows]

    def elapsed(self, rows: slice) -> Tensor | None:
        """Time between query and key of each pair; None without times."""
        query_time, clock = self.query_time(rows), self.selected.key_clock
        if query_time is None or clock is None:
            return None
        key_time = self._gather(clock[None, :, None].expand_as(self.selected.v[:1]), self._flat_index(rows))
        return (query_time - key_time[0]).abs()

    def keep(self, rows: slice) -> Tensor | None:
        """Which pairs are kept; None: all."""
        return None if self.selected.keep is None else self.selected.keep[..., rows]

    def _flat_index(self, rows: slice) -> Tensor | None:  # k b h q -> b h (k q)
        index = self.selected.index
        return None if index is None else index[..., rows].permute(1, 2, 0, 3).flatten(2)

    def _gather(self, per_key: Tensor, index: Tensor | None) -> Tensor:
        """Values of the selected keys: (C, B, H, T) -> (C, K, B, H, q)."""
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


def _project(weight: Tensor, z: Tensor) -> Tensor:
    """(to, from), (from, ...) -> (to, ...)."""
    return (weight @ z.flatten(1)).unflatten(1, z.shape[1:])
