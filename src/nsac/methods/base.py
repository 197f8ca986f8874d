"""The contract: what a way of being uncertain must do, and the registry of those we have."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from nsac._checks import check_choice, check_finite, check_int, check_known, check_shape
from nsac.layers import Draws
from nsac.models import FrameEncoder, NetworkConfig, SeriesEncoder, TableEncoder, WindowEncoder
from nsac.models.encoders import AbstractEncoder, Batch
from nsac.uncertainty import Prediction

Kind = Literal["table", "series", "windows", "frames"]


class Rows(Protocol):
    """Data that gives batches when asked; every batch has `y`."""

    def __len__(self) -> int: ...

    def batch(self, rows: Tensor) -> Batch:
        """The rows with these numbers."""
        ...


@dataclass(frozen=True)
class Problem:
    """What the data looks like; every method builds itself from this.

    Inputs and targets are thought to be standardised.
    """

    kind: Kind
    """`"table"`: rows; `"series"`: irregular observations and query times; `"windows"`: regular windows; `"frames"`"""
    inputs: int
    """numeric columns, features of an observation, variables of a window, or channels of a frame"""
    outputs: int
    """numbers to predict per row, or per query time"""
    levels: tuple[int, ...] = ()
    """tables: levels of each categorical column"""
    missing: bool = False
    """whether numbers may be missing (NaN)"""
    length: int = 0
    """windows: steps; frames: how many"""
    calendar: int = 0
    """windows: numbers that describe the time of the forecast"""
    time_scale: float = 1.0
    """series: about the length of an observed window"""
    stack: str = "plain"
    """frames: convolutions, see `nsac.models.frames.STACKS`"""
    size: tuple[int, int] | None = None
    """frames: height and width, which all stacks but the plain one must know"""
    tokens: Literal["slots", "features"] = "slots"
    """tables: learned slots, or one token per feature"""
    columns: tuple[int, ...] = ()
    """tables: positions of the numeric columns that are seen, if not all"""
    skip: bool = False
    """windows: whether the head sees the window directly"""
    amplitudes: tuple[float, ...] = ()
    """windows: typical amplitude of each variable; if given, differences are seen in units of that in the window"""
    targets: tuple[int, ...] = ()
    """windows: positions of the variables that are predicted, if several are; each asks for itself, all share weights.
    Outputs are all of them one step ahead, all of them two steps ahead, and so on"""
    missing_targets: bool = False
    """whether targets may be NaN, that is not observed: likelihoods leave them out, row by row and output by output"""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """sizes, the same for every method"""

    def __post_init__(self):
        check_choice("kind", self.kind, ("table", "series", "windows", "frames"))
        check_choice("tokens", self.tokens, ("slots", "features"))
        check_int("inputs", self.inputs, least=0 if self.kind == "table" and self.levels else 1)
        check_int("outputs", self.outputs)
        check_int("length", self.length, least=1 if self.kind in ("windows", "frames") else 0)
        if self.targets and (self.kind != "windows" or self.outputs % len(self.targets)):
            raise ValueError(
                "`targets` must be of windows, and `outputs` a multiple of how many there are. Got "
                f"{len(self.targets)} targets of {self.kind} and {self.outputs} outputs instead."
            )
        if self.columns and self.kind != "table":
            raise ValueError(f"`columns` must be of a table. Got {self.columns} of {self.kind} instead.")
        for name, places in (("targets", self.targets), ("columns", self.columns)):
            if any(not 0 <= place < self.inputs for place in places):
                raise ValueError(f"`{name}` must be positions among {self.inputs} inputs. Got {places} instead.")
        if self.missing and self.kind in ("series", "frames"):
            raise ValueError(
                f"`missing` must be False for {self.kind}. Got True instead. Mask what is missing (`mask`)."
            )

    def encoder(self, seed: int) -> AbstractEncoder:
        """A new encoder for such data."""
        if self.kind == "table":
            return TableEncoder(self.inputs, self.levels, self.tokens, self.missing, self.columns, seed=seed)
        if self.kind == "series":
            return SeriesEncoder(self.inputs, self.time_scale, seed=seed)
        if self.kind == "windows":
            sizes = self.length, self.inputs, self.calendar
            return WindowEncoder(*sizes, self.missing, self.skip, self.amplitudes, self.targets, seed=seed)
        return FrameEncoder(self.inputs, self.length, self.stack, self.size, seed=seed)


class AbstractMethod(nn.Module, ABC):
    """A way of being uncertain. Parameters and buffers are all its state."""

    name: ClassVar[str]
    """its name in the registry"""
    has_epistemic: ClassVar[bool]
    """whether its epistemic variance can be other than 0"""
    kinds: ClassVar[tuple[Kind, ...]] = ("table", "series", "windows", "frames")
    """which data it can take"""

    def __init__(self, problem: Problem):
        super().__init__()
        check_choice(f"kind for method {self.name!r}", problem.kind, self.kinds)
        self.problem = problem

    @abstractmethod
    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """Gaussian predictions, (N, B, ...); N is `num_samples`, or what the method has.

        A draw is one function: its noise is shared by all rows, so a row's prediction does not depend on the batch.
        """

    def target(self, batch: Batch) -> Tensor:
        """The batch's `y`, with the outputs as its last axis; finite, or NaN if targets may be missing."""
        y, shape = batch["y"], (len(batch["x"]), self.problem.outputs)
        if self.problem.kind == "series":
            shape = (shape[0], -1, shape[1])
        check_shape("y", y, "(rows, [queries,] outputs)", shape, hint=" For one output add an axis: `y[:, None]`.")
        if self.problem.missing_targets:
            check_known("y", y, missing=True)
        elif not torch.compiler.is_compiling():
            check_finite("y", y)
        return y

    @torch.no_grad()
    def predict(self, batch: Batch, num_samples: int = 20, generator: torch.Generator | None = None) -> Prediction:
        """The mixture of the draws. Without a generator the noise is the same every time."""
        check_int("num_samples", num_samples)
        generator = generator or torch.Generator(batch["x"].device).manual_seed(0)
        return Prediction(*self.draws(batch, num_samples, generator))

    def validation(self, batch: Batch, generator: torch.Generator | None = None) -> tuple[Tensor, int]:
        """Sum of the negative log-likelihood over the targets of a batch, and their number."""
        y = self.target(batch)
        each = -self.predict(batch, 10, generator).log_prob(y)
        if not self.problem.missing_targets:
            return each.sum(), y.numel()
        known = ~y.isnan()
        return each[known].sum(), int(known.sum())


