"""What the loop asks of data and models, what it tells on the way, and how it ends."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class Data(Protocol):
    """Rows that become tensors when they are asked for."""

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """The rows with these numbers (a LongTensor on the CPU), by name; `"y"` is the target."""
        ...


class Trainable(Protocol):
    """What an `nn.Module` must offer to be trained.

    `generator` is the only source of randomness, and lives on the device of the batch. What draws from torch's global
    state instead, such as `nn.Dropout`, is not resumed to the bit.
    """

    @property
    def parts(self) -> dict[str, Tensor]:
        """Scalars behind the latest loss, by name, detached: for the log."""
        ...

    def loss(self, batch: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        """Scalar to minimise: a mean over the rows of the batch."""
        ...

    def validation(self, batch: dict[str, Tensor], generator: torch.Generator) -> tuple[Tensor, int]:
        """Sum of the negative log-likelihood over the entries of the batch, and the number of entries."""
        ...


@dataclass(frozen=True)
class Progress:
    """Where a run stands, after a step."""

    step: int
    """steps done"""
    steps: int
    """steps in all, if the run is not stopped early"""
    parts: dict[str, float]
    """parts of the loss at this step, and `"loss"` itself"""
    validation: float | None
    """latest validation score, lower is better; None before the first"""
    learning_rate: float
    """rate of this step"""


@dataclass(frozen=True)
class TrainResult:
    """How a run went; the weights are in the model."""

    steps: int
    """steps done"""
    best_score: float
    """validation score of the weights that were kept: negative log-likelihood per entry"""
    best_step: int
    """step after which they were found"""
    history: list[dict[str, Any]]
    """one dict per validation: step, parts, validation, learning_rate, seconds"""
    stopped_early: bool
    """whether patience ran out before the last step"""


class DivergedError(FloatingPointError):
    """A loss, gradient or weight is not finite, or the loss exploded."""


class Interrupted(KeyboardInterrupt):
    """Stopped by Ctrl-C. The message says how to go on."""
