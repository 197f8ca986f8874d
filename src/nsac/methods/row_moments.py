"""Moments of many table rows by an NSAC network: the same function as its draws, in a layout made for many rows."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, logsigmoid, softplus

from nsac.circuit import Synapses
from nsac.core import matched_normal, ou_moments, ou_sample
from nsac.layers.novelty import KERNEL_LENGTH, MAX_PRIOR_VARIANCE, MIN_POSTERIOR_SHARE, MIN_SQUARED_DISTANCE
from nsac.layers.pairs import GATE_MIN
from nsac.layers.reader import LOG_STD_RANGE, MIN_DRAW_STD
from nsac.methods.nsac import NSACMethod
from nsac.models.encoder import Batch
from nsac.models.table import SLOTS, TableEncoder

Tensors = dict[str, Tensor]


class Affine(NamedTuple):
    """W z + b of columns z."""

    weight: Tensor  # (to, from)
    bias: Tensor  # (to, 1)

    def then(self, other: "Affine") -> "Affine":
        """Both maps, this one first, as one."""
        return Affine(other.weight @ self.weight, other.weight @ self.bias + other.bias)


def supports(method: NSACMethod) -> bool:
    """Whether the method attends to every slot of a row, and its epistemic variance is calibrated."""
    encoder, attention = method.network.encoder, method.network.attention
    slots = isinstance(encoder, TableEncoder) and encoder.tokens == "slots" and attention.topk >= SLOTS
    return slots and method.novelty is not None and method.novelty.calibrated


@dataclass(frozen=True)
class RowMoments:
    """Averages over the draws of a method that `supports` accepts, computed in some precision.

    Rows are the last axis everywhere, so that elementwise operations and matrix products need no copies. Linear maps
    that follow each other, and products of weights, are computed once.
    """

    method: NSACMethod
    heads: int
    unfolds: int
    tensors: Tensors  # by the names in `of`

    @classmethod
    def of(cls, method: NSACMethod, num_samples: int, dtype: torch.dtype) -> "RowMoments":
        """From a method with weights in double precision."""
        attention, reader = method.network.attention, method.reader
        with torch.no_grad():
            tensors = _attention_tensors(method) | _novelty_tensors(method)
            weight = reader.attended.weight.unflatten(-1, (attention.num_heads, -1)).unbind(1)
            projected = torch.block_diag(*weight).unflatten(0, (attention.num_heads, -1)).transpose(0, 1).flatten(0, 1)
            tensors |= {"project": projected, "out": _column(reader.attended.bias)}
            shape = num_samples, 1, attention.topk, attention.num_heads
            noise = matched_normal(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            tensors["noise"] = noise[:, 0, :SLOTS].mT.unsqueeze(-1)  # n h k 1
        tensors = {name: each.detach().to(dtype).contiguous() for name, each in tensors.items()}
        return cls(method, attention.num_heads, attention.backbone.unfolds, tensors)

    @torch.no_grad()
    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Means of mean and aleatoric variance over the draws, and variance of the mean, (rows, outputs), double."""
        encoder, dtype = self.method.network.encoder, self.tensors["noise"].dtype
        assert isinstance(encoder, TableEncoder)
        double = {name: value.double() if value.is_floating_point() else value for name, value in batch.items()}
        row = encoder.row(double).to(dtype).T.contiguous()
        epistemic, min_log_std = self._epistemic(encoder.describe(double)[:, 0].to(dtype).T.contiguous())
        mean, log_std, direct = self._draws(row)
        t, (low, high) = self.tensors, LOG_STD_RANGE
        log_std = torch.maximum(log_std, min_log_std.clamp(min=low)).clamp_(max=high)
        centre = mean.mean(0)
        difference = torch.add(mean - centre, t["noise"][:, :1, 0], alpha=MIN_DRAW_STD)
        scale = epistemic / difference.square().mean((0, 1)).clamp(min=MIN_DRAW_STD**4)
        spread = difference.var(0, correction=0) * scale
        aleatoric = log_std.mul_(2).exp_().mean(0)
        return tuple(each.T.double() for each in (centre + direct, aleatoric, spread))  # pyright: ignore

    def _draws(self, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Draws of mean and log standard deviation, (draws, outputs, rows), and what is added to the mean."""
        t, heads = self.tensors, self.heads
        slots = gelu(torch.addmm(t["slots.bias"], t["slots"], row)).unflatten(0, (-1, SLOTS))  # e k b
        from_row = torch.addmm(t["row.bias"], t["row"], row)
        inter_size, hidden_size = t["key"].shape[0], t["hidden"].shape[0]
        query, known, direct = from_row.tensor_split([inter_size, inter_size + hidden_size])
        inter = _map(t["key"], slots).add_(query.unsqueeze(1)).sigmoid_()  # (h i) k b
        values = _map(t["value"], slots).add_(t["value.bias"].unsqueeze(2))  # (h d) k b
        kappa, phi, psi = self._circuit(inter.unflatten(0, (heads, -1)))  # h k b
        logit, variance = ou_moments(phi.tanh(), softplus(kappa) + GATE_MIN, softplus(psi) + GATE_MIN, t["time"])
        expected = _weigh(logit.softmax(1).unsqueeze(1), values.unflatten(0, (heads, -1))).flatten(0, 1)  # (h d) b
        hidden = gelu(torch.addmm(known, t["attended"], expected))
        hidden = gelu(torch.addmm(t["hidden.bias"], t["hidden"], hidden))
        read = torch.addmm(t["read.bias"], t["read"], hidden)
        gate, out = read.tensor_split([len(values)])
        projected = _map(t["project"], values.mul_(gate.unsqueeze(1))).unflatten(0, (-1, heads))  # c h k b
        weights = ou_sample(logit, variance, t["noise"]).softmax(2)  # n h k b
        draws = _weigh(weights.unsqueeze(1), projected).sum(2)  # n c b
        mean, log_std = draws.add_(out + t["out"]).chunk(2, 1)
        return mean, log_std, direct

    def _circuit(self, inter: Tensor) -> tuple[Tensor, ...]:  # h i k b -> three of h k b
        t, size = self.tensors, inter.shape[2:]
        inter = inter.flatten(2)
        drive = torch.matmul(t["command"], inter).add_(t["command.bias"])
        command = drive.sigmoid()
        for _ in range(self.unfolds):
            command = torch.matmul(t["recurrent"], command).add_(drive).add_(t["recurrent.bias"]).sigmoid_()
        return torch.matmul(t["motor"], command).add_(t["motor.bias"]).unflatten(2, size).unbind(1)

    def _epistemic(self, described: Tensor) -> tuple[Tensor, Tensor]:
        """As `Novelty.epistemic`: variance, (rows,), and least log standard deviation, (outputs, rows)."""
        t = self.tensors
        white = t["whiten"] @ (described - t["centre"])
        squared = white.square().sum(0)
        nearest = squared + (t["kept"] @ torch.cat([white, torch.ones_like(white[:1])])).amin(0)
        posterior = (t["factor"] @ torch.addmm(t["phase"], t["frequency"], white).cos_()).square_().sum(0)
        u = posterior.clamp(min=MIN_POSTERIOR_SHARE) * nearest.clamp(min=MIN_SQUARED_DISTANCE)
        prior = ((1 + squared * t["size"]) / 2).clamp(max=MAX_PRIOR_VARIANCE)
        log_share = logsigmoid(t["log_amplitude"] + u.log())
        return prior * log_share.exp(), (log_share + t["log_usual"]) / 2


def _attention_tensors(method: NSACMethod) -> Tensors:
    """Products of the weights from a row to the gate and to the outputs."""
    encoder, attention, reader = method.network.encoder, method.network.attention, method.reader
    heads, outputs = attention.num_heads, reader.direct.out_features // 2
    assert isinstance(encoder, TableEncoder) and not isinstance(attention.query, nn.Parameter)
    w_q, w_k, bias = attention.backbone.halves(attention.d_model // heads)
    query, first = _affine(encoder.query), _affine(reader.hidden[0])
    width, from_query = len(query.weight), Affine(torch.block_diag(*[w_q] * heads), bias.repeat(heads, 1))
    key = _synapses(attention.key.synapses).then(Affine(torch.block_diag(*[w_k] * heads), 0 * from_query.bias))
    circuit = query.then(_synapses(attention.query.synapses)).then(from_query)
    known = query.then(Affine(first.weight[:, :width], first.bias))
    direct = Affine(query.weight.new_zeros(outputs, encoder.skip_dim), query.weight.new_zeros(outputs, 1))
    if reader.skip is not None:
        direct = _affine(reader.skip)
    read = _stack(_affine(reader.gate), _affine(reader.direct))
    read.bias[: attention.d_model] += 1
    row = _stack(Affine(circuit.weight, circuit.bias + key.bias), known, direct)
    backbone, value = attention.backbone, _synapses(attention.value.synapses)
    slots = Affine(*(each.unflatten(0, (SLOTS, -1)).transpose(0, 1).flatten(0, 1) for each in _affine(encoder.slots)))
    named = {"slots": slots, "row": row, "hidden": _affine(reader.hidden[2]), "read": read}
    named |= {"value": value, "command": _cells(backbone.inter, 2), "motor": _cells(backbone.motor, 1)}
    if backbone.recurrent is not None:
        named["recurrent"] = _cells(backbone.recurrent, 2)
    tensors = {name: each.weight for name, each in named.items()}
    tensors |= {f"{name}.bias": each.bias for name, each in named.items()}
    return tensors | {
        "key": key.weight,
        "attended": first.weight[:, width:],
        "time": attention.clock(None).unsqueeze(1),
    }


def _novelty_tensors(method: NSACMethod) -> Tensors:
    novelty = method.novelty
    assert novelty is not None
    return {
        "centre": _column(novelty.centre),
        "whiten": novelty.whiten.T,
        "kept": torch.cat([-2 * novelty.kept, _column(novelty.kept.square().sum(1))], 1),
        "frequency": novelty.frequency.T / KERNEL_LENGTH,
        "phase": _column(novelty.phase),
        "factor": math.sqrt(2 / len(novelty.phase)) * novelty.factor.T,
        "size": novelty.scale**2 / len(novelty.centre),
        "log_amplitude": novelty.log_amplitude,
        "log_usual": _column(novelty.usual.log()),
    }


def _column(bias: Tensor) -> Tensor:
    return bias.detach().unsqueeze(1)


def _affine(layer: nn.Module) -> Affine:
    assert isinstance(layer, nn.Linear)
    return Affine(layer.weight.detach(), _column(layer.bias))


def _synapses(synapses: Synapses) -> Affine:
    return Affine(synapses.matrix().T, _column(synapses.bias))


def _cells(synapses: Synapses, gain: float) -> Affine:
    """Through synapses from cells given as (1 + tanh) / 2, as `Backbone` computes it."""
    weight = synapses.matrix().T
    total = weight.sum(1, keepdim=True)
    return Affine(2 * gain * weight, gain * (_column(synapses.bias) - total if synapses.biased else -total))


def _stack(*maps: Affine) -> Affine:
    """Several maps of the same columns as one."""
    return Affine(torch.cat([each.weight for each in maps]), torch.cat([each.bias for each in maps]))


def _map(weight: Tensor, columns: Tensor) -> Tensor:  # from k b -> to k b
    return (weight @ columns.flatten(1)).unflatten(1, columns.shape[1:])


def _weigh(weights: Tensor, values: Tensor) -> Tensor:  # ... k b, ... k b -> ... b
    total = weights[..., 0, :] * values[..., 0, :]
    for k in range(1, SLOTS):
        total.addcmul_(weights[..., k, :], values[..., k, :])
    return total
