"""What an encoder is: from a batch of data to tokens, queries and a direct path to the mean."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from nsac.layers.clock import TimeMode

Batch = dict[str, Tensor]

ROUGHNESS_FLOOR = 1e-2
"""Added to standard deviations before their logarithm, in units of a standardised input."""


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
