"""Forecast origins of irregular series: ragged observations and queries, padded when a batch needs them."""

import copy
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from nsac.training.data import derive_seed

MIN_STD = 1e-6  # smallest standard deviation that a channel is divided by, relative to the size of its values
ROUNDING = 1e-6  # of a lookback or horizon: an observation this close to its end lies on it
MIN_TOKENS = 2  # width of a padded batch: with one key, attention has no noise


class AbstractScale(Protocol):
    """Offset and scale of every channel, of the rows of some data."""

    def of_rows(self, data: "EventsData", rows: Tensor) -> tuple[Tensor, Tensor]:
        """Offset and scale of these rows, (B, C) both."""
        ...


class ChannelScale(NamedTuple):
    """Offset and scale of every channel, (C,) both, the same for all series."""

    mean: Tensor
    std: Tensor

    @classmethod
    def fit(cls, values: Tensor, channel: Tensor, channels: int) -> "ChannelScale":
        """Moments of training observations, both (E,); a channel without any has mean 0 and standard deviation 1."""
        count, mean, variance = _moments(values.double(), channel, channels)
        least = (MIN_STD * mean.abs().clamp(min=MIN_STD)) ** 2
        unknown = (count == 0) | (variance <= least)
        return cls(torch.where(count == 0, 0.0, mean), torch.where(unknown, 1.0, variance.clamp(min=0).sqrt()))

    def of_rows(self, data: "EventsData", rows: Tensor) -> tuple[Tensor, Tensor]:
        """Offset and scale of these rows, (B, C) both."""
        return self.mean.expand(len(rows), -1), self.std.expand(len(rows), -1)


class Queries(NamedTuple):
    """Queries of all rows, one after the other."""

    channel: Tensor  # (M,)
    times: Tensor  # (M,), float64, on the clock of the observations
    values: Tensor  # (M,), the observed value; NaN where none is known
    start: Tensor  # (rows,), first query of a row
    stop: Tensor  # (rows,), and the one after its last
    future: Tensor | None = None  # (M, F), standardised covariates known in advance; NaN where unknown


E = TypeVar("E", bound="EventsData")


