"""The interface of uncertainty methods, their registry, and `fit`."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from nsac._checks import check_choice, check_finite, check_int, check_known, check_shape
from nsac._torch import plain_autograd
from nsac.layers import Draws
from nsac.methods.problem import AbstractProblem, Kind
from nsac.models.encoder import Batch
from nsac.training import Data, TrainConfig, TrainResult, train
from nsac.training.data import check_rows
from nsac.training.progress import Report
from nsac.uncertainty import Prediction

LEARNER_SEED_STEP = 1000  # difference between the seeds of two learners of one method


class AbstractMethod(nn.Module, ABC):
    """An uncertainty method. Parameters and buffers are its whole state."""

    name: ClassVar[str]  # its name in the registry
    has_epistemic: ClassVar[bool] = True  # whether its epistemic variance can differ from 0
    kinds: ClassVar[tuple[Kind, ...]] = ("table", "series", "windows", "frames", "events")  # kinds of data it supports

    def __init__(self, problem: AbstractProblem):
        super().__init__()
        check_choice(f"kind for method {self.name!r}", problem.kind, self.kinds)
        self.problem = problem

    @abstractmethod
    def draws(self, batch: Batch, num_samples: int, generator: torch.Generator | None) -> Draws:
        """Gaussian predictions, (N, B, ...); N is `num_samples`, or fixed by the method.

        All rows share the noise of a draw, so the prediction of a row does not depend on the other rows.
        """

    def target(self, batch: Batch) -> Tensor:
        """The batch's `y`, with the outputs as its last axis; finite, or NaN if targets may be missing."""
        y, rows, output_dim = batch["y"], len(batch["x"]), self.problem.output_dim
        shape = (rows, -1, output_dim) if self.problem.has_query_axis else (rows, output_dim)
        check_shape("y", y, "(rows, [queries,] outputs)", shape, hint=" For one output add an axis: `y[:, None]`.")
        if self.problem.missing_targets:
            check_known("y", y, missing=True)
        elif not torch.compiler.is_compiling():
            check_finite("y", y)
        return y

    @torch.no_grad()
    def predict(self, batch: Batch, num_samples: int = 20, generator: torch.Generator | None = None) -> Prediction:
        """The mixture of the draws. Without a generator the noise is the same in every call."""
        check_int("num_samples", num_samples)
        generator = generator or torch.Generator(batch["x"].device).manual_seed(0)
        return Prediction(*self.draws(batch, num_samples, generator))

    def validation(self, batch: Batch, generator: torch.Generator | None = None) -> tuple[Tensor, int]:
        """Sum of the negative log-likelihood over the targets of a batch, and their number."""
        y = self.target(batch)
        each = -self.predict(batch, 10, generator).log_prob(y)
        if not self.problem.missing_targets:
            return each.sum(), y.numel()
        known = ~y.isnan()
        return each[known].sum(), int(known.sum())


class AbstractTrainable(AbstractMethod):
    """A method that is trained by gradient descent."""

    parts: dict[str, Tensor] = {}  # named parts of the latest loss, detached; replaced by every loss

    @abstractmethod
    def loss(self, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Scalar to minimise."""

    def prepare(self, train: Data) -> None:
        """Called once before training with the training rows; does nothing by default."""

    def finish(self, train: Data, validation: Data) -> None:
        """Called once after training, for calibration; does nothing by default."""

    def learners(self) -> list["AbstractTrainable"]:
        """The modules to train, each in a run of its own: the method itself, or the members of an ensemble."""
        return [self]


class AbstractSolved(AbstractMethod):
    """A method that is computed from the data without gradient descent, and has no epistemic variance."""

    has_epistemic = False

    @abstractmethod
    def solve(self, train: Data, validation: Data) -> None:
        """Compute the buffers from the data."""


M = TypeVar("M", bound=AbstractMethod)

METHODS: dict[str, type[AbstractMethod]] = {}
"""Name to class: `METHODS["nsac"](problem, seed=0)`."""


def method(name: str) -> Callable[[type[M]], type[M]]:
    """Register a class under a name that is not in use."""

    def register(cls: type[M]) -> type[M]:
        if name in METHODS:
            raise ValueError(f"`name` must not be in use. Got {name!r} instead, which is {METHODS[name].__name__}.")
        cls.name = name
        METHODS[name] = cls
        return cls

    return register


@plain_autograd()
def fit(
    method: AbstractMethod,
    train_data: Data,
    validation_data: Data,
    config: TrainConfig | None = None,
    *,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    report: Report | None = None,
) -> list[TrainResult]:
    """Fit a method in place. A solved method takes one call; every learner of a trainable one has its own training run.

    The other arguments are those of `nsac.training.train`; a solved method does not use them. Returns one result per
    learner, and none for a solved method.
    """
    check_rows(train_data, validation_data)
    if isinstance(method, AbstractSolved):
        method.solve(train_data, validation_data)
        return []
    assert isinstance(method, AbstractTrainable)
    method.prepare(train_data)
    results, config = [], config or TrainConfig()
    for i, learner in enumerate(method.learners()):
        own, folder = seed + LEARNER_SEED_STEP * i, None if checkpoint is None else Path(checkpoint) / f"learner-{i}"
        run = train(learner, train_data, validation_data, config, seed=own, checkpoint=folder, report=report)
        results.append(run)
    method.finish(train_data, validation_data)
    return results
