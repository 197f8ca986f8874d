"""Encoders: from a batch of data to tokens, queries and what the head may see directly."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, one_hot
from typing_extensions import override

from nsac._checks import check_dtype, check_known, check_sequence, check_shape
from nsac.layers.clock import CYCLES, TimeMode, first_valid, same_precision, time_features
from nsac.layers.init import seeded, seeded_linear, seeded_mlp

Batch = dict[str, Tensor]


class Encoded(NamedTuple):
    """What attention works on."""

    tokens: Tensor  # (B, T, token_dim)
    query: Tensor  # (B, Q, query_dim)
    times: Tensor | None = None  # (B, T)
    query_times: Tensor | None = None  # (B, Q)
    mask: Tensor | None = None  # (B, T), True = ignore
    skip: Tensor | None = None  # (B, Q, skip_dim), a straight path to the mean


class AbstractEncoder(nn.Module, ABC):
    """Turns a batch into tokens and queries."""

    time: ClassVar[TimeMode]
    """the attention's time mode"""
    per_query: ClassVar[bool]
    """several queries with an output each, or one query"""
    token_dim: int
    query_dim: int
    skip_dim: int
    """0: the head sees only what was attended"""
    asking: int = 1
    """queries whose outputs make one row, if not `per_query`: output i of query q is column i * asking + q"""
    described: int
    """numbers of `describe`"""
    time_scale: float = 1.0

    @abstractmethod
    def forward(self, batch: Batch) -> Encoded:
        """Tokens, queries and what goes with them."""

    @abstractmethod
    def describe(self, batch: Batch) -> Tensor:
        """What each query's input is like, in fixed numbers, (B, Q, described); no weight can make two alike."""


class TableEncoder(AbstractEncoder):
    """Rows of numbers (`x`, NaN = missing) and categories (`c`, 0 = missing) to tokens; the row itself asks.

    A missing value is never replaced silently: with a token per feature its token is masked, and with slots, as in the
    query and the straight path, its number is left out and a flag says so.

    Args:
        numbers: number of numeric columns.
        levels: for each categorical column, how many levels it has besides "missing".
        tokens: `"slots"`: learned mixtures of all features; `"features"`: one token each.
        missing: whether numbers may be missing.
        columns: positions of the numeric columns that are seen, if not all are.
        width: size of a token.
        slots: number of slots.
        seed: fixes the initial weights.
    """

    time: ClassVar[TimeMode] = "none"
    per_query: ClassVar[bool] = False

    def __init__(
        self,
        numbers: int,
        levels: Sequence[int] = (),
        tokens: str = "slots",
        missing: bool = False,
        columns: Sequence[int] = (),
        width: int = 32,
        slots: int = 8,
        seed: int = 0,
    ):
        super().__init__()
        self.numbers, self.tokens, self.missing, self.columns = numbers, tokens, missing, list(columns)
        numbers = len(columns) or numbers
        self.token_dim = self.query_dim = width
        self.levels = nn.ModuleList(
            seeded(lambda n=n: nn.Embedding(n + 1, width), seed + i) for i, n in enumerate(levels)
        )
        self.skip_dim = numbers * (2 if missing else 1) + width * len(levels)
        if tokens == "slots":
            self.slots = seeded(lambda: nn.Linear(self.skip_dim, slots * width), seed)
        else:
            self.value = seeded(lambda: _PerFeature(numbers, width), seed)
        self.query = seeded_linear(self.skip_dim, width, seed + 1)
        self.sizes = [n + 1 for n in levels]
        self.described = numbers * (2 if missing else 1) + sum(self.sizes)

    @override
    def describe(self, batch: Batch) -> Tensor:
        """The row: numbers, 0 and a flag where one is missing, and categories one-hot."""
        x = self._seen(batch)
        absent = torch.isnan(x)
        parts = [x.masked_fill(absent, 0)] + ([absent.to(x.dtype)] if self.missing else [])
        parts += [one_hot(batch["c"][:, i], n).to(x.dtype) for i, n in enumerate(self.sizes)]
        return torch.cat(parts, -1).unsqueeze(1)

    @override
    def forward(self, batch: Batch) -> Encoded:
        x = batch["x"]
        check_shape("x", x, "(rows, features)", (-1, self.numbers))
        check_dtype("x", x, self.query.weight.dtype)
        x = self._seen(batch)
        check_known("x", x, self.missing)
        if self.levels:
            self._check_levels(batch)
        absent = torch.isnan(x)
        known = x.masked_fill(absent, 0)
        kinds = [embed(batch["c"][:, i]) for i, embed in enumerate(self.levels)]
        row = torch.cat([known, *([absent.to(x.dtype)] if self.missing else []), *kinds], -1)
        query = self.query(row).unsqueeze(1)
        if self.tokens == "slots":
            return Encoded(gelu(self.slots(row)).unflatten(-1, (-1, self.token_dim)), query, skip=row.unsqueeze(1))
        tokens = torch.cat([self.value(known), *(kind.unsqueeze(1) for kind in kinds)], 1)
        mask = None
        if self.missing or kinds:
            mask = torch.cat([absent, *((batch["c"][:, i : i + 1] == 0) for i in range(len(kinds)))], 1)
        return Encoded(tokens, query, mask=mask, skip=row.unsqueeze(1))

    def _seen(self, batch: Batch) -> Tensor:
        return batch["x"][:, self.columns] if self.columns else batch["x"]

    def _check_levels(self, batch: Batch) -> None:
        sizes = [len(embed.weight) for embed in self.levels]  # pyright: ignore[reportArgumentType]
        if "c" not in batch:
            raise ValueError(f"A batch must hold 'c', {len(sizes)} categorical columns. Got {sorted(batch)} instead.")
        check_shape("c", batch["c"], "(rows, categorical columns)", (batch["x"].shape[0], len(sizes)))
        if torch.compiler.is_compiling():
            return  # what follows looks at values
        low, high = batch["c"].amin(0), batch["c"].amax(0)
        for column, size in enumerate(sizes):
            if low[column] < 0 or high[column] >= size:
                raise ValueError(
                    f"`c` must be between 0 (missing) and {size - 1} in column {column}. "
                    f"Got {int(low[column])} to {int(high[column])} instead. Give unknown levels the number 0."
                )


