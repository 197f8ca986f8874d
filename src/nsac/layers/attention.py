"""Continuous-time attention: sensory neurons, selection, gated logits, weighted values. Shared by NAC and NSAC."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from nsac._checks import check_choice, check_dtype, check_heads, check_int, check_positive, check_sequence
from nsac.circuit import Backbone, Sensory, ncp_wiring, sense
from nsac.core import masked_softmax, nac_logit, ou_moments, ou_sample, select_topk, weigh
from nsac.layers.clock import CYCLES, POSITION_SCALE, Clock, TimeMode, first_valid, same_precision, time_features

GATE_MIN = 1e-5
"""Added to the positive gates: a rate or a diffusion of exactly 0 has no closed form."""

EXACT_UP_TO = 16384
"""Longest sequence for which scoring every key costs less than the block search (measured, one CPU thread)."""

CHUNK = 2048
"""Query-key pairs per head that go through the circuit together; small enough to stay in cache."""

Readout = Literal["last", "all"] | int
Selection = Literal["auto", "exact", "sqrt"]
Project = Callable[[Tensor, Tensor, slice], Tensor]


class Gates(NamedTuple):
    """What the motor neurons say about each logit, and the moments that follow."""

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
"""Law of the logits: how many motor neurons it has, and what they mean."""


class Attention(nn.Module):
    """Multi-head attention whose logits follow `dynamics`, from tokens and queries to attended values.

    Use it to build models with heads of their own; `NSAC` and `NAC` are this plus an output layer.

    Args:
        input_dim: features of a token.
        d_model: sensory neurons of each kind (query, key, value), over all heads.
        num_heads: heads; must divide `d_model`.
        topk: keys each query looks at.
        sparsity: share of synapses left out, 0.1 to 0.9.
        readout: who asks. `"last"` valid token, `"all"` tokens, or a number of learned queries.
        dynamics: `"ou"` (stochastic logits) or `"ode"` (deterministic).
        query_dim: features of a separate query, `input_dim` by default.
        time: `"elapsed"`: the clock sees the time between query and key; `"absolute"`: the query's own time; `"none"`:
            tokens are a set without times or order.
        time_scale: how much time is long, about the length of a window.
        circuit_units: neurons of the circuit that gates the logits.
        unfolds: recurrent steps of its command neurons.
        selection: `"exact"`, `"sqrt"`, or `"auto"`: exact while that is cheaper.
        seed: fixes wiring and initial weights.
    """

    def __init__(
        self,
        input_dim: int,
        d_model: int = 64,
        num_heads: int = 16,
        topk: int = 8,
        sparsity: float = 0.5,
        readout: Readout = "last",
        *,
        dynamics: Literal["ou", "ode"] = "ou",
        query_dim: int | None = None,
        time: TimeMode = "elapsed",
        time_scale: float = 1.0,
        circuit_units: int = 32,
        unfolds: int = 1,
        selection: Selection = "auto",
        seed: int = 0,
    ):
        super().__init__()
        sizes = {"input_dim": input_dim, "d_model": d_model, "num_heads": num_heads, "topk": topk}
        for name, value in {**sizes, "circuit_units": circuit_units}.items():
            check_int(name, value)
        check_int("unfolds", unfolds, minimum=0)
        check_heads(d_model, num_heads)
        if not isinstance(readout, int):
            check_choice("readout", readout, ("last", "all"))
        else:
            check_int("readout", readout)
        check_choice("dynamics", dynamics, tuple(DYNAMICS))
        check_choice("time", time, ("elapsed", "absolute", "none"))
        check_choice("selection", selection, ("auto", "exact", "sqrt"))
        check_positive("time_scale", time_scale)
        self.input_dim, self.d_model, self.num_heads, self.topk = input_dim, d_model, num_heads, topk
        self.sparsity, self.readout, self.dynamics, self.time, self.time_scale = (
            sparsity, readout, dynamics, time, time_scale,
        )  # fmt: skip
        self.selection, self.seed = selection, seed
        learned = isinstance(readout, int)
        self.query_dim = None if learned else query_dim or input_dim

        motors, self._gates = DYNAMICS[dynamics]
        wiring = ncp_wiring(2 * (d_model // num_heads), motors, circuit_units, sparsity, seed)
        rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
        n_time = 0 if time == "none" else 2 * len(CYCLES)
        self.key, self.value = (Sensory(input_dim, n_time, d_model, sparsity, rng, generator) for _ in range(2))
        if learned:
            self.query = nn.Parameter(torch.randn(readout, d_model, generator=generator))
        else:
            # Selection has no gradient, so closeness in time must be built in: with equal time synapses the score of
            # two tokens contains a positive definite kernel of their times, largest at equal times.
            like = self.key if n_time else None
            self.query = Sensory(self.query_dim or 0, n_time, d_model, sparsity, rng, generator, like)
        self.backbone = Backbone(wiring, unfolds, generator)
        self.clock = Clock(num_heads)

    def check(self, x, times, mask, query, query_times, causal) -> None:
        """Raise a `ValueError` that names the argument and the way out, if anything does not fit."""
        takes_times = self.time != "none"
        sizes = {"input_dim": self.input_dim, "query_dim": self.query_dim, "takes_times": takes_times}
        check_sequence(x, times, mask, query, query_times, causal, **sizes)
        for name, value in (("x", x), ("query", query)):
            if value is not None:
                check_dtype(name, value, self.clock.t_a.dtype)

    def noise_shape(self, x: Tensor, query: Tensor | None, query_times: Tensor | None) -> tuple[int, ...]:
        """(topk, B, H, Q): the standard normal numbers one draw takes."""
        if query is not None:
            n_queries = query.shape[1]
        elif query_times is not None:
            n_queries = query_times.shape[-1]
        elif isinstance(self.readout, int):
            n_queries = self.readout
        else:
            n_queries = x.shape[1] if self.readout == "all" else 1
        return self.topk, x.shape[0], self.num_heads, n_queries

    def forward(
        self,
        x: Tensor,
        times: Tensor | None = None,
        mask: Tensor | None = None,
        query: Tensor | None = None,
        query_times: Tensor | None = None,
        causal: bool = False,
        noise: Tensor | None = None,
        project: Project | None = None,
    ) -> Tensor:
        """Attended values, (N, B, Q, d_model); N = 1 without `noise`, which is (N, topk, B, H, Q).

        Whoever needs a few linear functions of them passes `project`, which maps the values that a slice of queries
        looks at, (D, K, B, H, q), and what the queries would get of them without noise, (D, B, H, q), to
        (C, K, B, H, q). The result is (N, B, Q, H * C), and a draw costs C instead of D.
        """
        return self._run(x, times, mask, query, query_times, causal, noise, project, None)

    def trace(self, x, times=None, mask=None, query=None, query_times=None, causal=False) -> dict[str, Tensor]:
        """Every cell's potential in the noise-free pass; pairs are (B, H, Q, K, ...), `index` says which keys."""
        cells: dict[str, Tensor] = {}
        self._run(x, times, mask, query, query_times, causal, None, None, cells)
        return cells

    def _run(self, x, times, mask, query, query_times, causal, noise, project, cells):
        if mask is not None:  # nothing behind the mask, not even inf, may reach a product
            x = x.masked_fill(mask[..., None], 0)
            times = None if times is None else times.expand(mask.shape).masked_fill(mask, 0)
        times, query_times = same_precision(times, query_times)
        stamps = self._stamp(x, times, mask, query_times)
        k, v = sense(x, stamps.features, self.key, self.value)
        q, query_clock, positions = self._ask(x, times, mask, query, query_times, causal, stamps)
        q, k, v = (z.unflatten(-1, (self.num_heads, -1)).permute(3, 0, 2, 1) for z in (q, k, v))  # d b h .
        index, keep = self._select(q, k, mask, positions)

        # Pairs are (K, B, H, Q) with cells before them, (cells, K, B, H, Q): every operation runs along the batch.
        w_q, w_k, bias = self.backbone.halves(len(q))
        from_query = torch.addmm(bias, w_q, q.flatten(1)).unflatten(1, q.shape[1:])
        before = len(k) > len(w_k)  # project keys before or after they are fetched, whichever moves fewer numbers
        known = [_project(w_k, k) if before else k, v]
        if stamps.clock is not None:
            known.append(stamps.clock[None, :, None].expand_as(v[:1]))
        n_selected = x.shape[1] if index is None else len(index)
        step = q.shape[-1] if cells is not None else max(1, CHUNK // n_selected)
        attended = []
        for start in range(0, q.shape[-1], step):
            rows = slice(start, start + step)
            from_key, values, *key_clock = (_fetch(z, None if index is None else index[..., rows]) for z in known)
            potentials = self.backbone(from_query[:, None, ..., rows], from_key if before else _project(w_k, from_key))
            t = self.clock(self._t_sample(query_clock, key_clock, rows))
            gates = self._gates(potentials.motor, t)
            logits = gates.mean.unsqueeze(0)
            if noise is not None and gates.var is not None:
                logits = ou_sample(gates.mean, gates.var, noise[:, :n_selected, ..., rows])
            valid = None if keep is None else keep[..., rows]
            weights = masked_softmax(logits, valid, dim=1)
            if project is not None:
                usual = weigh(masked_softmax(gates.mean.unsqueeze(0), valid, dim=1), values).squeeze(0)
                values = project(values, usual, rows)
            attended.append(weigh(weights, values))
            if cells is not None:
                self._note(cells, q, k, v, index, potentials, t, gates, weights[0])
        heads = attended[0] if len(attended) == 1 else torch.cat(attended, -1)
        return heads.permute(0, 2, 4, 3, 1).flatten(-2)  # n d b h q -> n b q (h d)

    def _select(self, q, k, mask, positions):
        """Keys per query, (K, B, H, Q), and which of them count; None stands for all."""
        if k.shape[-1] <= self.topk and mask is None and positions is None:
            return None, None
        exact = self.selection == "exact" or (self.selection == "auto" and k.shape[-1] <= EXACT_UP_TO)
        q, k = q.permute(1, 2, 3, 0), k.permute(1, 2, 3, 0)
        pos = positions or (None, None)
        index, keep = select_topk(q, k, self.topk, mask, positions is not None, "exact" if exact else "sqrt", *pos)
        everywhere = mask is None and positions is None
        return index.movedim(-1, 0), None if everywhere else keep.movedim(-1, 0)

    def _note(self, cells, q, k, v, index, potentials, t, gates, weights):
        if index is None:
            index = torch.arange(k.shape[-1], device=k.device).view(-1, 1, 1, 1).expand_as(gates.mean)
        for name, tokens in (("q", q), ("k", k), ("v", v)):
            cells[name] = tokens.permute(1, 2, 3, 0)
        for name in ("inter", "command"):
            cells[name] = 2 * getattr(potentials, name).permute(2, 3, 4, 1, 0) - 1
        pairs = {**gates.values, "t": t.expand_as(gates.mean), "mu": gates.mean, "weights": weights, "index": index}
        if gates.var is not None:
            pairs["sigma"] = gates.var.sqrt()
        cells.update({name: pair.movedim(0, -1) for name, pair in pairs.items()})

    def _stamp(self, x, times, mask, query_times) -> "_Stamps":
        """Times since the window's first valid token: shifting all times changes nothing, and no future is seen."""
        if self.time == "none":
            return _Stamps(None, None, None, None)
        batch, n_keys = x.shape[:2]
        wide = torch.promote_types(x.dtype, torch.float32)  # half precision cannot count to 1000
        raw = torch.arange(n_keys, device=x.device, dtype=wide) if times is None else times
        raw = raw.expand(batch, n_keys)
        first = first_valid(raw, mask)
        scale = POSITION_SCALE if times is None else self.time_scale

        def features(raw):
            return time_features((raw - first) / scale).to(x.dtype)

        def clock(raw):
            return ((raw - first if self.time == "elapsed" else raw) / scale).to(x.dtype)

        raw = raw if mask is None else torch.where(mask, first, raw)
        if times is None:
            return _Stamps(features(raw), None, None, None)
        if query_times is None:
            return _Stamps(features(raw), clock(raw), None, None)
        asked = query_times.expand(batch, -1)
        return _Stamps(features(raw), clock(raw), features(asked), clock(asked))

    def _ask(self, x, times, mask, query, query_times, causal, stamps):
        """The queries' potentials (B, Q, d_model), their clock (B, Q) or None, positions if the future is hidden."""
        if isinstance(self.query, nn.Parameter):
            return self.query.expand(x.shape[0], -1, -1), None, None
        if query is not None or query_times is not None:
            positions = (query_times, times) if causal else None
            (q,) = sense(query, stamps.query_features, self.query)
            return q.expand(x.shape[0], -1, -1), stamps.query_clock, positions
        order = torch.arange(x.shape[1], device=x.device) if times is None else times.expand(x.shape[0], -1)
        if self.readout == "all":
            (q,) = sense(x, stamps.features, self.query)
            return q, stamps.clock, (order, order) if causal else None

        def last(z):
            if z is None or mask is None:
                return z if z is None else z[:, -1:]
            return z.gather(1, latest.view(-1, *(1,) * (z.ndim - 1)).expand(-1, 1, *z.shape[2:]))

        if mask is not None:
            latest = (torch.arange(x.shape[1], device=x.device) * ~mask).amax(-1)
        (q,) = sense(last(x), last(stamps.features), self.query)
        return q, last(stamps.clock), (last(order), order) if causal and times is not None else None

    def _t_sample(self, query_clock, key_clock, rows):
        if query_clock is None:
            return None
        asked = query_clock[:, None, rows]
        return (asked - key_clock[0][0]).abs() if self.time == "elapsed" else asked

    def extra_repr(self) -> str:  # noqa: D102
        return (
            f"{self.input_dim} -> {self.d_model}, num_heads={self.num_heads}, topk={self.topk}, "
            f"sparsity={self.sparsity}, readout={self.readout!r}, dynamics={self.dynamics!r}, time={self.time!r}"
        )


class _Stamps(NamedTuple):
    features: Tensor | None  # (B, T, F) time features of the tokens
    clock: Tensor | None  # (B, T) what the clock compares; None: no times were given
    query_features: Tensor | None  # (B, Q, F)
    query_clock: Tensor | None  # (B, Q)


def _project(weight: Tensor, z: Tensor) -> Tensor:
    """(to, from), (from, ...) -> (to, ...)."""
    return (weight @ z.flatten(1)).unflatten(1, z.shape[1:])


def _fetch(known: Tensor, index: Tensor | None) -> Tensor:
    """What is known of the selected keys: (C, B, H, T), (K, B, H, Q) -> (C, K, B, H, Q)."""
    if index is None:
        return known.movedim(-1, 1).unsqueeze(-1)
    flat = index.permute(1, 2, 0, 3).flatten(2).expand(len(known), -1, -1, -1)  # c b h (k q)
    fetched = known.gather(-1, flat).unflatten(-1, (len(index), -1)).movedim(-2, 1)
    return fetched.contiguous()  # what follows is elementwise over pairs; strides would cost it tenfold
