"""Fit a method, whatever kind it is."""

from collections.abc import Callable
from pathlib import Path

from nsac.methods.base import AbstractMethod, AbstractSolved, AbstractTrainable
from nsac.training.config import TrainConfig
from nsac.training.contract import Data, Progress, TrainResult
from nsac.training.loop import train

APART = 1000
"""Seeds of the learners of one method differ by this much."""


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
    """Fit in place: solve what can be solved, train what must learn, each learner by a run of its own.

    Args:
        method: one of `METHODS`.
        train_data: rows to fit.
        validation_data: rows that choose weights and penalties.
        config: numbers of the run.
        seed: fixes data order and noise.
        checkpoint: folder for checkpoints; a run that was stopped goes on from there.
        report: called after each step.

    Returns:
        One result per learner; none for a method that is solved.
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
                seed=seed + APART * i, checkpoint=folder, report=report,
            )
        )  # fmt: skip
    method.finish(train_data, validation_data)
    return results
