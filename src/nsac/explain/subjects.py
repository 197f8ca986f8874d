"""A fitted estimator and the rows to explain: inputs whose values can be replaced or removed, and their predictions."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nsac._torch import single_threaded
from nsac.estimators.base import AbstractEstimator, mixture
from nsac.estimators.components import Moments, flatten
from nsac.estimators.regressor import NSACRegressor
from nsac.estimators.stacked import member_draws
from nsac.estimators.tables import as_frame, check_table
from nsac.explain.circuit import ExplainError, Trace, find_network, key_names, trace_member
from nsac.methods import AbstractMethod
from nsac.models.encoder import Batch

QUANTITIES: tuple[str, ...] = ("mean", "aleatoric", "epistemic")  # what is explained: the mean and both variances
CHUNK_ROWS = 4096  # rows predicted at a time


class Predicted(NamedTuple):
    """Calibrated predictions in the unit of the target, (n, outputs) each."""

    mean: np.ndarray
    aleatoric: np.ndarray  # variance
    epistemic: np.ndarray  # variance
    lower: np.ndarray  # ends of the conformal interval
    upper: np.ndarray

    @property
    def quantities(self) -> np.ndarray:
        """(3, n, outputs), see `QUANTITIES`."""
        return np.stack([self.mean, self.aleatoric, self.epistemic])

    @property
    def std(self) -> np.ndarray:
        """Total standard deviation."""
        return np.sqrt(self.aleatoric + self.epistemic)


class AbstractSubject(ABC):
    """Rows of a kind of data, and the estimator that predicts them."""

    kind: ClassVar[str]
    model: AbstractEstimator
    features: list[str]  # columns of a table, or channels of a series
    outputs: list[str]  # targets, or lead times
    labels: list[str]  # names of the rows
    keys: list[str]  # names of what the networks attend to
    inputs: Batch  # standardised; NaN and code 0 are missing values
    num_samples: int  # draws of each member

    def __len__(self) -> int:
        return len(self.inputs["x"])

    @property
    def members(self) -> list[AbstractMethod]:
        """The ensemble."""
        return list(self.model.members_)

    @abstractmethod
    def predict(self, inputs: Batch, coverage: float = 0.9) -> Predicted:
        """Calibrated predictions of the whole model."""

    @abstractmethod
    def model_means(self, inputs: Batch) -> dict[str, np.ndarray]:
        """Means, (n, outputs), of each model that the prediction is made of; standardised, or in the target's unit."""

    @abstractmethod
    def shares(self) -> dict[str, np.ndarray]:
        """Weight, (outputs,), of each kind of model in the mean; the circuit is in the networks."""

    @abstractmethod
    def network_inputs(self) -> Batch:
        """The rows as the networks read them."""

    def key_labels(self, row: int) -> list[str]:
        """Names of the keys of one row; of irregular series they are its observations."""
        return self.keys

    def traces(self) -> list[Trace]:
        """The cells of each member for all rows."""
        with single_threaded():
            batch = self.network_inputs()
            batch = {name: each.double() if each.is_floating_point() else each for name, each in batch.items()}
            return [trace_member(member, batch, self.num_samples) for member in self.members]


