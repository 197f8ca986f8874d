"""Interfaces of data and models, and the reports, results and errors of the training loop."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class Data(Protocol):
    """Rows that are converted to tensors batch by batch."""

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The rows with these indices (a LongTensor on the CPU), as named tensors; `"y"` is the target."""
        ...


class Trainable(Protocol):
    """The interface of an `nn.Module` that can be trained.

    `generator` must be the only source of randomness; it is on the device of the batch. Modules that use torch's global
    random state, such as `nn.Dropout`, do not resume bit for bit.
    """

    @property
    def parts(self) -> dict[str, Tensor]:
        """Named parts of the latest loss, detached, for the log."""
        ...

    def loss(self, batch: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        """Scalar to minimise: a mean over the rows of the batch."""
        ...

    def validation(self, batch: dict[str, Tensor], generator: torch.Generator) -> tuple[Tensor, int]:
        """Sum of the negative log-likelihood over the entries of the batch, and the number of entries."""
        ...


@dataclass(frozen=True)
class Progress:
    """Progress of a run after a step."""

    step: int
    """steps done"""
    steps: int
    """total number of steps, without early stopping"""
    parts: dict[str, float]
    """parts of the loss at this step, and `"loss"` itself"""
    validation: float | None
    """latest validation score, lower is better; None before the first"""
    learning_rate: float
    """learning rate of this step"""


@dataclass(frozen=True)
class TrainResult:
    """Result of a run; the weights are in the model."""

    steps: int
    """steps done"""
    best_score: float
    """validation score of the weights that were kept: negative log-likelihood per entry"""
    best_step: int
    """step after which these weights were validated"""
    history: list[dict[str, Any]]
    """one dict per validation: step, parts, validation, learning_rate, seconds"""
    stopped_early: bool
    """whether patience ran out before the last step"""


class DivergedError(FloatingPointError):
    """A loss, gradient or weight is not finite, or the loss is far above its median."""


class Interrupted(KeyboardInterrupt):
    """Stopped by Ctrl-C. The message explains how to resume."""
