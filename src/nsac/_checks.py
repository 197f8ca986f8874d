"""Checks of user input. Public functions and classes call them; internal code trusts the shapes."""

import math
import warnings
from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor


def check_int(name: str, value: object, minimum: int = 1) -> None:
    """`value` is a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"`{name}` must be a whole number of at least {minimum}. Got {value!r} instead.")


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """`value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}. Got {value!r} instead.")


def check_positive(name: str, value: float) -> None:
    """`value` is a finite number above 0."""
    if not 0 < value < float("inf"):
        raise ValueError(f"`{name}` must be a finite number above 0. Got {value!r} instead.")


def check_heads(d_model: int, num_heads: int) -> None:
    """`d_model` splits evenly into heads."""
    if d_model % num_heads:
        raise ValueError(
            f"`d_model` must be divisible by `num_heads`. Got d_model={d_model} and num_heads={num_heads} instead. "
            f"Take d_model={num_heads * max(1, round(d_model / num_heads))}, or another number of heads."
        )


def check_shape(name: str, value: Tensor, axes: str, *shapes: tuple[int, ...], hint: str = "") -> None:
    """`value` has one of `shapes`; -1 matches any length. `axes` names the axes in the message."""
    for shape in shapes:
        if value.ndim == len(shape) and all(n in (-1, m) for n, m in zip(shape, value.shape, strict=True)):
            return
    allowed = " or ".join(str(tuple("?" if n == -1 else n for n in shape)).replace("'", "") for shape in shapes)
    raise ValueError(f"`{name}` must have shape {allowed}, {axes}. Got {tuple(value.shape)} instead.{hint}")


def check_finite(name: str, value: Tensor, mask: Tensor | None = None) -> None:
    """`value` is finite where `mask` (True = ignore) is False; the message names the first other index."""
    if math.isfinite(value.detach().sum()):
        return  # a sum is finite only if every term is: one pass in the common case
    bad = ~torch.isfinite(value)
    if mask is not None:
        bad = bad & ~mask.view(*mask.shape, *(1,) * (value.ndim - mask.ndim))
    if bad.any():
        index = tuple(bad.nonzero()[0].tolist())
        raise ValueError(
            f"`{name}` must be finite where it is not masked. Got {value[index].item()} at index {index} "
            f"({int(bad.sum())} such values) instead. Pass `mask` with True at missing observations, or clean the data."
        )


def check_dtype(name: str, value: Tensor, dtype: torch.dtype) -> None:
    """`value` has the model's precision, unless autocast converts it."""
    if value.dtype != dtype and not torch.is_autocast_enabled(value.device.type):
        raise ValueError(
            f"`{name}` must have the precision of the model, {dtype}. Got {value.dtype} instead. "
            f"Call `{name}.to({dtype})`, or convert the model with `.to({value.dtype})`."
        )


def check_known(name: str, value: Tensor, missing: bool) -> None:
    """`value` has no infinity, and no NaN unless values may be missing."""
    if torch.compiler.is_compiling() or math.isfinite(value.detach().sum()):
        return
    bad = ~torch.isfinite(value) if not missing else torch.isinf(value)
    if bad.any():
        index = tuple(bad.nonzero()[0].tolist())
        raise ValueError(
            f"`{name}` must be finite{', or NaN where it is missing' if missing else ''}. Got {value[index].item()} at "
            f"index {index} instead.{'' if missing else ' For data with missing values pass missing=True.'}"
        )


def check_sequence(
    x: Tensor,
    times: Tensor | None,
    mask: Tensor | None,
    query: Tensor | None,
    query_times: Tensor | None,
    causal: bool,
    *,
    input_dim: int,
    query_dim: int | None,
    takes_times: bool,
) -> None:
    """Shapes, types and values of one batch of sequences for an attention layer."""
    check_shape("x", x, "(batch, time, features)", (-1, -1, input_dim), hint=_feature_hint(x, input_dim))
    batch, length = x.shape[:2]
    if not x.is_floating_point():
        raise ValueError(f"`x` must have a floating point type. Got {x.dtype} instead. Call `x.float()` first.")
    if batch == 0 or length == 0:
        raise ValueError(
            f"`x` must have at least one row and at least one time step. Got shape {tuple(x.shape)} instead. "
            "For a row without observations pass one step and mask it."
        )
    if mask is not None:
        check_shape("mask", mask, "(batch, time)", (batch, length))
        if mask.dtype != torch.bool:
            raise ValueError(f"`mask` must be boolean, True = ignore. Got {mask.dtype} instead. Call `mask.bool()`.")
    if not takes_times and (times is not None or query_times is not None):
        raise ValueError("`times` must be None in a layer built with time='none'. Build it with time='elapsed'.")
    if times is not None:
        check_shape("times", times, "(batch, time) or (time,)", (batch, length), (length,))
    if (query is not None or query_times is not None) and query_dim is None:
        raise ValueError(
            "`query` and `query_times` must be None in a layer with learned queries. Build it with readout='last'."
        )
    queries = query if query is not None else query_times
    if queries is not None and 0 in queries.shape:
        raise ValueError(
            f"`query` and `query_times` must have at least one query. Got shape {tuple(queries.shape)} instead."
        )
    if query is not None:
        check_shape("query", query, "(batch, queries, features)", (batch, -1, query_dim or 0))
    if query_times is not None:
        n_queries = -1 if query is None else query.shape[1]
        axes = "(batch, queries) or (queries,)"
        check_shape("query_times", query_times, axes, (batch, n_queries), (n_queries,))
        if times is None:
            raise ValueError(
                "`times` must be given with `query_times`. Got None instead. Pass the observation times of `x`."
            )
    if causal and query_dim is None:
        raise ValueError("`causal` must be False in a layer with learned queries: they have no time.")
    if causal and query is not None and query_times is None:
        if not takes_times:
            raise ValueError("`causal` must be False for queries to a layer built with time='none': it has no order.")
        raise ValueError("`query_times` must be given with `query` and causal=True. Got None instead.")
    if torch.compiler.is_compiling():
        return  # the checks below depend on values
    check_finite("x", x, mask)
    if times is not None:
        check_finite("times", times, mask if times.ndim == 2 else None)
    for name, value in (("query", query), ("query_times", query_times)):
        if value is not None:
            check_finite(name, value)


def warn_single_key(n_keys: int, topk: int, mask: Tensor | None) -> None:
    """Warn if a query has one key: the softmax over one logit is 1, so its noise has no effect."""
    if torch.compiler.is_compiling():
        return
    if n_keys == 1 or topk == 1 or (mask is not None and bool(((~mask).sum(-1) == 1).any())):
        warnings.warn(
            "A query with a single key gives it weight 1 whatever the logit, so the epistemic variance is 0 by "
            "construction. Pass more than one token (and topk > 1), for instance one per feature.",
            stacklevel=4,
        )


def _feature_hint(x: Tensor, input_dim: int) -> str:
    if x.ndim == 2 and x.shape[-1] == input_dim:
        return " A table has no time axis: use `x[:, None]` for one token a row, or a token per feature."
    return " Pass as many features as `input_dim`, or build the layer with another `input_dim`." if x.ndim == 3 else ""