@dataclass(eq=False, repr=False)
class EventsData:
    """Forecast origins of series that are stored once; a row is an origin, its observations and its queries.

    A batch holds what the description of an events problem lists. Values are standardised by `scale`, per channel.
    """

    values: Tensor  # (E,), observed values of all series, in their own unit
    channel: Tensor  # (E,), channel of each
    times: Tensor  # (E,), float64
    origins: Tensor  # (rows,), forecast origins, float64
    start: Tensor  # (rows,), first observation of a row
    stop: Tensor  # (rows,), and the one after its last; none is later than the origin
    queries: Queries
    scale: AbstractScale
    static: Tensor | None = None  # (rows, S), standardised attributes; NaN where unknown
    until: Tensor | None = None  # (rows, C), float64, time after which a channel is not seen; None: all are
    _: KW_ONLY
    max_queries: int | None = None  # queries of a row in a batch, chosen at random; None: all, in order
    weight: Tensor | None = None  # (C,), relative frequency of a channel among the chosen queries
    seed: int = 0  # of the choice, which also depends on the rows of the batch
    dtype: torch.dtype = torch.float32  # of a batch; times are float64

    def __len__(self) -> int:
        return len(self.origins)

    @property
    def sizes(self) -> Tensor:
        """Observations of each row: rows of similar size need little padding."""
        return self.stop - self.start

    def subset(self: E, rows: Tensor | np.ndarray | Sequence[int], **changes: object) -> E:
        """Some rows, and other values of the fields after `until`."""
        rows = torch.as_tensor(rows, dtype=torch.int64)
        other = copy.copy(self)
        other.origins, other.start, other.stop = self.origins[rows], self.start[rows], self.stop[rows]
        other.queries = self.queries._replace(start=self.queries.start[rows], stop=self.queries.stop[rows])
        other.static = None if self.static is None else self.static[rows]
        other.until = None if self.until is None else self.until[rows]
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The rows with these numbers, padded."""
        token, mask = _padded(self.start[rows], self.stop[rows], len(self.values), MIN_TOKENS)
        if self.until is not None:
            mask = mask | (self.times[token] > self.until[rows].gather(1, self.channel[token]))
        asked, query_mask = self._asked(rows)
        origin, queries = self.origins[rows, None], self.queries
        channel = _take(self.channel, token, 0).masked_fill(mask, 0)
        query_channel = _take(queries.channel, asked, 0).masked_fill(query_mask, 0)
        offset, scale = self.scale.of_rows(self, rows)
        x = (_take(self.values, token, 0.0) - offset.gather(1, channel)) / scale.gather(1, channel)
        y = _take(queries.values, asked, math.nan).masked_fill(query_mask, math.nan)
        y = (y - offset.gather(1, query_channel)) / scale.gather(1, query_channel)
        batch = {
            "x": x.masked_fill(mask, 0).to(self.dtype),
            "channel": channel,
            "times": (_take(self.times, token, 0.0) - origin).masked_fill(mask, 0),
            "mask": mask,
            "query_channel": query_channel,
            "query_times": (_take(queries.times, asked, 0.0) - origin).masked_fill(query_mask, 0),
            "query_mask": query_mask,
            "y": y.unsqueeze(-1).to(self.dtype),
        }
        if self.static is not None:
            batch["static"] = self.static[rows].to(self.dtype)
        if queries.future is not None:
            future = _take(queries.future, asked, math.nan).masked_fill(query_mask.unsqueeze(-1), math.nan)
            batch["future"] = future.to(self.dtype)
        return batch

    def offset_and_scale(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Offset and scale, (B, Q, 1) both, that take `y` of a batch back to the unit of `values`."""
        channel = self.query_channels(rows)
        offset, scale = self.scale.of_rows(self, rows)
        return offset.gather(1, channel).unsqueeze(-1), scale.gather(1, channel).unsqueeze(-1)

    def query_channels(self, rows: Tensor) -> Tensor:
        """Channel of each query of a batch, (B, Q); 0 for padding."""
        asked, query_mask = self._asked(rows)
        return _take(self.queries.channel, asked, 0).masked_fill(query_mask, 0)

    def _asked(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers of the queries of these rows, (B, Q), and which of them are padding."""
        index, mask = _padded(self.queries.start[rows], self.queries.stop[rows], len(self.queries.channel), 1)
        if self.max_queries is None or index.shape[1] <= self.max_queries:
            return index, mask
        generator = torch.Generator().manual_seed(derive_seed(self.seed, *rows.tolist()))
        score = -torch.empty(index.shape).exponential_(generator=generator).log()  # Gumbel
        if self.weight is not None:
            score = score + self.weight.log()[self.queries.channel[index]].to(score)
        chosen = score.masked_fill(mask, -math.inf).topk(self.max_queries, sorted=False).indices.sort(-1).values
        return index.gather(1, chosen), mask.gather(1, chosen)

    def moments(self, rows: Tensor, channels: int) -> tuple[Tensor, Tensor, Tensor]:
        """Number, mean and variance of the observations of every channel of these rows, (B, channels) each."""
        start, length = self.start[rows], (self.stop - self.start)[rows].clamp(min=0)
        row = torch.repeat_interleave(torch.arange(len(rows)), length)
        index = start[row] + torch.arange(len(row)) - (length.cumsum(0) - length)[row]
        if self.until is not None:
            seen = self.times[index] <= self.until[rows[row], self.channel[index]]
            row, index = row[seen], index[seen]
        group = row * channels + self.channel[index]
        found = _moments(self.values[index].double(), group, channels * len(rows))
        return tuple(each.view(-1, channels) for each in found)  # pyright: ignore[reportReturnType]


def cut_origins(
    series: np.ndarray,
    times: np.ndarray,
    origin_series: np.ndarray,
    origins: np.ndarray,
    lookback: float,
    horizon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ranges of the observations of each origin: (start, stop) of the past and (start, stop) of the future.

    The past is `origin - lookback < time <= origin`, the future `origin < time <= origin + horizon`, in one series;
    borders are exact up to rounding.

    Args:
        series, times: of the observations, sorted by series, then by time.
        origin_series, origins: series and time of each forecast origin.
        lookback, horizon: lengths of past and future.
    """
    names, first = np.unique(series, return_index=True)
    last = np.append(first[1:], len(series))
    place = np.searchsorted(names, origin_series)
    known = np.isin(origin_series, names)
    ranges = np.zeros((3, len(origins)), dtype=np.int64)
    borders = np.stack([origins - (1 - ROUNDING) * lookback, origins, origins + (1 + ROUNDING) * horizon])
    order = np.argsort(place, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(place[order])) + 1)
    for rows in (group for group in groups if len(group) and known[group[0]]):
        i = place[rows[0]]
        ranges[:, rows] = first[i] + np.searchsorted(times[first[i] : last[i]], borders[:, rows], side="right")
    start, now, stop = torch.from_numpy(ranges)
    return start, now, now, stop


def _moments(values: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Number, mean and variance of the values of each group, all (groups,)."""
    zero = values.new_zeros(groups)
    count = zero.index_add(0, group, torch.ones_like(values))
    divisor = count.clamp(min=1)
    mean = zero.index_add(0, group, values) / divisor
    return count, mean, zero.index_add(0, group, (values - mean[group]).square()) / divisor


def _padded(start: Tensor, stop: Tensor, total: int, least: int) -> tuple[Tensor, Tensor]:
    """Numbers start, ..., stop - 1 of each row, (B, W), and which of them are padding."""
    width = max(least, int((stop - start).max()) if len(start) else 0)
    place = torch.arange(width)
    index = start[:, None] + place
    return index.clamp(max=max(total - 1, 0)), place >= (stop - start)[:, None]


def _take(values: Tensor, index: Tensor, empty: float) -> Tensor:
    """`values[index]`; `empty` if there are no values at all."""
    if len(values):
        return values[index]
    return values.new_full((*index.shape, *values.shape[1:]), empty)
