"""Lesion study: silence each neuron and measure the error and both variances; and models without some neurons."""

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nsac._torch import single_threaded
from nsac.circuit import Sensory, Synapses
from nsac.estimators.base import AbstractEstimator, join
from nsac.estimators.columns import target_values
from nsac.estimators.components import Moments, flatten, join_parts
from nsac.estimators.forecaster import NSACForecaster
from nsac.estimators.outages import ages, stretch
from nsac.estimators.regressor import NSACRegressor
from nsac.estimators.targets import max_epistemic
from nsac.estimators.windows import subsample
from nsac.explain.circuit import ExplainError, find_network
from nsac.explain.events import observed_rows
from nsac.explain.subjects import TableSubject
from nsac.layers.attention import Attention
from nsac.methods import AbstractMethod
from nsac.models.encoder import Batch
from nsac.uncertainty import Prediction

LAYERS = ("query", "key", "value", "inter", "command", "motor")
MAX_ROWS = 300  # rows or windows that lesions are measured on; subsampled evenly
TOLERANCE = 0.01  # growth of the squared error up to which `prune` silences neurons


class Neuron(NamedTuple):
    """A neuron of the circuit of one member."""

    member: int
    layer: str  # one of `LAYERS`
    number: int


def lesions(model: AbstractEstimator, rows: Any, y: Any = None, layers: Sequence[str] = LAYERS) -> pd.DataFrame:
    """Silence each neuron of each network in turn, and measure what changes.

    A silenced neuron has potential 0; of a motor neuron that is the potential before the gate's nonlinearity.

    Args:
        model: fitted, with the method `"nsac"`.
        rows: rows that were not trained on, as for `predict`; for a series a frame with forecast origins and what
            follows them.
        y: targets of a table; None for a series.
        layers: which neurons to silence.

    Returns:
        One line per neuron, the largest growth of its network's error first: `member`, `layer`, `neuron`; relative
        changes of the squared error, `error`, and of the mean `aleatoric` and `epistemic` variance of the whole
        model, on the scale on which targets are learned; and `network_error`, of the squared error of its network.
    """
    unknown = [layer for layer in layers if layer not in LAYERS]
    if unknown:
        raise ExplainError(f"`layers` must be among {', '.join(LAYERS)}. Got {unknown[0]!r} instead.")
    trial = _trial(model, rows, y)
    intact = trial.draws()
    before, alone = trial.measure(intact), [trial.error(draws) for draws in intact]
    lines = []
    for neuron in neurons(model, layers):
        with silenced(model.members_[neuron.member], [neuron]):
            draws = trial.draw(neuron.member)
        changed = [draws if i == neuron.member else each for i, each in enumerate(intact)]
        after = trial.measure(changed)
        line = dict(zip(("member", "layer", "neuron"), neuron, strict=True))
        line |= {name: after[name] / before[name] - 1 for name in before}
        lines.append(line | {"network_error": trial.error(draws) / alone[neuron.member] - 1})
    return pd.DataFrame(lines).sort_values("network_error", ascending=False, ignore_index=True)


def prune(
    model: AbstractEstimator, rows: Any, y: Any = None, tolerance: float = TOLERANCE
) -> tuple[AbstractEstimator, pd.DataFrame]:
    """A copy of the model without the neurons that matter least, and the list of those, as `lesions` returns it.

    As many neurons of the circuits are silenced together, in the order of their own effect, as the squared error of
    each network on these rows grows by no more than the tolerance. The copy can be saved and used as any model.
    """
    study = lesions(model, rows, y, LAYERS[3:]).iloc[::-1]
    trial, chosen = _trial(model, rows, y), []
    for i, member in enumerate(model.members_):
        own = study[study["member"] == i]
        order = [Neuron(i, str(layer), int(n)) for layer, n in zip(own["layer"], own["neuron"], strict=True)]
        alone, low, high = trial.error(trial.draw(i)), 0, len(order)
        while low < high:  # the largest number that is within the tolerance
            middle = (low + high + 1) // 2
            with silenced(member, order[:middle]):
                fits = trial.error(trial.draw(i)) <= (1 + tolerance) * alone
            low, high = (middle, high) if fits else (low, middle - 1)
        chosen += order[:low]
    pruned = copy.deepcopy(model)
    silence(pruned, chosen)
    keys = pd.MultiIndex.from_frame(study[["member", "layer", "neuron"]])
    return pruned, study[keys.isin([tuple(each) for each in chosen])].reset_index(drop=True)


