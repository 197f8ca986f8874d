"""Benchmark runs and records that take no time, shared by tests."""

import dataclasses
import math

from nsac.lab.grid.config import run_config
from nsac.lab.grid.store import Record, config_key
from nsac.lab.studies.base import StudyRecord


def a_record(seed=0, **changes):
    config = {"task": "boston", "steps": 3, "seed": seed}
    fields = dict(
        task="boston", protocol="paper", method="nsac", seed=seed, key=config_key(config), config=config, text="t",
        unit="u", rows={"test": 5}, metrics={"mse": 0.1 + seed, "nll": math.inf}, pit={"raw": [1, 2]}, bands=[],
        training=[], parameters=7, seconds={"fit_cpu": 1.5}, peak_memory=9.0, commit=None, versions={}, machine={},
        made="2024-01-01T00:00:00Z",
    )  # fmt: skip
    return Record(**(fields | changes))


def a_record_of(config):
    """A record of a configuration that was not run."""
    about = {name: getattr(config, name) for name in ("task", "protocol", "method", "seed", "key")}
    return a_record(**about, config=config.to_dict())


def tiny(task="spiral", protocol="paper", method="gmle", seed=0, steps=2, **more):
    """The configuration of a run with few training steps and draws."""
    config = run_config(task, protocol, method, seed)
    train = {**config.train, "max_steps": steps} if config.train else {}
    return dataclasses.replace(config, train=train, num_samples=3, **more)


def a_study_record(setting, metrics):
    """A record of a setting that was not run."""
    return StudyRecord(
        study=setting.study, seed=setting.seed, key=config_key(setting.config), config=setting.config, metrics=metrics,
        series={}, seconds={"cpu": 6.0, "wall": 9.0}, commit=None, versions={}, machine={}, made="2024-01-01T00:00:00Z",
    )  # fmt: skip


def pretended(config):
    """A record of a run that was not run; `nsac` has the lowest CRPS and the NLL is not finite."""
    facts = {name: getattr(config, name) for name in ("task", "protocol", "method", "seed", "key")}
    crps = {"nsac": 0.1, "gmle": 0.2}.get(config.method, 0.3) + 0.01 * config.seed
    return a_record(**facts, config=config.to_dict(), metrics={"mse": crps**2, "crps": crps, "nll": None})
