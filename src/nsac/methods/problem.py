"""Descriptions of standardised data, one class per kind; every method is built from one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from nsac._checks import check_choice, check_int, check_known, check_positive
from nsac.models import EventsEncoder, FrameEncoder, NetworkConfig, SeriesEncoder, TableEncoder, WindowEncoder
from nsac.models.encoder import AbstractEncoder, Batch
from nsac.models.windows import amplitude, interpolate_missing

Kind = Literal["table", "series", "windows", "frames", "events"]

MAX_SIZE = 100_000  # largest size that a stored problem may have


@dataclass(frozen=True)
class AbstractProblem(ABC):
    """Sizes of inputs and outputs, and of the network."""

    kind: ClassVar[Kind]
    has_query_axis: ClassVar[bool] = False  # whether a row has several queries, each with its own outputs
    heavy_tails: ClassVar[bool] = False  # whether a likelihood has tails of learned weight, or is Gaussian
    beta: ClassVar[float] = 0.0  # of a Gaussian likelihood, see `gaussian_nll`

    input_dim: int  # numeric columns, features of an observation, variables of a window, or channels of a frame
    output_dim: int  # numbers to predict per row, or per query time
    missing_targets: bool = False  # whether targets may be NaN; likelihoods ignore those entries
    network: NetworkConfig = field(default_factory=NetworkConfig)  # sizes of the network, the same for every method

    def __post_init__(self):
        check_int("input_dim", self.input_dim, minimum=0 if getattr(self, "categories", ()) else 1)
        check_int("output_dim", self.output_dim)
        self._check()

    @abstractmethod
    def _check(self) -> None:
        """Raise a ValueError if a field of this class is invalid."""

    @abstractmethod
    def encoder(self, seed: int) -> AbstractEncoder:
        """A new encoder for such data."""

    def _check_positions(self, name: str, positions: tuple[int, ...]) -> None:
        if any(not 0 <= position < self.input_dim for position in positions):
            raise ValueError(f"`{name}` must be positions among {self.input_dim} inputs. Got {positions} instead.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class TableProblem(AbstractProblem):
    """Rows of numbers (`x`, NaN = missing) and categories (`c`, 0 = missing)."""

    kind = "table"

    categories: tuple[int, ...] = ()  # number of categories of each categorical column
    missing: bool = False  # whether numbers may be missing (NaN)
    tokens: Literal["slots", "features"] = "slots"  # learned mixtures of all features, or one token per feature
    columns: tuple[int, ...] = ()  # positions of the numeric columns in use, if not all are

    def _check(self) -> None:
        check_choice("tokens", self.tokens, ("slots", "features"))
        self._check_positions("columns", self.columns)

    def encoder(self, seed: int) -> AbstractEncoder:  # noqa: D102
        return TableEncoder(self.input_dim, self.categories, self.tokens, self.missing, self.columns, seed=seed)

    @property
    def flat_dim(self) -> int:
        """Length of `flatten`."""
        numbers = (len(self.columns) or self.input_dim) * (2 if self.missing else 1)
        return numbers + sum(size + 1 for size in self.categories)

    def flatten(self, batch: Batch) -> Tensor:
        """A row as one vector: numbers, with 0 and a flag where one is missing, and one-hot categories."""
        x = batch["x"][:, list(self.columns)] if self.columns else batch["x"]
        check_known("x", x, self.missing)
        absent = torch.isnan(x)
        vectors = [x.masked_fill(absent, 0)]
        if self.missing:
            vectors.append(absent.to(x.dtype))
        vectors += [one_hot(batch["c"][:, i], size + 1).to(x.dtype) for i, size in enumerate(self.categories)]
        return torch.cat(vectors, 1)


@dataclass(frozen=True)
class WindowProblem(AbstractProblem):
    """Windows of regular steps (`x`, (B, lookback, variables), NaN = missing) and `calendar`."""

    kind = "windows"

    lookback: int = 1  # steps of a window
    calendar_dim: int = 0  # numbers that describe the time of the forecast
    missing: bool = False  # whether values may be missing (NaN)
    skip: bool = False  # whether the head also reads the window linearly
    amplitudes: tuple[float, ...] = ()
    """typical amplitude of each variable; if given, differences are scaled by the amplitude within the window"""
    targets: tuple[int, ...] = ()
    """positions of the predicted variables, if there are several. Each has its own query, all share weights; outputs
    are all targets one step ahead, all targets two steps ahead, and so on"""
    max_level: float | None = None  # largest size of a last value that is seen; see `WindowEncoder`

    def _check(self) -> None:
        check_int("lookback", self.lookback)
        if self.max_level is not None:
            check_positive("max_level", self.max_level)
        self._check_positions("targets", self.targets)
        count = len(self.targets) or 1
        if self.output_dim % count:
            rule = f"`output_dim` must be a multiple of the number of targets ({count})."
            raise ValueError(f"{rule} Got {self.output_dim} instead.")

    def encoder(self, seed: int) -> AbstractEncoder:  # noqa: D102
        sizes = self.lookback, self.input_dim, self.calendar_dim
        how = self.missing, self.skip, self.amplitudes, self.targets, self.max_level
        return WindowEncoder(*sizes, *how, seed=seed)

    @property
    def flat_dim(self) -> int:
        """Length of `flatten`."""
        return self.input_dim * self.lookback * (2 if self.missing else 1) + self.calendar_dim

    def flatten(self, batch: Batch) -> Tensor:
        """A window as one vector: values, interpolated and with a flag where one is missing, and the calendar."""
        check_known("x", batch["x"], self.missing)
        absent = torch.isnan(batch["x"])
        x = interpolate_missing(batch["x"])
        if self.amplitudes:
            last = x[:, -1:]
            x = torch.cat([(x - last)[:, :-1] / amplitude(x, x.new_tensor(self.amplitudes)), last], 1)
        vectors = [x.flatten(1)]
        if self.missing:
            vectors.append(absent.to(x.dtype).flatten(1))
        if self.calendar_dim:
            vectors.append(batch["calendar"])
        return torch.cat(vectors, 1)


@dataclass(frozen=True)
class SeriesProblem(AbstractProblem):
    """Irregular observations (`x`, `times`, `mask`) and `query_times`."""

    kind = "series"
    has_query_axis = True

    time_scale: float = 1.0  # characteristic time scale: about the length of an observed window

    def _check(self) -> None:
        check_positive("time_scale", self.time_scale)

    def encoder(self, seed: int) -> AbstractEncoder:  # noqa: D102
        return SeriesEncoder(self.input_dim, self.time_scale, seed=seed)


@dataclass(frozen=True)
class FrameProblem(AbstractProblem):
    """Short sequences of images (`x`, (B, frames, channels, height, width))."""

    kind = "frames"

    frames: int = 1  # images of a sequence
    stack: str = "plain"  # convolutions, see `nsac.models.frames.STACKS`
    size: tuple[int, int] | None = None  # height and width, required by all stacks but the plain one

    def _check(self) -> None:
        check_int("frames", self.frames)

    def encoder(self, seed: int) -> AbstractEncoder:  # noqa: D102
        return FrameEncoder(self.input_dim, self.frames, self.stack, self.size, seed=seed)


@dataclass(frozen=True)
class EventsProblem(AbstractProblem):
    """Observations of several channels at irregular times, and queries for any channel at any time.

    Times are relative to the forecast origin. A batch holds the observations `x`, `channel`, `times` (at most 0) and
    `mask`, (B, T); the queries `query_channel`, `query_times` and `query_mask`, (B, Q), True = padding; `static`,
    (B, static_dim), and `future`, (B, Q, future_dim), NaN = unknown; and the target `y`, (B, Q, 1).
    """

    kind = "events"
    has_query_axis = True

    input_dim: int = 1  # numbers of an observation: its value
    output_dim: int = 1  # numbers to predict per query
    missing_targets: bool = True
    channels: int = 1  # number of observed channels
    targets: tuple[int, ...] = ()  # channels that are predicted; empty: all of them
    static_dim: int = 0  # attributes of a series
    future_dim: int = 0  # covariates known in advance at a query
    time_scale: float = 1.0  # characteristic time scale: about the length of an observed window
    heavy_tails: bool = True  # whether a likelihood has tails of learned weight, or is Gaussian
    beta: float = 0.0  # of a Gaussian likelihood: 0 is maximum likelihood, with 1 means are fitted by least squares
    trees: bool = False  # whether method "nsac" has boosted trees beside its network; other methods have none

    def _check(self) -> None:
        for name in ("input_dim", "output_dim"):
            if getattr(self, name) != 1:
                raise ValueError(f"`{name}` must be 1 for events. Got {getattr(self, name)} instead.")
        check_int("channels", self.channels)
        check_int("static_dim", self.static_dim, 0)
        check_int("future_dim", self.future_dim, 0)
        check_positive("time_scale", self.time_scale)
        if not 0 <= self.beta <= 1 or (self.beta and self.heavy_tails):
            raise ValueError(
                f"`beta` must be from 0 to 1, and 0 with heavy tails. Got {self.beta} instead. "
                "Pass heavy_tails=False for a Gaussian likelihood."
            )
        if any(not 0 <= target < self.channels for target in self.targets):
            raise ValueError(f"`targets` must be among {self.channels} channels. Got {self.targets} instead.")

    def encoder(self, seed: int) -> AbstractEncoder:  # noqa: D102
        return EventsEncoder(self.channels, self.static_dim, self.future_dim, self.time_scale, seed=seed)


PROBLEMS: dict[str, type[AbstractProblem]] = {
    cls.kind: cls for cls in (TableProblem, WindowProblem, SeriesProblem, FrameProblem, EventsProblem)
}

_OLD_NAMES = {"inputs": "input_dim", "outputs": "output_dim", "levels": "categories", "calendar": "calendar_dim"}
"""Names of fields in model folders of version 1; `length` is the lookback, or the number of frames."""


def problem_from_dict(values: Mapping[str, Any]) -> AbstractProblem:
    """A problem from the result of `to_dict`, or from a model folder of version 1, whose fields had other names.

    Sizes are checked against a maximum before any module is built.
    """
    cls = PROBLEMS[values["kind"]]
    known = _field_names(cls)
    given: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items() if n != "kind"}
    if "inputs" in given:  # in version 1 one class had the fields of every kind
        renamed = _OLD_NAMES | {"length": "frames" if cls is FrameProblem else "lookback"}
        given = {renamed.get(name, name): value for name, value in given.items()}
        unknown = set(given).difference(*map(_field_names, PROBLEMS.values()))
        if unknown:
            raise ValueError(f"A problem has no field {min(unknown)!r}.")
        given = {name: value for name, value in given.items() if name in known}
    network = dict(given["network"])
    unknown = (set(given) - known) | (set(network) - _field_names(NetworkConfig))
    if unknown:
        raise ValueError(f"A {cls.kind} problem has no field {min(unknown)!r}.")
    sizes = [*given.values(), *network.values(), *given.get("categories", ()), *(given.get("size") or ())]
    if any(isinstance(size, (int, float)) and abs(size) > MAX_SIZE for size in sizes):
        raise ValueError(f"Sizes of a problem must be at most {MAX_SIZE}. Got {dict(values)} instead.")
    given["network"] = NetworkConfig(**network)
    return cls(**given)


def _field_names(cls: type) -> set[str]:
    return {each.name for each in fields(cls)}
