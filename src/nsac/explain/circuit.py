"""Traces of the circuits of a model: potentials, gates and logits of every query-key pair, and attention weights."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from nsac.circuit import Synapses
from nsac.layers.attention import Attention
from nsac.methods import AbstractMethod
from nsac.methods.nsac import NSACMethod
from nsac.models import Network, TableEncoder, WindowEncoder
from nsac.models.encoder import Batch, Encoded
from nsac.models.table import SLOTS

GATES = ("kappa", "phi", "psi", "gamma", "omega")  # of stochastic logits, and of deterministic ones


class ExplainError(ValueError):
    """A model or a row that cannot be explained. The message contains the remedy."""


@dataclass(frozen=True)
class Trace:
    """Cells of one network, for each of B rows, H heads, Q queries and the K keys that each query attends to.

    Potentials and gates are those of the noise-free pass. The mean that the network predicts, (B, Q, outputs), is
    linear in its attention: `(weights_mean[..., None] * values).sum((1, 3)) + rest`.
    """

    q: np.ndarray  # (B, H, Q, D), sensory neurons of the queries
    k: np.ndarray  # (B, H, T, D), of the keys
    v: np.ndarray  # (B, H, T, D), of the values
    inter: np.ndarray  # (B, H, Q, K, neurons)
    command: np.ndarray  # (B, H, Q, K, neurons)
    motor: np.ndarray  # (B, H, Q, K, gates), before the nonlinearities
    gates: dict[str, np.ndarray]  # (B, H, Q, K) each: kappa, phi and psi; gamma and omega of deterministic logits
    t: np.ndarray  # (B, H, Q, K), internal time
    mu: np.ndarray  # (B, H, Q, K), mean of the logit
    sigma: np.ndarray  # (B, H, Q, K), its standard deviation; 0 for deterministic logits
    weights: np.ndarray  # (B, H, Q, K), attention without noise
    weights_mean: np.ndarray  # (B, H, Q, K), mean over the draws of the noise
    weights_std: np.ndarray  # (B, H, Q, K), standard deviation over the draws
    index: np.ndarray  # (B, H, Q, K), the key of each pair
    values: np.ndarray | None = None  # (B, H, Q, K, outputs), what a weight of 1 would add to the mean, standardised
    rest: np.ndarray | None = None  # (B, Q, outputs), the direct path, which does not depend on the weights

    @property
    def mean(self) -> np.ndarray:
        """Mean that the network predicts, (B, Q, outputs), standardised, from the traced weights and values."""
        if self.values is None or self.rest is None:
            raise ExplainError("The mean is linear in the attention only for the method 'nsac'.")
        return (self.weights_mean[..., None] * self.values).sum((1, 3)) + self.rest

    def by_key(self, keys: int) -> tuple[np.ndarray, np.ndarray]:
        """Weight of each key, (B, Q, keys), averaged over heads, and its standard deviation; 0 if not selected."""
        found = []
        for each, power in ((self.weights_mean, 1), (self.weights_std, 2)):
            total = np.zeros((*each.shape[:3], keys))
            place = np.indices(each.shape)[:3]
            np.add.at(total, (*place, self.index), each**power)  # keys that are not kept have the index of another
            found.append(total)
        heads = self.index.shape[1]
        return found[0].mean(1), np.sqrt(found[1].sum(1)) / heads


def trace_member(member: AbstractMethod, batch: Batch, num_samples: int) -> Trace:
    """The cells of a fitted method for a batch, with the noise with which it predicts; the first network of several."""
    network = find_network(member)
    with torch.no_grad():
        encoded = network.encoder(batch)
        generator = torch.Generator(encoded.tokens.device).manual_seed(0)
        noise = network.noise(encoded, num_samples, generator, shared=True)
        cells = network.attention.trace(network.attention.select(encoded.inputs), noise)
        if isinstance(member, NSACMethod):
            cells |= _linear_reading(member, encoded, cells)
    return _to_trace(cells)


def trace_layer(layer: Any, x: Tensor, **inputs: Any) -> Trace:
    """The cells of an `NSAC` or `NAC` layer; the arguments are those of its `trace`."""
    cells = layer.trace(x, **inputs)
    return _to_trace({"weights_mean": cells["weights"], "weights_std": torch.zeros_like(cells["weights"])} | cells)


def find_network(member: nn.Module) -> Network:
    """The first network of a method; an error if the method has no circuit."""
    for module in member.modules():
        if isinstance(module, Network):
            return module
    name = getattr(member, "name", type(member).__name__)
    raise ExplainError(
        f"`model` must contain a circuit to be explained. Got the method {name!r}, which has none. Fit with "
        "method='nsac'."
    )


def synapses(attention: Attention) -> dict[str, np.ndarray]:
    """Weights of the circuit of the gates, (from, to), by the layer that they lead to; 0 where there is no synapse."""
    backbone = attention.backbone
    named: dict[str, Synapses | None] = {"inter": backbone.sensory, "command": backbone.inter}
    named |= {"recurrent": backbone.recurrent, "motor": backbone.motor}
    return {name: each.matrix().detach().numpy(force=True) for name, each in named.items() if each is not None}


def key_names(network: Network, features: Sequence[str]) -> list[str]:
    """Names of the attention keys: variables of a window, features of a row, or slots, which mix all features."""
    encoder = network.encoder
    if isinstance(encoder, WindowEncoder):
        further = ["time of the forecast"] if encoder.calendar is not None else []
        return [*features, *(["constant"] if encoder.company is not None else further)]
    if isinstance(encoder, TableEncoder) and encoder.tokens == "slots":
        return [f"slot {i + 1}" for i in range(SLOTS)]
    return list(features)


def _linear_reading(member: NSACMethod, encoded: Encoded, cells: dict[str, Tensor]) -> dict[str, Tensor]:
    """What each pair adds to the mean per unit of weight, and what is added besides: the reader, opened up."""
    reader, heads = member.reader, cells["v"].shape[1]
    index = cells["index"].unsqueeze(-1)  # b h q k 1
    v = cells["v"].unsqueeze(2).expand(-1, -1, index.shape[2], -1, -1)
    v = v.gather(3, index.expand(-1, -1, -1, -1, v.shape[-1]))  # b h q k d
    expected = (cells["weights"].unsqueeze(-1) * v).sum(3).transpose(1, 2).flatten(2)  # b q (h d)
    query = encoded.query.expand(len(expected), -1, -1)
    hidden = gelu(reader.hidden(torch.cat([query, expected], -1)))
    gate = 1 + reader.gate(hidden).unflatten(-1, (heads, -1)).transpose(1, 2).unsqueeze(3)  # b h q 1 d
    outputs = reader.attended.out_features // reader.per_output
    weight = reader.attended.weight[:outputs].unflatten(-1, (heads, -1))  # o h d
    rest = reader.direct(hidden)[..., :outputs] + reader.attended.bias[:outputs]
    if reader.skip is not None and encoded.skip is not None:
        rest = rest + reader.skip(encoded.skip)
    return {"values": torch.einsum("bhqkd,ohd->bhqko", gate * v, weight), "rest": rest}


def _to_trace(cells: dict[str, Tensor]) -> Trace:
    arrays = {name: cell.detach().numpy(force=True) for name, cell in cells.items()}
    gates = {name: arrays.pop(name) for name in GATES if name in arrays}
    arrays.setdefault("sigma", np.zeros_like(arrays["mu"]))
    known = {field.name for field in fields(Trace)}
    return Trace(gates=gates, **{name: array for name, array in arrays.items() if name in known})