class TableSubject(AbstractSubject):
    """Rows of a table. A feature is a column; a date, which is several numbers, is replaced as a whole."""

    kind: ClassVar[str] = "table"
    model: NSACRegressor

    def __init__(self, model: NSACRegressor, table: Any):
        find_network(model.members_[0])
        self.model = model
        frame = as_frame(table)
        checked = check_table(model, frame, reset=False)
        self.inputs = model.columns_.tensors(checked)
        self.features = list(model.columns_.names)
        self.table = checked
        index = getattr(frame, "index", None)
        self.labels = [str(label) for label in (range(len(checked)) if index is None else index)]
        self.outputs = model.data_.get("targets") or ["y"]
        if len(self.outputs) != model.problem_.output_dim:
            self.outputs = [f"y{i}" for i in range(model.problem_.output_dim)]
        self.keys = key_names(find_network(model.members_[0]), self.features)
        self.num_samples = model.num_samples
        if model.components_ is not None:
            self.num_samples = member_draws(model.num_samples, len(model.members_))
        self.players = column_features(model)

    @property
    def baselines(self) -> Batch:
        """Training rows that the model keeps, (donors, columns)."""
        return self.model.imputer_.donors

    def predict(self, inputs: Batch, coverage: float = 0.9) -> Predicted:  # noqa: D102
        found = []
        for chunk in split_rows(inputs, CHUNK_ROWS):
            p = self.model.predict_columns(chunk)
            patterns = self.model.patterns_
            ends = self.model._interval(p, coverage, None if patterns is None else patterns.classify(chunk))
            found.append([each.numpy() for each in (p.mean, p.aleatoric, p.epistemic, *ends)])
        return Predicted(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def model_means(self, inputs: Batch) -> dict[str, np.ndarray]:  # noqa: D102
        model, known = self.model, self._imputed(inputs)
        double = {name: each.double() if each.is_floating_point() else each for name, each in known.items()}
        means = {}
        with single_threaded(), torch.no_grad():
            for i, member in enumerate(self.members):
                means[f"network {i + 1}"] = member.predict(double, self.num_samples).mean.numpy()
            if model.components_ is not None:
                design = flatten(model.problem_, known)
                means["Gaussian process"] = model.components_.kernel.predict(design)[0].numpy()
                means["trees"] = model.components_.trees.predict(design).numpy()
        return means

    def shares(self) -> dict[str, np.ndarray]:  # noqa: D102
        if self.model.components_ is None:
            return {"networks": np.ones(len(self.outputs))}
        weights = self.model.components_.stack.weights.numpy()
        total = np.maximum(weights.sum(0), 1e-12)
        return dict(zip(("networks", "Gaussian process", "trees"), weights / total, strict=True))

    def ensemble_moments(self, inputs: Batch) -> Moments:
        """Prediction of the networks alone, standardised and before calibration."""
        draws = mixture(self.members, split_rows(self._imputed(inputs), CHUNK_ROWS), self.num_samples)
        return Moments.of(draws, len(self.members))

    def network_inputs(self) -> Batch:  # noqa: D102
        return self._imputed(self.inputs)

    def without(self, feature: int) -> Batch:
        """The rows with this feature missing."""
        changed = {}
        for name, column in self.inputs.items():
            absent = torch.as_tensor(self.players[name] == feature)
            changed[name] = column.masked_fill(absent, torch.nan if column.is_floating_point() else 0)
        return changed

    def _imputed(self, inputs: Batch) -> Batch:
        """With the values of the first donor where none was missing in training: the first of the draws."""
        imputer = self.model.imputer_
        return {
            name: torch.where(_missing(each) & ~imputer.learned[name], imputer.donors[name][0], each)
            for name, each in inputs.items()
        }


def column_features(model: NSACRegressor) -> dict[str, np.ndarray]:
    """Position in the table of each standardised number, `x`, and of each category, `c`."""
    columns, found = model.columns_, {"x": [], "c": []}
    for i in range(len(columns.names)):
        if i in columns.categories:
            found["c"].append(i)
        else:
            found["x"] += [i] * (len(columns.dates[i].names) if i in columns.dates else 1)
    return {name: np.array(each, dtype=np.int64) for name, each in found.items() if name == "x" or each}


def split_rows(columns: Batch, size: int) -> Iterator[Batch]:
    """Some rows at a time."""
    for rows in torch.arange(len(columns["x"])).split(size):
        yield {name: column[rows] for name, column in columns.items()}


def check_rows(rows: Sequence[int] | None, available: int) -> list[int]:
    """Row numbers, which must exist; all of them by default."""
    if rows is None:
        return list(range(available))
    for row in rows:
        if isinstance(row, bool) or not isinstance(row, (int, np.integer)) or not 0 <= row < available:
            raise ExplainError(
                f"`rows` must be row numbers from 0 to {available - 1}. Got {row!r} instead. The first row after the "
                "header is 0."
            )
    if not len(rows):
        raise ExplainError("`rows` must name at least one row. Got none instead.")
    return [int(row) for row in rows]


def _missing(column: Tensor) -> Tensor:
    return torch.isnan(column) if column.is_floating_point() else column == 0
