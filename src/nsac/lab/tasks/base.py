"""A task: data, splits, scaling fitted on the training split only, target, and scores in a stated unit."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from nsac._checks import check_choice, check_int
from nsac.lab.datasets.store import present
from nsac.methods import METHODS, AbstractMethod, AbstractProblem, fit
from nsac.training import Data, TensorData, WindowData
from nsac.uncertainty import Prediction, Scores

Protocols = Literal["paper", "sound"]
SPLITS = ("train", "validation", "calibration", "test")
Predict = Callable[[dict[str, Tensor]], Prediction]  # from a batch to its prediction, in the unit of the model


class SplitData(Data, Protocol):
    """Rows of one split: batches in the unit of the model, and the conversion to the unit of the scores."""

    def unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Shift and scale that broadcast over `y` of these rows; scores are of `shift + scale * y`."""
        ...


class TableSplit(TensorData):
    """Rows whose targets were all scaled alike."""

    def __init__(self, shift: Tensor, scale: Tensor, **columns: Tensor):
        super().__init__(**columns)
        self.shift, self.scale = shift, scale

    def unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The same shift and scale for every row."""
        return self.shift, self.scale


class WindowSplit(WindowData):
    """Forecasting windows, scored as values: `unit_shift + unit_scale * v` of a standardised value v, per target."""

    def __init__(self, unit_shift: Tensor, unit_scale: Tensor, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.unit_shift = unit_shift.repeat(self.horizon)
        self.unit_scale = unit_scale.repeat(self.horizon)

    def unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """From changes to values."""
        shift, scale = self.offset_and_scale(rows)
        return self.unit_shift + self.unit_scale * shift, self.unit_scale * scale


class TaskBatch(NamedTuple):
    """Some rows of a split, and the conversion from the unit of the model to the unit of the scores."""

    inputs: dict[str, Tensor]  # in the unit of the model; contains `y`
    shift: Tensor
    scale: Tensor

    @property
    def y(self) -> Tensor:
        """Targets in the unit of the scores."""
        return self.shift + self.scale * self.inputs["y"]

    def restore(self, prediction: Prediction) -> Prediction:
        """The prediction in the unit of the scores."""
        log_scale = self.scale.abs().clamp(min=math.exp(-50)).log()
        return Prediction(self.shift + self.scale * prediction.mean_draws, log_scale + prediction.log_std_draws)


class GroupScores:
    """The standard scores of all target entries and of each group of them (see `Task.entries`), batch by batch."""

    def __init__(self, entries: Mapping[str, Any]):
        self._entries = entries
        self._scores = {prefix: Scores() for prefix in entries}

    def add(self, prediction: Prediction, y: Tensor) -> None:
        """Add one batch, in the unit of the scores; entries without a target (NaN) are left out."""
        for prefix, index in self._entries.items():
            chosen, observed = prediction[index], y[index]
            known = ~observed.isnan()
            if not known.all():
                chosen, observed = chosen[known], observed[known]
            if observed.numel():
                self._scores[prefix].add(chosen, observed)

    def table(self) -> dict[str, float]:
        """Scores by name, those of a group with its prefix."""
        tables = {prefix: scores.table() for prefix, scores in self._scores.items()}
        return {f"{prefix}{name}": value for prefix, table in tables.items() for name, value in table.items()}


@dataclass(frozen=True)
class Task:
    """What is to be learnt, from which data, and how it is scored."""

    name: str
    protocol: Protocols
    seed: int
    text: str  # the protocol in one paragraph
    unit: str  # unit of the scores
    problem: AbstractProblem
    train: SplitData
    validation: SplitData  # selects the weights
    calibration: SplitData  # calibrates the intervals; nothing is selected with it
    test: SplitData  # used once, for the scores
    baselines: tuple[str, ...]  # baseline methods that every table shows beside the others
    groups: Mapping[str, slice] = field(default_factory=dict)
    """named ranges of the targets' second axis that are also scored separately"""
    channels: tuple[str, ...] = ()  # names of the channels of events
    leads: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """named ranges of the lead time of events that are also scored separately"""

    def split(self, name: str) -> SplitData:
        """A split by its name, one of `SPLITS`."""
        check_choice("split", name, SPLITS)
        return getattr(self, name)

    def batches(self, split: str = "test", batch_size: int = 256) -> Iterator[TaskBatch]:
        """All rows of a split in order, `batch_size` at a time."""
        data = self.split(split)
        for rows in torch.arange(len(data)).split(batch_size):
            yield TaskBatch(data.batch(rows), *data.unit(rows))

    def entries(self, split: str = "test") -> dict[str, Any]:
        """Prefix of score names to the index of the target entries they cover: all entries, and each group.

        Training rows may arrange their targets differently, so the training split has no groups.
        """
        entries: dict[str, Any] = {"": slice(None)}
        if split != "train":
            entries |= {f"{group}_": (slice(None), columns) for group, columns in self.groups.items()}
        return entries

    def score(self, predict: Predict, split: str = "test", batch_size: int = 256) -> dict[str, float]:
        """Standard scores of one split, in the unit of the task; `batch_size` rows are predicted at a time."""
        scores = GroupScores(self.entries(split))
        for batch in self.batches(split, batch_size):
            scores.add(batch.restore(predict(batch.inputs)), batch.y)
        return scores.table()

    def score_method(self, method: AbstractMethod, split: str = "test") -> dict[str, float]:
        """Scores of a fitted method."""
        return self.score(method.predict, split)