class _PerFeature(nn.Module):
    """A token per number: GELU(value * direction + place)."""

    def __init__(self, numbers: int, width: int):
        super().__init__()
        self.direction = nn.Parameter(torch.empty(1, numbers, width))
        self.place = nn.Parameter(torch.empty(1, numbers, width))

    def forward(self, x: Tensor) -> Tensor:  # b f -> b f w
        scale = self.direction[0].numel() ** 0.5  # weights were scaled for that fan-in, but a token sees one number
        return gelu(scale * (x.unsqueeze(-1) * self.direction + self.place))


NEAR, WHOLE = (0.02, 0.1), 0.05
"""Resolutions at which observations about the time asked, and about the window, are described, over `time_scale`."""

PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Where in the window its description looks; shares of its length."""

ROUGH_FLOOR = 1e-2
"""Deviations below this, in units of a standardised input, are as good as none."""


class SeriesEncoder(AbstractEncoder):
    """Observations at irregular times (`x`, `times`, `mask`) to one token each; `query_times` ask.

    Args:
        features: numbers per observation.
        time_scale: about the length of the observed window.
        width: size of tokens and queries.
        seed: fixes the initial weights.
    """

    time: ClassVar[TimeMode] = "elapsed"
    per_query: ClassVar[bool] = True

    def __init__(self, features: int, time_scale: float = 1.0, width: int = 64, seed: int = 0):
        super().__init__()
        self.features, self.time_scale, self.skip_dim = features, time_scale, 0
        self.token_dim = self.query_dim = width
        stamp = 1 + 2 * len(CYCLES)
        self.token = seeded_mlp(features + stamp, width, width, seed)
        self.query = seeded_mlp(stamp, width, width, seed + 1)
        self.described = 1 + len(NEAR) * (3 + 2 * features) + len(PLACES) * (3 + 2 * features)

    @override
    def describe(self, batch: Batch) -> Tensor:
        """What was observed about the time asked, at two resolutions, and about a few times of the observed window."""
        x, mask, scale = batch["x"], batch.get("mask"), self.time_scale
        times, asked = (batch[name].expand(len(x), -1) for name in ("times", "query_times"))
        times, asked = same_precision(times, asked)
        assert times is not None and asked is not None
        hidden = torch.zeros_like(times, dtype=torch.bool) if mask is None else mask
        first = first_valid(times, hidden)
        times, asked = (((t - first) / scale).to(x.dtype) for t in (times, asked))  # first, then in the precision of x
        x, times = x.masked_fill(hidden[..., None], 0), times.masked_fill(hidden, 0)
        places = times.new_tensor(PLACES) * times.amax(-1, keepdim=True)
        near = [_local(x, times, hidden, asked, width) for width in NEAR]
        whole = _local(x, times, hidden, places, WHOLE).flatten(1).unsqueeze(1).expand(-1, asked.shape[1], -1)
        return torch.cat([asked.unsqueeze(-1), *near, whole], -1)

    @override
    def forward(self, batch: Batch) -> Encoded:
        x, mask = batch["x"], batch.get("mask")
        check_shape("x", x, "(batch, time, features)", (-1, -1, self.features))
        for name in ("times", "query_times"):
            if name not in batch:
                raise ValueError(f"A batch of series must hold {name!r}. Got {sorted(batch)} instead.")
        sizes = {"input_dim": self.features, "query_dim": self.features, "takes_times": True}
        check_sequence(x, batch["times"], mask, None, batch["query_times"], causal=False, **sizes)
        check_dtype("x", x, self.token[0].weight.dtype)  # pyright: ignore[reportArgumentType]
        times, asked = (batch[name].expand(len(x), -1) for name in ("times", "query_times"))
        times, asked = same_precision(times, asked)
        assert times is not None and asked is not None
        first = first_valid(times, mask)
        tau, ask = (((t - first) / self.time_scale).to(x.dtype) for t in (times, asked))
        if mask is not None:  # what is behind the mask must not reach the token network either
            x, tau = x.masked_fill(mask[..., None], 0), tau.masked_fill(mask, 0)
        tokens = self.token(torch.cat([x, _stamp(tau)], -1))
        return Encoded(tokens, self.query(_stamp(ask)), times, asked, mask)


def _local(x: Tensor, times: Tensor, mask: Tensor, at: Tensor, width: float) -> Tensor:
    """A line fitted to the observations about each time, (B, Q, 3 + 2 F).

    How many there are and how far off they lie, level and slope, and how much they scatter; weights fall off
    exponentially with the time between.
    """
    apart = times[:, None] - at[..., None]  # b q t
    closeness = (-apart.abs() / width).masked_fill(mask[:, None], -math.inf)
    count = closeness.logsumexp(-1, keepdim=True).clamp(min=-1e3)  # nothing observed at all: as far off as can be
    w = (closeness - count).exp()
    mean, off = w @ x, (w * apart).sum(-1, keepdim=True)
    about = (apart - off).masked_fill(mask[:, None], 0)
    ridge = (0.1 * width) ** 2  # a slope between observations that are closer than that is noise
    spread = (w * about.square()).sum(-1, keepdim=True) + ridge
    slope = ((w * about) @ x) / spread
    left = w @ x.square() - mean.square() - slope.square() * (spread + ridge)
    scatter = left.clamp(min=0).mean(-1, keepdim=True).sqrt()
    return torch.cat([count, mean, off / width, slope * width, (scatter + ROUGH_FLOOR).log()], -1)


def _stamp(tau: Tensor) -> Tensor:
    return torch.cat([tau[..., None], time_features(tau)], -1)


STILL = 0.3
"""Over the typical one, the amplitude that a window has at least: one at rest must not be blown up."""


def fill_holes(x: Tensor) -> Tensor:
    """Windows, (B, L, V), with straight lines across holes, level at the ends, and 0 where a variable is not known."""
    absent, most = x.isnan(), x.shape[1] - 1
    if not torch.compiler.is_compiling() and not absent.any():
        return x
    steps = torch.arange(x.shape[1], device=x.device)[:, None]
    before = _running_max(torch.where(absent, -1, steps))
    after = most - _running_max(torch.where(absent, -1, most - steps).flip(1)).flip(1)
    left = torch.where(before < 0, after, before)  # before the first known value it is that one, and so at the end
    right = torch.where(after > most, before, after)
    known = x.nan_to_num()
    a, b = (known.gather(1, place.clamp(0, most)) for place in (left, right))
    return a + (b - a) * (steps - left).clamp(min=0) / (right - left).clamp(min=1)


def _running_max(place: Tensor) -> Tensor:  # b l v
    """Largest number up to each step, at least -1. ONNX has no such operation, so a graph looks at all pairs."""
    if not torch.compiler.is_compiling():
        return place.cummax(1).values
    later = torch.ones(place.shape[1], place.shape[1], dtype=torch.bool, device=place.device).triu(1)
    return place.unsqueeze(1).masked_fill(later.unsqueeze(-1), -1).amax(2)


def amplitude(x: Tensor, typical: Tensor) -> Tensor:
    """Root mean square difference to the last value in windows without holes, (B, L, V) -> (B, 1, V); not near 0."""
    return ((x - x[:, -1:]).square().mean(1, keepdim=True) + (STILL * typical) ** 2).sqrt()


class WindowEncoder(AbstractEncoder):
    """Regular windows (`x`, (B, L, V), NaN = missing) to one token per variable; all of them ask.

    A variable's token sees its differences to its last known value, that value, and which variable it is. `calendar`,
    (B, G), known in advance, is one more token; a variable that would be alone gets a constant one. Holes are bridged
    by straight lines, and flags say where they are; a variable with no value in the window is masked. A linear map of
    all tokens side by side asks, so that it is known which variable moved. Of several targets each asks for itself,
    with its own token, and all share weights.

    Args:
        length: steps of a window.
        variables: number of series.
        calendar: numbers that describe the time of the forecast, 0 for none.
        missing: whether values may be missing.
        skip: whether the head sees the window directly.
        amplitudes: typical amplitude of each variable in a window. If given, differences are seen in units of the
            amplitude that the variable has in this window, and its logarithm is seen too.
        targets: positions of the variables that are predicted, if there are several.
        width: size of a token.
        seed: fixes the initial weights.
    """

    time: ClassVar[TimeMode] = "none"
    per_query: ClassVar[bool] = False
    amplitudes: Tensor

    def __init__(
        self,
        length: int,
        variables: int,
        calendar: int = 0,
        missing: bool = False,
        skip: bool = False,
        amplitudes: Sequence[float] = (),
        targets: Sequence[int] = (),
        width: int = 64,
        seed: int = 0,
    ):
        super().__init__()
        self.targets, self.asking = list(targets), max(1, len(targets))
        self.length, self.variables, self.missing, self.relative = length, variables, missing, bool(amplitudes)
        if self.relative:
            self.register_buffer("amplitudes", torch.tensor(list(amplitudes)))
        self.token_dim = self.query_dim = width
        self.skip_dim = length * (1 if targets else variables) if skip else 0
        self.token = seeded_mlp(length * (2 if missing else 1) + (2 if amplitudes else 1), width, width, seed)
        self.identity = seeded(lambda: nn.Embedding(variables, width), seed + 1)
        self.calendar = seeded_mlp(calendar, width, width, seed + 2) if calendar else None
        alone = variables == 1 and not calendar  # with a single key there is nothing to choose, hence nothing to doubt
        self.company = seeded(lambda: nn.Embedding(1, width), seed + 2) if alone else None
        whole = (variables + (calendar > 0 or alone)) * width
        self.query = None if targets else seeded_linear(whole, width, seed + 3)
        self.described = (6 if missing else 5) * variables

    @override
    def describe(self, batch: Batch) -> Tensor:
        """Of each variable: last, smallest and largest value, roughness from step to step and over a quarter window."""
        x = batch["x"]  # b l v
        share = [x.isnan().to(x.dtype).mean(1)] if self.missing else []
        x = fill_holes(x) if self.missing else x
        x = x.transpose(0, 1).contiguous()  # l b v: sums over the first axis are the fastest
        parts = [x[-1], x.amin(0), x.amax(0)]
        for lag in (1, max(1, self.length // 4)):
            change = x[lag:] - x[:-lag] if lag < self.length else torch.zeros_like(x[:1])
            parts.append((change.square().mean(0).sqrt() + ROUGH_FLOOR).log())
        return torch.cat(parts + share, -1).unsqueeze(1)

    @override
    def forward(self, batch: Batch) -> Encoded:
        x = batch["x"].mT  # b v l
        check_shape("x", batch["x"], "(batch, time, variables)", (-1, self.length, self.variables))
        check_dtype("x", x, self.identity.weight.dtype)
        check_known("x", x, self.missing)
        absent = torch.isnan(x)
        filled = fill_holes(batch["x"]) if self.missing else batch["x"]
        last = filled[:, -1:]
        change, scale = filled - last, []
        if self.relative:
            size = amplitude(filled, self.amplitudes)
            change, scale = change / size, [(size / self.amplitudes).log()]
        change = change.mT
        parts = [change, *(part.mT for part in (last, *scale)), *([absent.to(x.dtype)] if self.missing else [])]
        tokens = self.token(torch.cat(parts, -1)) + self.identity.weight
        mask = absent.all(-1) if self.missing else None
        if self.calendar is not None:
            tokens = torch.cat([tokens, self.calendar(batch["calendar"]).unsqueeze(1)], 1)
        if self.company is not None:
            tokens = torch.cat([tokens, self.company.weight.expand(len(tokens), 1, -1)], 1)
        if tokens.shape[1] > self.variables:
            mask = None if mask is None else torch.nn.functional.pad(mask, (0, 1))
        known = tokens if mask is None else tokens.masked_fill(mask.unsqueeze(-1), 0)
        if self.query is None:
            query, straight = known[:, self.targets], change[:, self.targets]
        else:
            query, straight = (each.unsqueeze(1) for each in (self.query(known.flatten(1)), change.flatten(1)))
        return Encoded(tokens, query, mask=mask, skip=straight if self.skip_dim else None)
