"""What can be scored and calibrated: a NaN, a zero variance or a silent broadcast must never improve a score."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nsac._checks import check_shape, refuse_where


def check_probability(name: str, value: float, hint: str = "For 90 % pass 0.9.") -> None:
    """`value` is a probability strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"`{name}` must be strictly between 0 and 1. Got {value} instead. {hint}")


def probabilities(name: str, values: float | Sequence[float]) -> list[float]:
    """One or several probabilities as a list, each strictly between 0 and 1."""
    several = torch.atleast_1d(torch.as_tensor(values, dtype=torch.float64)).tolist()
    for each in several:
        check_probability(name, each)
    return several


def check_values(name: str, value: Tensor, shape: torch.Size | None = None, like: str = "") -> None:
    """`value` is a tensor, not empty, finite, and of the given shape."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a tensor. Got {type(value).__name__} instead. Pass `torch.as_tensor(...)`.")
    if shape is not None:
        hint = " Nothing is broadcast: reshape it first."
        check_shape(name.strip("`"), value, f"as {like}", tuple(shape), hint=hint)
    if not value.numel():
        raise ValueError(
            f"{name} must have at least one entry. Got shape {tuple(value.shape)} instead. Pass some rows."
        )
    refuse_where(~torch.isfinite(value), name, value, "be finite", "Drop or fill these entries first.")


def check_std(name: str, std: Tensor) -> None:
    """`std` is finite and above 0 everywhere."""
    bad = ~(torch.isfinite(std) & (std > 0))
    refuse_where(bad, name, std, "be finite and above 0", "Check the training, or clamp it from below.")


def check_columns(name: str, fitted: torch.Size, shape: torch.Size) -> None:
    """A prediction of shape (rows, *columns) has the columns of the fit."""
    if shape[1:] != fitted or not len(shape):
        raise ValueError(
            f"`prediction` must have shape (rows, *{tuple(fitted)}), the columns this {name} was fitted on. "
            f"Got {tuple(shape)} instead. Fit another one for these outputs."
        )
