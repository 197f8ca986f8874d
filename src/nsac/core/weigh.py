"""Softmax over the selected keys, and the weighted sum of their values. Keys come before the batch."""

import torch
from torch import Tensor


def masked_softmax(logits: Tensor, keep: Tensor | None = None, dim: int = -1) -> Tensor:
    """Softmax among the kept entries; exactly 0 elsewhere, and all 0 where nothing is kept."""
    if keep is None:
        return logits.softmax(dim)
    # The lowest finite number instead of -inf: a row with nothing kept stays finite, forward and backward.
    weights = logits.masked_fill(~keep, torch.finfo(logits.dtype).min).softmax(dim)
    return weights * keep


def weigh(weights: Tensor, values: Tensor) -> Tensor:
    """Sum over keys of weight times value: (n, k, ...), (d, k, ...) -> (n, d, ...)."""
    # A loop over the few keys: one product for all would write k times the memory of the result, and read it again.
    (weight, value), *others = zip(weights.unsqueeze(1).unbind(2), values.unbind(1), strict=True)
    total = weight * value
    for weight, value in others:
        total.addcmul_(weight, value)  # in place: the gradient needs weight and value, never the sum
    return total