def neurons(model: AbstractEstimator, layers: Sequence[str] = LAYERS) -> list[Neuron]:
    """All neurons of the circuits of a model."""
    found = []
    for i, member in enumerate(model.members_):
        attention = find_network(member).attention
        for layer in layers:
            found += [Neuron(i, layer, n) for n in range(_layer_sizes(attention)[layer])]
    return found


def silence(model: AbstractEstimator, chosen: Iterable[Neuron]) -> None:
    """Set the potentials of these neurons to 0, in place, by weights of 0."""
    for neuron in chosen:
        _silence(model.members_[neuron.member], neuron)


@contextlib.contextmanager
def silenced(member: AbstractMethod, chosen: Sequence[Neuron]) -> Iterator[None]:
    """Silence these neurons of a member, and restore them afterwards."""
    attention = find_network(member).attention
    kept = {name: value.detach().clone() for name, value in attention.named_parameters()}
    try:
        for neuron in chosen:
            _silence(member, neuron)
        yield
    finally:
        with torch.no_grad():
            for name, parameter in attention.named_parameters():
                parameter.copy_(kept[name])


@torch.no_grad()
def _silence(member: AbstractMethod, neuron: Neuron) -> None:
    attention, backbone = find_network(member).attention, find_network(member).attention.backbone
    if neuron.layer in ("query", "key", "value"):
        _cut_inputs(getattr(attention, neuron.layer).synapses, neuron.number)
    elif neuron.layer == "motor":
        _cut_inputs(backbone.motor, neuron.number)
    else:
        after = [backbone.inter] if neuron.layer == "inter" else [backbone.motor, backbone.recurrent]
        for synapses in after:
            if synapses is not None:
                sources = torch.div(synapses.index, synapses.shape[1], rounding_mode="floor")
                synapses.weight[sources == neuron.number] = 0


def _cut_inputs(synapses: Synapses, number: int) -> None:
    synapses.weight[synapses.index % synapses.shape[1] == number] = 0
    synapses.bias[number] = 0


def _layer_sizes(attention: Attention) -> dict[str, int]:
    backbone, sizes = attention.backbone, {}
    for name in ("query", "key", "value"):
        layer = getattr(attention, name)
        sizes[name] = layer.synapses.shape[1] if isinstance(layer, Sensory) else 0  # learned queries have no synapses
    sizes |= {"inter": backbone.inter.shape[0], "command": backbone.motor.shape[0]}
    return sizes | {"motor": backbone.motor.shape[1]}


class _Trial(ABC):
    """Rows with targets, and the prediction that the members' draws of them make."""

    members: Sequence[AbstractMethod]
    batch: Batch
    y: Tensor  # (n, outputs), standardised; NaN where not observed
    num_samples: int

    def draw(self, member: int) -> Prediction:
        """Draws of one member."""
        with single_threaded(), torch.no_grad():
            return self.members[member].predict(self.batch, self.num_samples)

    def draws(self) -> list[Prediction]:
        """Draws of all members."""
        return [self.draw(i) for i in range(len(self.members))]

    def error(self, p: Prediction) -> float:
        """Mean squared error."""
        return float((p.mean - self.y).square().nanmean())

    def measure(self, draws: Sequence[Prediction]) -> dict[str, float]:
        """Squared error and mean variances of the whole model."""
        p = self.combine(draws)
        return {"error": self.error(p)} | {n: float(getattr(p, n).mean()) for n in ("aleatoric", "epistemic")}

    @abstractmethod
    def combine(self, draws: Sequence[Prediction]) -> Prediction:
        """The whole model, before calibration."""


