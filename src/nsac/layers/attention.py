"""Continuous-time attention: sensory neurons, selection, gated logits, weighted values. Shared by NAC and NSAC."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from nsac._checks import check_choice, check_dtype, check_heads, check_int, check_positive, check_sequence
from nsac.circuit import Backbone, Sensory, ncp_wiring, sense, sensory_wiring
from nsac.core import masked_softmax, ou_sample, select_topk, weigh
from nsac.layers.inputs import Inputs
from nsac.layers.pairs import DYNAMICS, Pairs, Selected
from nsac.layers.times import CYCLES, Clock, TimeMode, Times, encode_times, last_token, same_precision

EXACT_UP_TO = 16384  # longest sequence for which scoring every key is the faster search (measured, one CPU thread)
CHUNK_PAIRS = 2048  # query-key pairs per head that go through the circuit together; small enough to stay in cache

Readout = Literal["last", "all"] | int
Selection = Literal["auto", "exact", "sqrt"]
Project = Callable[[Tensor, Tensor, slice], Tensor]


class Attention(nn.Module):
    """Multi-head attention whose logits follow `dynamics`, from tokens and queries to attended values.

    Use it to build models with heads of their own; `NSAC` and `NAC` are this plus an output layer.

    Args:
        dynamics: `"ou"` (stochastic logits) or `"ode"` (deterministic).
        query_dim: features of a separate query, `input_dim` by default.
        input_dim, d_model, ..., seed: those of `NSAC`.
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
        if isinstance(readout, int):
            check_int("readout", readout)
        else:
            check_choice("readout", readout, ("last", "all"))
        check_choice("dynamics", dynamics, tuple(DYNAMICS))
        check_choice("time", time, ("elapsed", "absolute", "none"))
        check_choice("selection", selection, ("auto", "exact", "sqrt"))
        check_positive("time_scale", time_scale)
        self.input_dim, self.d_model, self.num_heads, self.topk = input_dim, d_model, num_heads, topk
        self.sparsity, self.readout, self.dynamics = sparsity, readout, dynamics
        self.time: TimeMode = time
        self.time_scale, self.selection = time_scale, selection
        learned = isinstance(readout, int)
        self.query_dim = None if learned else query_dim or input_dim

        motors, self._gates = DYNAMICS[dynamics]
        wiring = ncp_wiring(2 * (d_model // num_heads), motors, circuit_units, sparsity, seed)
        wire = partial(sensory_wiring, neurons=d_model, sparsity=sparsity, generator=np.random.default_rng(seed))
        generator = torch.Generator().manual_seed(seed)
        n_time = 0 if time == "none" else 2 * len(CYCLES)
        key_wiring, key_time_wiring = wire(input_dim), wire(n_time)
        self.key = Sensory(key_wiring, key_time_wiring, generator)
        self.value = Sensory(wire(input_dim), wire(n_time), generator)
        if learned:
            self.query = nn.Parameter(torch.randn(readout, d_model, generator=generator))
        else:
            # Selection has no gradient, so proximity in time must be built in: with equal time synapses the score of
            # two tokens contains a positive definite kernel of their times, largest at equal times.
            self.query = Sensory(wire(self.query_dim or 0), key_time_wiring, generator)
            self.query.copy_time_weights(self.key)
        self.backbone = Backbone(wiring, unfolds, generator)
        self.clock = Clock(num_heads)

    def checked(self, inputs: Inputs) -> Inputs:
        """The inputs; an error with the argument, the rule and the remedy if they do not fit the layer."""
        time_scale = None if self.time == "none" else self.time_scale
        check_sequence(*inputs, input_dim=self.input_dim, query_dim=self.query_dim, time_scale=time_scale)
        for name, value in (("x", inputs.x), ("query", inputs.query)):
            if value is not None:
                check_dtype(name, value, self.clock.t_a.dtype)
        return inputs

    def noise_shape(self, inputs: Inputs) -> tuple[int, int, int, int]:
        """(topk, B, H, Q), shape of the standard normal noise of one draw."""
        if inputs.query is not None:
            n_queries = inputs.query.shape[1]
        elif inputs.query_times is not None:
            n_queries = inputs.query_times.shape[-1]
        elif isinstance(self.readout, int):
            n_queries = self.readout
        else:
            n_queries = inputs.x.shape[1] if self.readout == "all" else 1
        return self.topk, inputs.x.shape[0], self.num_heads, n_queries

    def forward(self, inputs: Inputs, noise: Tensor | None = None, project: Project | None = None) -> Tensor:
        """`select`, then `attend`."""
        return self.attend(self.select(inputs), noise, project)

    def select(self, inputs: Inputs) -> Selected:
        """Sensory potentials of tokens and queries, and the keys of each query."""
        x, times, mask = inputs.x, inputs.times, inputs.mask
        if mask is not None:  # masked values, even infinite ones, must not enter a product
            x = x.masked_fill(mask[..., None], 0)
            times = None if times is None else times.expand(mask.shape).masked_fill(mask, 0)
        times, query_times = same_precision(times, inputs.query_times)
        tokens, queries = encode_times(x, times, mask, query_times, self.time, self.time_scale)
        k, v = sense(x, tokens.features, self.key, self.value)
        q, queries = self._query(inputs._replace(x=x), tokens, queries)
        q, k, v = self._split_heads(q), self._split_heads(k), self._split_heads(v)
        positions = None
        if inputs.causal and queries.order is not None and tokens.order is not None:
            positions = queries.order, tokens.order
        index, keep = self._select(q, k, mask, positions)
        return Selected(q, k, v, index, keep, queries.clock, tokens.clock)

    def attend(self, selected: Selected, noise: Tensor | None = None, project: Project | None = None) -> Tensor:
        """Attended values, (N, B, Q, d_model); N = 1 without `noise`, which is (N, topk, B or 1, H, Q).

        A caller that needs a few linear functions of them passes `project`, which maps the values that a slice of
        queries attends to, (D, K, B, H, q), and the attended values without noise, (D, B, H, q), to (C, K, B, H, q).
        The result is (N, B, Q, H * C), and a draw costs C instead of D.
        """
        attended = []
        for rows, pairs in self._pairs(selected, max(1, CHUNK_PAIRS // selected.n_selected)):
            gates, values = pairs.gates, pairs.values
            logits = gates.mean.unsqueeze(0)
            if noise is not None and gates.var is not None:
                logits = ou_sample(gates.mean, gates.var, noise[:, : selected.n_selected, ..., rows])
            weights = masked_softmax(logits, pairs.keep, dim=1)
            if project is not None:
                expected = weigh(masked_softmax(gates.mean.unsqueeze(0), pairs.keep, dim=1), values).squeeze(0)
                values = project(values, expected, rows)
            attended.append(weigh(weights, values))
        heads = attended[0] if len(attended) == 1 else torch.cat(attended, -1)
        return heads.permute(0, 2, 4, 3, 1).flatten(-2)  # n d b h q -> n b q (h d)

    def trace(self, selected: Selected, noise: Tensor | None = None) -> dict[str, Tensor]:
        """Every cell's potential in the noise-free pass; pairs are (B, H, Q, K, ...), `index` is the key of each.

        With `noise`, as in `attend`, also mean and standard deviation of the weights over its draws.
        """
        _, pairs = next(self._pairs(selected, selected.q.shape[-1]))
        gates, mean, index = pairs.gates, pairs.gates.mean, selected.index
        if index is None:
            index = torch.arange(selected.n_selected, device=selected.k.device).view(-1, 1, 1, 1).expand_as(mean)
        weights = masked_softmax(mean.unsqueeze(0), pairs.keep, dim=1)
        cells = {name: getattr(selected, name).permute(1, 2, 3, 0) for name in ("q", "k", "v")}
        for name in ("inter", "command"):
            cells[name] = 2 * getattr(pairs.potentials, name).permute(2, 3, 4, 1, 0) - 1
        cells["motor"] = pairs.potentials.motor.permute(2, 3, 4, 1, 0)
        scalars = {**gates.values, "t": pairs.t.expand_as(mean), "mu": mean, "weights": weights[0], "index": index}
        if gates.var is not None:
            scalars["sigma"] = gates.var.sqrt()
        if noise is not None:
            if gates.var is not None:
                logits = ou_sample(mean, gates.var, noise[:, : selected.n_selected])
                weights = masked_softmax(logits, pairs.keep, dim=1)
            scalars |= {"weights_mean": weights.mean(0), "weights_std": weights.std(0, correction=0)}
        return cells | {name: pair.movedim(0, -1) for name, pair in scalars.items()}

    def _query(self, inputs: Inputs, tokens: Times, queries: Times) -> tuple[Tensor, Times]:
        if isinstance(self.query, nn.Parameter):
            return self.query.expand(inputs.x.shape[0], -1, -1), Times()
        features = inputs.query
        if features is None and inputs.query_times is None:
            features, queries = inputs.x, tokens
            if self.readout == "last":
                features, queries = last_token(inputs.x, inputs.latest), tokens.take(inputs.latest)
        (q,) = sense(features, queries.features, self.query)
        return q.expand(inputs.x.shape[0], -1, -1), queries

    def _split_heads(self, z: Tensor) -> Tensor:  # b . (h d) -> d b h .
        return z.unflatten(-1, (self.num_heads, -1)).permute(3, 0, 2, 1)

    def _select(
        self, q: Tensor, k: Tensor, mask: Tensor | None, positions: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Keys per query, (K, B, H, Q), and which of them are kept; None stands for all."""
        every_key_allowed = mask is None and positions is None
        if every_key_allowed and k.shape[-1] <= self.topk:
            return None, None
        exact = self.selection == "exact" or (self.selection == "auto" and k.shape[-1] <= EXACT_UP_TO)
        q, k, method = q.permute(1, 2, 3, 0), k.permute(1, 2, 3, 0), "exact" if exact else "sqrt"
        index, keep = select_topk(q, k, self.topk, mask, positions is not None, method, *(positions or ()))
        return index.movedim(-1, 0), None if every_key_allowed else keep.movedim(-1, 0)

    def _pairs(self, selected: Selected, step: int) -> Iterator[tuple[slice, Pairs]]:
        return selected.pairs(step, self.backbone, self.clock, self._gates, self.time == "elapsed")

    def extra_repr(self) -> str:  # noqa: D102
        names = ("num_heads", "topk", "sparsity", "readout", "dynamics", "time")
        return f"{self.input_dim} -> {self.d_model}, " + ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


class AbstractLayer(nn.Module):
    """Attention and an output layer: what `NSAC` and `NAC` share."""

    attention: Attention

    @torch.no_grad()
    def trace(
        self,
        x: Tensor,
        times: Tensor | None = None,
        mask: Tensor | None = None,
        query: Tensor | None = None,
        query_times: Tensor | None = None,
        causal: bool = False,
    ) -> dict[str, Tensor]:
        """Potentials of every cell in the noise-free pass, for inspection.

        Returns:
            q, k, v: (B, H, Q or T, D), sensory neurons.
            inter, command: (B, H, Q, K, neurons), the circuit of each query-key pair.
            motor: (B, H, Q, K, gates), its motor neurons, before the nonlinearities that make them gates.
            kappa, phi, psi: (B, H, Q, K), motor neurons, that is gates; of `NAC`, gamma and omega.
            t, mu, sigma, weights: (B, H, Q, K), internal time, moments of the logit, weight; `NAC` has no sigma.
            index: (B, H, Q, K), the key of each entry.
        """
        inputs = self.attention.checked(Inputs(x, times, mask, query, query_times, causal))
        return self.attention.trace(self.attention.select(inputs))

    def _one_per_row(self, outputs: Tensor, inputs: Inputs) -> Tensor:  # ... q o -> ... o for one query per row
        single = self.attention.readout == "last" and inputs.query is None and inputs.query_times is None
        return outputs.squeeze(-2) if single else outputs
