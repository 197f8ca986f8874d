"""Softmax over the selected keys, and the weighted sum of their values. The key axis comes before the batch axis."""

import torch
from torch import Tensor


def masked_softmax(logits: Tensor, keep: Tensor | None = None, dim: int = -1) -> Tensor:
    """Softmax among the kept entries; exactly 0 elsewhere, and all 0 where nothing is kept."""
    if keep is None:
        return logits.softmax(dim)
    # The lowest finite number instead of -inf: a row with nothing kept has finite outputs and gradients.
    weights = logits.masked_fill(~keep, torch.finfo(logits.dtype).min).softmax(dim)
    return weights * keep


def weigh(weights: Tensor, values: Tensor) -> Tensor:
    """Sum over keys of weight times value: (n, k, ...), (d, k, ...) -> (n, d, ...)."""
    # A loop over the few keys: one product for all would write and read k times the memory of the result.
    weight_of_key = weights.unsqueeze(1).unbind(2)
    value_of_key = values.unbind(1)
    total = weight_of_key[0] * value_of_key[0]
    for weight, value in zip(weight_of_key[1:], value_of_key[1:], strict=True):
        total.addcmul_(weight, value)  # in place: the gradient needs weight and value, not the sum
    return total