class _TableTrial(_Trial):
    def __init__(self, model: NSACRegressor, rows: Any, y: Any):
        subject = TableSubject(model, rows)
        z = model.link_.forward(torch.tensor(target_values(y, type(model).__name__).reshape(len(subject), -1)))
        chosen = torch.from_numpy(subsample(np.arange(len(subject)), MAX_ROWS))
        inputs = {name: each[chosen] for name, each in subject.network_inputs().items()}
        self.batch = {name: each.double() if each.is_floating_point() else each for name, each in inputs.items()}
        self.y = ((z - torch.as_tensor(model.centre_)) / torch.as_tensor(model.scale_))[chosen]
        self.members, self.model, self.num_samples = model.members_, model, subject.num_samples
        if model.components_ is not None:
            with single_threaded():
                design = flatten(model.problem_, inputs)
                kernel, trees = model.components_.kernel.predict(design), model.components_.trees.predict(design)
                self.others = *kernel, trees
                self.extra = model.components_.ranges.variance(inputs["x"])

    def combine(self, draws: Sequence[Prediction]) -> Prediction:
        joined, model = join(draws, 0), self.model
        if model.components_ is None:
            return joined
        parts, limit = (
            join_parts(Moments.of(joined, len(draws)), *self.others),
            max_epistemic(model.link_, model.scale_),
        )
        return model.components_.stack.predict(parts, model.num_samples, self.extra, limit)


class _SeriesTrial(_Trial):
    def __init__(self, model: NSACForecaster, frame: pd.DataFrame):
        _, windows = model.preprocessor_.past(model.preprocessor_.read(frame))
        if not len(windows):
            raise ExplainError("`rows` must hold forecast origins with known targets after them. Got none instead.")
        windows = windows.with_ends(windows.ends[subsample(np.arange(len(windows)), MAX_ROWS)])
        batch = windows.batch(torch.arange(len(windows)))
        self.batch = {name: batch[name] for name in ("x", "calendar") if name in batch}
        self.y, self.members, self.num_samples = batch["y"], model.members_, model.num_samples
        self.model, self.age = model, ages(windows)
        self.unit = windows.offset_and_scale(torch.arange(len(windows)))[1]

    def combine(self, draws: Sequence[Prediction]) -> Prediction:
        p, others = join(draws, 0), self.model.components_
        if others is not None:
            p = others.move(p, self.batch, self.unit, others.trees.predict)
        return stretch(p, self.model.outage_scale_, self.age)


class _EventTrial(_Trial):
    def __init__(self, model: NSACForecaster, frame: pd.DataFrame):
        data = observed_rows(model, frame, MAX_ROWS)
        if not len(data):
            raise ExplainError("`rows` must hold observations that are followed by a target. Got none instead.")
        self.batch = data.batch(torch.arange(len(data)))
        self.y, self.members, self.num_samples = self.batch["y"], model.members_, model.num_samples

    def measure(self, draws: Sequence[Prediction]) -> dict[str, float]:
        p, asked = self.combine(draws), ~self.batch["query_mask"]
        return {"error": self.error(p)} | {n: float(getattr(p, n)[asked].mean()) for n in ("aleatoric", "epistemic")}

    def combine(self, draws: Sequence[Prediction]) -> Prediction:
        return join(draws, 0)


def _trial(model: AbstractEstimator, rows: Any, y: Any) -> _Trial:
    for member in getattr(model, "members_", []):
        find_network(member)
    if isinstance(model, NSACForecaster):
        return _EventTrial(model, rows) if model.encoding_ == "events" else _SeriesTrial(model, rows)
    assert isinstance(model, NSACRegressor)
    if y is None:
        raise ExplainError("`y` must hold the targets of the rows. Got None instead.")
    return _TableTrial(model, rows, y)
