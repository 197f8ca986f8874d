"""A task: data, split, scaling fitted on the training part only, target, and scores in a stated unit."""

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from nsac._checks import check_choice, check_int
from nsac.methods import AbstractMethod, AbstractProblem
from nsac.training import TensorData, WindowData
from nsac.uncertainty import Prediction, Scores

Protocols = Literal["paper", "sound"]


class SplitData(Protocol):
    """Rows of a task: batches in the unit the model works in, and the way back to the unit of the scores."""

    def __len__(self) -> int: ...

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The rows with these numbers."""
        ...

    def unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Shift and scale, to be broadcast over `y` of these rows: scored is `shift + scale * y`."""
        ...


class TableSplit(TensorData):
    """Rows with a target that was scaled alike in all of them."""

    def __init__(self, shift: Tensor, scale: Tensor, **columns: Tensor):
        super().__init__(**columns)
        self.shift, self.scale = shift, scale

    def unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The same for every row."""
        return self.shift, self.scale


class WindowSplit(WindowData):
    """Forecasting windows, scored as values: `unit_shift + unit_scale *` the standardised ones, per target."""

    def __init__(self, unit_shift: Tensor, unit_scale: Tensor, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.unit_shift, self.unit_scale = (v.repeat(self.horizon) for v in (unit_shift, unit_scale))

    def unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """From changes to values."""
        shift, scale = self.offset_and_scale(rows)
        return self.unit_shift + self.unit_scale * shift, self.unit_scale * scale


@dataclass(frozen=True)
class Task:
    """What is to be learnt, from what, and how it is scored."""

    name: str
    protocol: Protocols
    seed: int
    text: str
    """what exactly is done, one paragraph"""
    unit: str
    """of the scores"""
    problem: AbstractProblem
    train: SplitData
    validation: SplitData
    """chooses weights"""
    calibration: SplitData
    """sets intervals right; nothing is chosen with it"""
    test: SplitData
    """is looked at once"""
    naive: tuple[str, ...]
    """methods every table must show beside the others"""
    groups: Mapping[str, slice] = field(default_factory=dict)
    """named stretches of the targets' second axis that are scored apart as well, but for the training part"""

    def score(
        self, predict: Callable[[dict[str, Tensor]], Prediction], part: str = "test", size: int = 256
    ) -> dict[str, float]:
        """Standard scores of one part, in the unit of the task; the only way a number enters a table.

        Args:
            predict: a batch to its prediction, in the unit of the model.
            part: "train", "validation", "calibration" or "test".
            size: rows at a time.
        """
        check_choice("part", part, ("train", "validation", "calibration", "test"))
        groups = {} if part == "train" else self.groups  # rows of training may be dealt otherwise
        scores = {group: Scores() for group in ("", *groups)}
        for rows in torch.arange(len(getattr(self, part))).split(size):
            prediction, y = self.restore(predict, part, rows)
            for group, collected in scores.items():
                which = (slice(None), groups[group]) if group else slice(None)
                collected.add(prediction[which], y[which])
        tables = {group: collected.table() for group, collected in scores.items()}
        return {f"{group}_{name}" if group else name: v for group, t in tables.items() for name, v in t.items()}

    def restore(
        self, predict: Callable[[dict[str, Tensor]], Prediction], part: str, rows: Tensor
    ) -> tuple[Prediction, Tensor]:
        """Prediction and truth of some rows, in the unit of the scores."""
        data: SplitData = getattr(self, part)
        batch, (shift, scale) = data.batch(rows), data.unit(rows)
        raw = predict(batch)
        log_scale = scale.abs().clamp(min=math.exp(-50)).log()
        scaled = Prediction(shift + scale * raw.mean_draws, log_scale + raw.log_std_draws)
        return scaled, shift + scale * batch["y"]

    def score_method(self, method: AbstractMethod, part: str = "test") -> dict[str, float]:
        """Scores of a fitted method."""
        return self.score(method.predict, part)


Builder = Callable[[int], Task]
TASKS: dict[tuple[str, str], Builder] = {}
"""(name, protocol) to the function from a seed to the task."""


SOURCES = {"ettm1-24": ("ettm1",), "jena": ("jena-2020",), "pronostia": ("xjtu", "pronostia"), "hust": ("xjtu", "hust")}
"""Data sets a task is made of, where they are not one of its own name."""


def task(name: str, protocol: Protocols) -> Callable[[Builder], Builder]:
    """Register a builder, once."""

    def register(builder: Builder) -> Builder:
        if (name, protocol) in TASKS:
            raise ValueError(f"`name` and `protocol` must be new. Got {name!r}, {protocol!r} twice.")
        TASKS[name, protocol] = builder
        return builder

    return register


def sources_of(name: str) -> tuple[str, ...]:
    """Data sets a task is made of."""
    return SOURCES.get(name, (name,))


FURTHER = ("nsac.lab.driving.tasks",)
"""Modules of rooms below that have tasks of their own. They are imported by name when the registry is asked for."""


def known_tasks() -> dict[tuple[str, str], Builder]:
    """The registry, filled."""
    from nsac.lab import tasks  # noqa: F401  they import this module

    for module in FURTHER:
        importlib.import_module(module)
    return TASKS


def tasks_of(source: str) -> list[tuple[str, str]]:
    """Name and protocol of the tasks that use a data set."""
    known_tasks()
    return [(name, protocol) for name, protocol in TASKS if source in sources_of(name)]


def load_task(name: str, protocol: Protocols = "sound", seed: int = 0) -> Task:
    """Build a task; the seed fixes splits and generated data."""
    known_tasks()
    check_choice("name", name, sorted({known for known, _ in TASKS}))
    check_choice(f"protocol of {name!r}", protocol, [p for known, p in TASKS if known == name])
    check_int("seed", seed, 0)
    return TASKS[name, protocol](seed)
