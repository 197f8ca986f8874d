"""Times of tokens and of queries, relative to the first valid token of a window."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nsac.layers.clock import POSITION_SCALE, TimeMode, first_valid, time_features


@dataclass(frozen=True)
class Times:
    """Times of the tokens or of the queries of a batch."""

    features: Tensor | None
    """(B, T, F), Fourier features; None in a layer without times"""
    clock: Tensor | None
    """(B, T), input of the internal clock; None: no times were given"""
    order: Tensor | None
    """(B, T) or (T,), positions that `causal` compares"""

    def take(self, index: Tensor | None) -> "Times":
        """The times of one token per row, (B, 1): that of `index`, (B,), or the last."""
        order = (
            self.order if self.order is not None and self.order.ndim == 2 else None
        )  # without times no token is later
        return Times(last_token(self.features, index), last_token(self.clock, index), last_token(order, index))


@dataclass(frozen=True)
class TimeReference:
    """Turns raw times into `Times`. The result is invariant to shifts of all times and does not depend on later tokens.

    Args:
        mode: `"elapsed"`, `"absolute"` or `"none"`.
        time_scale: the layer's characteristic time scale.
    """

    mode: TimeMode
    time_scale: float

    def encode(
        self, x: Tensor, times: Tensor | None, mask: Tensor | None, query_times: Tensor | None
    ) -> tuple[Times, Times]:
        """Times of the tokens `x`, (B, T, ...), and of the queries (all None if there are no `query_times`)."""
        batch, n_keys = x.shape[:2]
        order = torch.arange(n_keys, device=x.device) if times is None else times.expand(batch, -1)
        if self.mode == "none":
            return Times(None, None, order), Times(None, None, query_times)
        wide = torch.promote_types(x.dtype, torch.float32)  # half precision cannot represent every position
        raw = torch.arange(n_keys, device=x.device, dtype=wide) if times is None else times
        raw = raw.expand(batch, n_keys)
        first = first_valid(raw, mask)
        scale = POSITION_SCALE if times is None else self.time_scale
        raw = raw if mask is None else torch.where(mask, first, raw)
        tokens = Times(
            _features(raw, first, scale, x.dtype),
            None if times is None else self._clock(raw, first, scale, x.dtype),
            order,
        )
        if query_times is None:
            return tokens, Times(None, None, None)
        raw = query_times.expand(batch, -1)
        queries = Times(_features(raw, first, scale, x.dtype), self._clock(raw, first, scale, x.dtype), query_times)
        return tokens, queries

    def _clock(self, raw: Tensor, first: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
        return ((raw - first if self.mode == "elapsed" else raw) / scale).to(dtype)


def last_token(z: Tensor | None, index: Tensor | None) -> Tensor | None:
    """One token per row, (B, T, ...) -> (B, 1, ...): that of `index`, (B,), or the last."""
    if z is None or index is None:
        return None if z is None else z[:, -1:]
    return z.gather(1, index.view(-1, *(1,) * (z.ndim - 1)).expand(-1, 1, *z.shape[2:]))


def _features(raw: Tensor, first: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    return time_features((raw - first) / scale).to(dtype)
