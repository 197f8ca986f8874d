"""Checks of user input. Public functions and classes call them; internal code trusts the shapes."""

import math
import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

FILE_ROWS = "row below the header"
"""Name of the index of a frame that was read from a file; its labels count the rows from 1."""
MAX_ROUNDING_OF_SCALE, MAX_ROUNDING_OF_GAP = 1e-3, 0.02
"""Coarsest accepted resolution of observation times, in units of `time_scale` and of the mean gap between them."""


def check_int(name: str, value: object, minimum: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"`{name}` must be a whole number of at least {minimum}. Got {value!r} instead.")


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}. Got {value!r} instead.")


def check_positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"`{name}` must be a finite number above 0. Got {value!r} instead.")


def check_heads(d_model: int, num_heads: int) -> None:
    if d_model % num_heads:
        raise ValueError(
            f"`d_model` must be divisible by `num_heads`. Got d_model={d_model} and num_heads={num_heads} instead. "
            f"Take d_model={num_heads * max(1, round(d_model / num_heads))}, or another number of heads."
        )


def check_tensor(name: str, value: object) -> None:
    """`value` is None or a tensor."""
    if value is not None and not isinstance(value, Tensor):
        kind = type(value).__name__ if not type(value).__module__.startswith("numpy") else "numpy.ndarray"
        convert = "from_numpy" if kind == "numpy.ndarray" else "as_tensor"
        raise TypeError(f"`{name}` must be a torch tensor. Got {kind} instead. Call `torch.{convert}({name})`.")


def check_shape(name: str, value: Tensor, axes: str, *shapes: tuple[int, ...], hint: str = "") -> None:
    """`value` has one of `shapes`; -1 matches any length. `axes` names the axes in the message."""
    for shape in shapes:
        if value.ndim == len(shape) and all(n in (-1, m) for n, m in zip(shape, value.shape, strict=True)):
            return
    allowed = " or ".join(str(tuple("?" if n == -1 else n for n in shape)).replace("'", "") for shape in shapes)
    raise ValueError(f"`{name}` must have shape {allowed}, {axes}. Got {tuple(value.shape)} instead.{hint}")


def refuse_where(bad: Tensor, name: str, value: Tensor, rule: str, hint: str) -> None:
    """Raise an error that names the first entry of `value` that is `bad`, its index and how many there are."""
    if bad.any():
        place = tuple(bad.nonzero()[0].tolist())
        got = f"{value[place].item()} at index {place} ({int(bad.sum())} such values)"
        raise ValueError(f"{name} must {rule}. Got {got} instead. {hint}")


def check_finite(name: str, value: Tensor | None, mask: Tensor | None = None) -> None:
    """`value` is None, or finite wherever `mask` (True = ignore) does not cover it."""
    if value is None or math.isfinite(value.detach().sum()):
        return  # a sum is finite only if every term is: one pass in the common case
    bad = ~torch.isfinite(value)
    if mask is not None:
        bad = bad & ~mask.view(*mask.shape, *(1,) * (value.ndim - mask.ndim))
    hint = "Pass `mask` with True at missing observations, or clean the data."
    refuse_where(bad, f"`{name}`", value, "be finite where it is not masked", hint)


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
    if missing:
        bad, rule, hint = torch.isinf(value), "be finite, or NaN where a value is missing", "Clean the data."
    else:
        hint = "For data with missing values build the problem with missing=True."
        bad, rule = ~torch.isfinite(value), "be finite"
    refuse_where(bad, f"`{name}`", value, rule, hint)


def check_probability(name: str, value: float, hint: str = "For 90 % pass 0.9.") -> None:
    if not 0 < value < 1:
        raise ValueError(f"`{name}` must be strictly between 0 and 1. Got {value} instead. {hint}")


def probabilities(name: str, values: float | Sequence[float]) -> list[float]:
    """One or several probabilities as a list, each strictly between 0 and 1."""
    try:
        several = torch.atleast_1d(torch.as_tensor(values, dtype=torch.float64)).tolist()
    except (TypeError, ValueError, RuntimeError):
        rule = "must be a number strictly between 0 and 1, or a list of them"
        raise ValueError(f"`{name}` {rule}. Got {values!r} instead. For 90 % pass 0.9.") from None
    for each in several:
        check_probability(name, each)
    return several


