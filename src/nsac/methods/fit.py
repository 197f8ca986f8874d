"""Fit a method, whether it is trained or solved."""

from collections.abc import Callable
from pathlib import Path

from nsac.methods.base import AbstractMethod, AbstractSolved, AbstractTrainable
from nsac.training.config import TrainConfig
from nsac.training.contract import Data, Progress, TrainResult
from nsac.training.loop import train

LEARNER_SEED_STEP = 1000
"""Difference between the seeds of two learners of one method."""


def fit(
    method: AbstractMethod,
    train_data: Data,
    validation_data: Data,
    config: TrainConfig | None = None,
    *,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    report: Callable[[Progress], None] | None = None,
) -> list[TrainResult]:
    """Fit a method in place. A solved method takes one call; every learner of a trainable one has its own training run.

    Args:
        method: one of `METHODS`.
        train_data: training rows.
        validation_data: rows for the choice of weights and penalties.
        config: hyperparameters of training.
        seed: fixes data order and noise.
        checkpoint: folder for checkpoints; an interrupted run resumes from there.
        report: called after each step.

    Returns:
        One result per learner; empty for a solved method.
    """
    if not len(train_data) or not len(validation_data):
        raise ValueError(
            "`train_data` and `validation_data` must have at least one row. "
            f"Got {len(train_data)} and {len(validation_data)} instead."
        )
    if isinstance(method, AbstractSolved):
        method.solve(train_data, validation_data)
        return []
    assert isinstance(method, AbstractTrainable)
    method.prepare(train_data)
    results = []
    for i, learner in enumerate(method.learners()):
        folder = None if checkpoint is None else Path(checkpoint) / f"learner-{i}"
        results.append(
            train(
                learner, train_data, validation_data, config or TrainConfig(),
                seed=seed + LEARNER_SEED_STEP * i, checkpoint=folder, report=report,
            )
        )  # fmt: skip
    method.finish(train_data, validation_data)
    return results
