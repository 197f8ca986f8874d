"""Splits of irregular series: forecast origins, scored in a unit per channel."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac.training import EventsData, Queries
from nsac.training.events import AbstractScale


class EventsSplit(EventsData):
    """Forecast origins, scored as `(value - low) / span` of the channel."""

    low: Tensor  # (C,)
    span: Tensor  # (C,)

    def unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """From scaled values to the unit of the scores, (B, Q, 1) both."""
        shift, scale = self.offset_and_scale(rows)
        channel = self.query_channels(rows).unsqueeze(-1)
        low, span = self.low[channel], self.span[channel]
        return ((shift - low) / span).to(self.dtype), (scale / span).to(self.dtype)

    def shorter_first(self) -> "EventsSplit":
        """The same rows, ordered by their size, so that a batch has little padding."""
        size = self.stop - self.start + self.queries.stop - self.queries.start
        return self.subset(size.argsort(stable=True))


def make_split(
    observations: Mapping[str, np.ndarray],
    ranges: Sequence[Tensor],
    origins: np.ndarray,
    scale: AbstractScale,
    unit: tuple[np.ndarray, np.ndarray],
    static: np.ndarray | None = None,
    **options: Any,
) -> EventsSplit:
    """All rows of a task, with `observations` (`value`, `channel`, `times`), whose future values are the targets.

    Args:
        observations: sorted by series, then by time.
        ranges: start and stop of the past, start and stop of the future of each row (`cut_origins`).
        origins: forecast origin of each row.
        scale: scale of the model, from the training split.
        unit: offset and scale of the scores, (C,) both.
        static: (rows, S), attributes of the series of each row.
        options: other fields of `EventsData`.
    """
    value, channel, times = (torch.from_numpy(observations[name]) for name in ("value", "channel", "times"))
    start, stop, first, last = ranges
    attributes = None if static is None else torch.from_numpy(static)
    queries = Queries(channel, times, value, first, last)
    at = torch.from_numpy(origins)
    split = EventsSplit(value, channel, times, at, start, stop, queries, scale, attributes, **options)
    split.low, split.span = torch.from_numpy(unit[0]), torch.from_numpy(unit[1])
    return split


def asked_rows(split: EventsData, rows: np.ndarray) -> np.ndarray:
    """Those of the rows that have a query."""
    some = (split.queries.stop > split.queries.start).numpy()
    return rows[some[rows]]