def check_values(name: str, value: Tensor, shape: torch.Size | None = None, like: str = "") -> None:
    """`value` is a tensor, not empty, finite, and of the given shape: what can be scored."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a tensor. Got {type(value).__name__} instead. Pass `torch.as_tensor(...)`.")
    if shape is not None:
        check_shape(name.strip("`"), value, f"as {like}", shape, hint=" Nothing is broadcast: reshape it first.")
    if not value.numel():
        raise ValueError(
            f"{name} must have at least one entry. Got shape {tuple(value.shape)} instead. Pass some rows."
        )
    refuse_where(~torch.isfinite(value), name, value, "be finite", "Drop or fill these entries first.")


def check_std(name: str, std: Tensor) -> None:
    bad = ~(torch.isfinite(std) & (std > 0))
    refuse_where(bad, name, std, "be finite and above 0", "Check the training, or clamp it from below.")


def check_columns(name: str, fitted: torch.Size, shape: torch.Size) -> None:
    """A prediction of shape (rows, *columns) has the columns of the fit."""
    if shape[1:] != fitted or not len(shape):
        raise ValueError(
            f"`prediction` must have shape (rows, *{tuple(fitted)}), the columns this {name} was fitted on. "
            f"Got {tuple(shape)} instead. Fit another one for these outputs."
        )


def check_resolution(name: str, times: Tensor, limit: float) -> None:
    """The type of the times, integers as float64, represents them, or rounds them to steps of at most `limit`."""
    largest = times.abs().max().item() if times.numel() else 0.0
    eps = torch.finfo(times.dtype if times.is_floating_point() else torch.float64).eps
    step = math.ldexp(eps, math.frexp(largest)[1] - 1)  # between two neighbouring numbers of this type
    if step <= limit:
        return
    if times.is_floating_point():
        rounded = times.double() % (4 * step) != 0  # if none of them uses the last two bits, none was rounded
    else:
        rounded = times.double().to(times.dtype) != times
    if rounded.any():
        raise ValueError(
            f"`{name}` must distinguish times that are {limit:.3g} apart: more would not be small against `time_scale` "
            f"and the mean gap between times. Got {times.dtype} up to {largest:.6g} instead, which is rounded to "
            f"multiples of {step:.3g}. Pass float64 times, or subtract the first time before you convert them."
        )


def mean_gap(times: Tensor, hidden: Tensor) -> float:
    """Largest mean gap between the times of a row that are not hidden; 0 if no row has two."""
    low = times.double().masked_fill(hidden, math.inf).amin(-1)
    high = times.double().masked_fill(hidden, -math.inf).amax(-1)
    gaps = (high - low) / ((~hidden).sum(-1) - 1)
    return gaps.nan_to_num(0.0, 0.0, 0.0).max().item()


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
    time_scale: float | None,
) -> None:
    """Shapes, types and values of one batch for an attention layer; one without a time scale takes no times."""
    tensors = {"x": x, "times": times, "mask": mask, "query": query, "query_times": query_times}
    for name, value in tensors.items():
        check_tensor(name, value)
    takes_times, hint = time_scale is not None, ""
    if x.ndim == 3:
        hint = " Pass as many features as `input_dim`, or build the layer with another `input_dim`."
    elif x.ndim == 2 and x.shape[-1] == input_dim:
        hint = " A table has no time axis: use `x[:, None]` for one token a row, or a token per feature."
    check_shape("x", x, "(batch, time, features)", (-1, -1, input_dim), hint=hint)
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
        check_shape("query_times", query_times, "(batch, queries) or (queries,)", (batch, n_queries), (n_queries,))
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
    check_finite("times", times, mask if times is not None and times.ndim == 2 else None)
    check_finite("query", query)
    check_finite("query_times", query_times)
    if times is not None and time_scale is not None:
        hidden = torch.zeros_like(times, dtype=torch.bool) if mask is None or times.ndim == 1 else mask
        limit = MAX_ROUNDING_OF_SCALE * time_scale
        gap = mean_gap(times.detach(), hidden)
        if gap > 0:
            limit = min(limit, MAX_ROUNDING_OF_GAP * gap)
        check_resolution("times", times.detach()[~hidden], limit)
        if query_times is not None:
            check_resolution("query_times", query_times.detach(), limit)


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


def is_file(table: object) -> bool:
    """Whether a frame or one of its columns was read from a file by the command line."""
    return getattr(getattr(table, "index", None), "name", None) == FILE_ROWS


def row_name(table: Any, row: int) -> str:
    """How a message names a row: by its position, counted from 0, or by its number in the file."""
    return f"row {table.index[row]} below the header" if is_file(table) else f"row {row}"
