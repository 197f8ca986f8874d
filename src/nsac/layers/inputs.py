"""The inputs of a layer as one object."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Inputs:
    """A batch of sequences and its queries."""

    x: Tensor
    """tokens, (B, T, features)"""
    times: Tensor | None = None
    """observation times, (B, T) or (T,)"""
    mask: Tensor | None = None
    """(B, T), True = ignore"""
    query: Tensor | None = None
    """query tokens, (B, Q, features)"""
    query_times: Tensor | None = None
    """(B, Q) or (Q,)"""
    causal: bool = False
    """no query attends to a later token"""

    @property
    def hidden(self) -> Tensor:
        """The mask, (B, T); all False if none was given."""
        return self.x.new_zeros(self.x.shape[:2], dtype=torch.bool) if self.mask is None else self.mask

    @property
    def latest(self) -> Tensor | None:
        """Index of the last valid token of each row, (B,); None without a mask: the last token."""
        if self.mask is None:
            return None
        return (torch.arange(self.x.shape[1], device=self.x.device) * ~self.mask).amax(-1)


def take_rows(values: Mapping[str, Any], rows: Tensor) -> dict[str, Any]:
    """Some rows of every tensor of two or more axes, whose first is the batch; other values stay as they are."""
    return {n: v[rows] if isinstance(v, Tensor) and v.ndim > 1 else v for n, v in values.items()}