Builder = Callable[[int], Task]
TASKS: dict[tuple[str, str], Builder] = {}
"""(name, protocol) to the function from a seed to the task. Importing `nsac.lab.tasks` registers all tasks."""
SOURCES = {
    "ettm1-24": ("ettm1",), "jena": ("jena-2020",), "pronostia": ("xjtu", "pronostia"), "hust": ("xjtu", "hust"),
    "physionet-point": ("physionet2012",), "physionet-next": ("physionet2012",), "spiral-events": ("spiral",),
}  # fmt: skip
"""Data sources of a task, where they are not the one source of the same name."""


def task(name: str, protocol: Protocols) -> Callable[[Builder], Builder]:
    """Register a builder under a name and protocol that are not taken yet."""

    def register(builder: Builder) -> Builder:
        if (name, protocol) in TASKS:
            raise ValueError(f"`name` and `protocol` must be unique. Got {name!r}, {protocol!r} twice.")
        TASKS[name, protocol] = builder
        return builder

    return register


def tasks_of(source: str) -> list[tuple[str, str]]:
    """Name and protocol of the tasks that use a data source."""
    return [(name, protocol) for name, protocol in TASKS if source in SOURCES.get(name, (name,))]


def load_task(name: str, protocol: Protocols = "sound", seed: int = 0) -> Task:
    """Build a task; the seed determines splits and generated data."""
    check_choice("name", name, sorted({known for known, _ in TASKS}))
    check_choice(f"protocol of {name!r}", protocol, [p for known, p in TASKS if known == name])
    check_int("seed", seed, 0)
    return TASKS[name, protocol](seed)


def baseline_scores(source: str, seed: int = 0) -> list[dict[str, Any]]:
    """Test scores of the baselines on every task that uses a data source, except the tasks in `lacking`."""
    rows, skipped = [], lacking(source)
    for name, protocol in (key for key in tasks_of(source) if key not in skipped):
        task = load_task(name, protocol, seed)  # pyright: ignore[reportArgumentType]
        for method in task.baselines:
            fitted = METHODS[method](task.problem)  # pyright: ignore[reportCallIssue]
            fit(fitted, task.train, task.validation)
            about = {"task": name, "protocol": protocol, "method": method, "unit": task.unit, "text": task.text}
            rows.append({**about, **task.score_method(fitted)})
    return rows


def lacking(source: str) -> dict[tuple[str, str], list[str]]:
    """Tasks that use a data source together with sources whose files are not present, and the names of those."""
    absent = {
        (name, protocol): [other for other in SOURCES.get(name, (name,)) if other != source and not present(other)]
        for name, protocol in tasks_of(source)
    }
    return {key: others for key, others in absent.items() if others}
