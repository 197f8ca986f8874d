"""The interface of encoders: from a batch of data to tokens, queries and a direct path to the mean."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from nsac.layers.inputs import Inputs
from nsac.layers.times import TimeMode

Batch = dict[str, Tensor]


class Encoded(NamedTuple):
    """Inputs of attention, and features with a direct path to the mean."""

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
    """Turns a batch into tokens and queries. The `seed` of an encoder fixes its initial weights."""

    time: ClassVar[TimeMode] = "none"  # the attention's time mode
    time_scale: float = 1.0  # and its characteristic time scale
    token_dim: ClassVar[int] = 64
    query_dim: ClassVar[int] = 64
    skip_dim: int = 0  # features with a direct linear path to the mean; 0: the head reads attended values only
    skip_weight: ClassVar[float | None] = None  # initial weight of that path; None: random
    shared_query_noise: ClassVar[bool] = False
    """whether all queries of a draw share its noise, so that a prediction does not depend on the other queries"""
    description_dim: int  # length of a description by `describe`
    per_query: ClassVar[bool] = False  # whether a row has several queries, each with its own outputs
    queries_per_row: int = 1  # otherwise, queries whose outputs form one row: output i of query q is column i * Q + q

    @abstractmethod
    def forward(self, batch: Batch) -> Encoded:
        """Tokens, queries, their times and masks."""

    @abstractmethod
    def describe(self, batch: Batch) -> Tensor:
        """Fixed numbers that describe the input of each query, (B, Q, description_dim)."""
