"""Encoder of events: observations of several channels, each at its own times, and queries at any time."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from nsac._checks import check_dtype, check_shape
from nsac.layers.init import seeded, seeded_linear, seeded_mlp
from nsac.layers.times import CYCLES, TimeMode, time_features
from nsac.models.channels import (
    FEATURES,
    RECENT_WIDTHS,
    ChannelStatistics,
    Events,
    channel_statistics,
    check_channel,
    compress,
    expand,
    fill_unknown,
    log_age,
    read_events,
)
from nsac.models.encoder import AbstractEncoder, Batch, Encoded

CHANNEL_DIM = 32  # numbers that a channel is embedded in
ANCHORS = 3 + len(RECENT_WIDTHS)  # last value, mean, 0 (the mean of the channel over all series), and the recent means
MEAN_SHRINKAGE = 1.0  # observations that the mean of a channel over all series counts for
SCORE_SCALE = 0.1  # initial size of the learned scores of the anchors


class EventsEncoder(AbstractEncoder):
    """Observations (`x`, `channel`, `times`, `mask`) to one token each; `query_channel` and `query_times` to queries.

    Values are standardised per channel, times are relative to the forecast origin and at most 0. A query is encoded
    from its channel, its lead time, statistics of the channel and of all channels, `static` attributes and covariates
    known in advance (`future`). The mean is predicted as a change from an anchor: a learned mixture of the channel's
    last value, its recent means, its mean, and 0. Networks read extreme values through a logarithm (`compress`); the
    last value is an anchor as it is, and a mean is one of compressed values.

    The result does not depend on the order of observations, on masked ones, nor on channels without observations.

    Args:
        channels: number of channels.
        static_dim: attributes of a series, in `static`, (B, static_dim); NaN = unknown.
        future_dim: covariates known at a query, in `future`, (B, Q, future_dim); NaN = unknown.
        time_scale: characteristic time scale, about the length of the observed window.
    """

    time: ClassVar[TimeMode] = "elapsed"
    per_query: ClassVar[bool] = True
    shared_query_noise: ClassVar[bool] = True
    skip_weight: ClassVar[float | None] = 1.0
    skip_dim = 1

    def __init__(self, channels: int, static_dim: int = 0, future_dim: int = 0, time_scale: float = 1.0, seed: int = 0):
        super().__init__()
        self.channels, self.time_scale = channels, time_scale
        self.static_dim, self.future_dim = static_dim, future_dim
        width, time_dim = self.token_dim, 1 + 2 * len(CYCLES)
        known = 2 * static_dim
        self.identity = seeded(lambda: nn.Embedding(channels + 1, CHANNEL_DIM), seed)
        self.token = seeded_mlp(CHANNEL_DIM + 4 + time_dim, width, width, seed + 1)
        self.state = seeded_mlp(channels * FEATURES + known, width, width, seed + 2)
        query_dim = CHANNEL_DIM + FEATURES + time_dim + 2 + 2 * future_dim + width
        self.query = seeded_mlp(query_dim, 2 * width, width, seed + 3)
        self.anchor = seeded_linear(width, ANCHORS, seed + 4)
        with torch.no_grad():
            self.anchor.weight *= SCORE_SCALE
        self.description_dim = FEATURES + 6 + known + 2 * future_dim

    def describe(self, batch: Batch) -> Tensor:
        """Statistics of the query's channel, lead time and age, a few numbers of all channels, and attributes."""
        events, lead = self._read(batch)
        statistics = channel_statistics(events, self.channels)
        own = self._of_query(statistics.features(), batch)
        age = lead + self._of_query(statistics.age.unsqueeze(-1), batch).squeeze(-1)
        seen = statistics.observed.to(lead)
        share = seen.sum(-1).clamp(min=1)
        row = [
            seen.sum(-1).log1p(),
            statistics.count.sum(-1).log1p(),
            statistics.last.sum(-1) / share,
            (statistics.last.square().sum(-1) / share).sqrt(),
        ]
        row = torch.stack(row, -1)
        if self.static_dim:
            row = torch.cat([row, fill_unknown("static", batch["static"])], -1)
        columns = [own, lead.unsqueeze(-1), log_age(age.abs()).unsqueeze(-1)]
        columns.append(row.unsqueeze(1).expand(-1, lead.shape[1], -1))
        if self.future_dim:
            columns.append(fill_unknown("future", batch["future"]))
        return torch.cat(columns, -1)

    def forward(self, batch: Batch) -> Encoded:  # noqa: D102
        events, lead = self._read(batch)
        statistics = channel_statistics(events, self.channels)
        query = self._query(batch, statistics, lead)
        return Encoded(
            self._tokens(events, statistics), query, events.tau * self.time_scale, lead * self.time_scale, events.mask,
            self._anchor(batch, statistics, query),
        )  # fmt: skip

    def _read(self, batch: Batch) -> tuple[Events, Tensor]:
        """Checked tokens, whose values are compressed, and lead times over `time_scale`."""
        names = ("x", "channel", "times", "query_channel", "query_times")
        names += ("static",) * bool(self.static_dim) + ("future",) * bool(self.future_dim)
        missing = [name for name in names if name not in batch]
        if missing:
            raise ValueError(f"A batch of events must contain {missing[0]!r}. Got {sorted(batch)} instead.")
        check_dtype("x", batch["x"], self.anchor.weight.dtype)
        rows, queries = batch["query_times"].shape
        check_shape("query_channel", batch["query_channel"], "(batch, queries)", (rows, queries))
        check_channel("query_channel", batch["query_channel"], self.channels)
        if self.static_dim:
            check_shape("static", batch["static"], "(batch, attributes)", (rows, self.static_dim))
        if self.future_dim:
            check_shape("future", batch["future"], "(batch, queries, covariates)", (rows, queries, self.future_dim))
        events = read_events(batch, self.channels, self.time_scale)
        events = events._replace(x=compress(events.x))
        return events, (batch["query_times"] / self.time_scale).to(batch["x"].dtype)

    def _tokens(self, events: Events, statistics: ChannelStatistics) -> Tensor:
        x, channel, tau, mask = events
        padded = torch.nn.functional.pad(torch.stack([statistics.mean, statistics.age], -1), (0, 0, 0, 1))
        mean, age = padded.gather(1, channel.unsqueeze(-1).expand(-1, -1, 2)).unbind(-1)
        since = (-age - tau).masked_fill(mask, 0)  # time from the observation to the latest one of its channel
        numbers = [x, x - mean.masked_fill(mask, 0), log_age(-tau), log_age(since), tau]
        return self.token(torch.cat([self.identity(channel), torch.stack(numbers, -1), time_features(tau)], -1))

    def _query(self, batch: Batch, statistics: ChannelStatistics, lead: Tensor) -> Tensor:
        features = statistics.features()
        row = [features.flatten(1)]
        if self.static_dim:
            row.append(fill_unknown("static", batch["static"]))
        state = self.state(torch.cat(row, -1)).unsqueeze(1).expand(-1, lead.shape[1], -1)
        age = lead + self._of_query(statistics.age.unsqueeze(-1), batch).squeeze(-1)
        times = torch.stack([lead, log_age(lead.abs()), log_age(age.abs())], -1)
        columns = [
            self.identity(batch["query_channel"]), self._of_query(features, batch), times, time_features(lead), state
        ]  # fmt: skip
        if self.future_dim:
            columns.append(fill_unknown("future", batch["future"]))
        return self.query(torch.cat(columns, -1))

    def _anchor(self, batch: Batch, statistics: ChannelStatistics, query: Tensor) -> Tensor:
        """A mixture of values that the channel may return to, (B, Q, 1)."""
        shrunk = statistics.mean * statistics.count / (statistics.count + MEAN_SHRINKAGE)
        values = torch.stack([statistics.last, shrunk, torch.zeros_like(shrunk), *statistics.recent.unbind(-1)], -1)
        weights = self.anchor(query).softmax(-1)
        return (weights * expand(self._of_query(values, batch))).sum(-1, keepdim=True)

    def _of_query(self, per_channel: Tensor, batch: Batch) -> Tensor:  # b c f -> b q f
        index = batch["query_channel"].unsqueeze(-1).expand(-1, -1, per_channel.shape[-1])
        return per_channel.gather(1, index)
