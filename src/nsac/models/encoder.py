"""What an encoder is: from a batch of data to tokens, queries and a direct path to the mean."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from nsac.layers.clock import TimeMode
from nsac.layers.inputs import Inputs

Batch = dict[str, Tensor]


class Encoded(NamedTuple):
    """What attention works on."""

    tokens: Tensor  # (B, T, token_dim)
    query: Tensor  # (B, Q, query_dim)
    times: Tensor | None = None  # (B, T)
    query_times: Tensor | None = None  # (B, Q)
    mask: Tensor | None = None  # (B, T), True = ignore
    skip: Tensor | None = None  # (B, Q, skip_dim), a direct linear path to the mean

    @property
    def inputs(self) -> Inputs:
        """The inputs of attention."""
        return Inputs(self.tokens, self.times, self.mask, self.query, self.query_times)


class AbstractEncoder(nn.Module, ABC):
    """Turns a batch into tokens and queries."""

    time: ClassVar[TimeMode]
    """the attention's time mode"""
    per_query: ClassVar[bool]
    """whether a row has several queries with outputs each"""
    token_dim: int
    query_dim: int
    skip_dim: int
    """0: the head reads attended values alone"""
    queries_per_row: int = 1
    """queries whose outputs make one row, if not `per_query`: output i of query q is column i * Q + q"""
    description_dim: int
    """numbers of `describe`"""
    time_scale: float = 1.0

    @abstractmethod
    def forward(self, batch: Batch) -> Encoded:
        """Tokens, queries and what belongs to them."""

    @abstractmethod
    def describe(self, batch: Batch) -> Tensor:
        """Fixed numbers that describe the input of each query, (B, Q, description_dim)."""