class AbstractTrainable(AbstractMethod):
    """A method that learns by gradient."""

    parts: dict[str, Tensor]
    """named parts of the latest loss, detached"""

    @abstractmethod
    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Scalar to descend."""

    def prepare(self, train: Rows) -> None:
        """Called once before training with the rows to be trained on; nothing, unless a method wants to see them."""

    def finish(self, train: Rows, validation: Rows) -> None:
        """Called once after training; nothing, unless a method sets something by its errors."""

    def learners(self) -> list["AbstractTrainable"]:
        """What is trained, each by a run of its own: the method itself, unless it is made of several."""
        return [self]


class AbstractSolved(AbstractMethod):
    """A method that is computed from the data at once."""

    @abstractmethod
    def solve(self, train: Rows, validation: Rows) -> None:
        """Set the buffers."""


def sweep(rows: Rows, size: int = 4096) -> Iterator[Batch]:
    """All batches of the data, in order."""
    for start in range(0, len(rows), size):
        yield rows.batch(torch.arange(start, min(start + size, len(rows))))


M = TypeVar("M", bound=AbstractMethod)

METHODS: dict[str, type[AbstractMethod]] = {}
"""Name to class: `METHODS["nsac"](problem, seed=0)`."""


def method(name: str) -> Callable[[type[M]], type[M]]:
    """Register a class under a name, once."""

    def register(cls: type[M]) -> type[M]:
        if name in METHODS:
            raise ValueError(f"`name` must be new. Got {name!r} instead, which is {METHODS[name].__name__}.")
        cls.name = name
        METHODS[name] = cls
        return cls

    return register
