"""Training a driving policy: a run of the benchmark whose fitted method is saved."""

import os
from collections.abc import Callable
from pathlib import Path

from nsac.lab.driving.policy import DrivingPolicy, load_policy
from nsac.lab.grid.config import run_config
from nsac.lab.grid.run import run_fitted
from nsac.lab.grid.store import RESULTS, Record, Store
from nsac.training import Progress


def train_policy(
    task: str,
    method: str,
    seed: int,
    folder: str | os.PathLike,
    results: str | os.PathLike = RESULTS,
    report: Callable[[Progress], None] | None = None,
) -> tuple[DrivingPolicy, Record]:
    """Train a policy and save it, with the record of its scores on held-out frames.

    A policy and a record with the same configuration are read, not made again.

    Args:
        task: `"carracing"` or `"udacity"`.
        method: a row of the task's configuration.
        seed: of the run.
        folder: for the policy.
        results: folder of the benchmark's records.
        report: called after each training step.
    """
    config, store = run_config(task, "sound", method, seed), Store(Path(results))
    if Path(folder).is_dir() and config.name in store:
        policy = load_policy(folder, task)
        if policy.config == config:
            return policy, store.read(config.name)
    outcome = run_fitted(config, report)
    policy = DrivingPolicy.of(outcome.method, outcome.task, config, outcome.calibration)
    policy.save(folder)
    store.write(outcome.record)
    return policy, outcome.record
