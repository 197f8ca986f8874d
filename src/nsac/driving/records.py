"""Records of what happened on the road: one JSON file per pilot and test, whole or not there."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from nsac.bench.config import NEURAL, RunConfig
from nsac.bench.store import AbstractStore, commit, config_key, finite, machine, versions

RESULTS = Path("results/driving")
"""Where records are, unless another folder is named."""


@dataclass(frozen=True)
class DriveRecord:
    """What came out of one test of one pilot, and how to get it again."""

    task: str
    """`"carracing"` or `"udacity"`"""
    test: str
    """`"trials"`: closed loop; `"mountain"`: another road"""
    method: str
    seed: int
    """of the run that made the pilot"""
    key: str
    """hash of the config"""
    config: dict[str, Any]
    """numbers of the test, under `"test"`, and of the run that made the pilot, under `"run"`"""
    measures: dict[str, float | None]
    details: dict[str, Any]
    """lap by lap"""
    seconds: float
    """of CPU"""
    commit: str | None
    versions: dict[str, str]
    machine: dict[str, Any]
    made: str
    """when, UTC"""

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        return f"{self.task}_{self.test}_{self.method}_{self.seed}_{self.key}"


def make_record(
    run: RunConfig, test: str, numbers: dict[str, Any], measures: dict[str, float | None], details: dict[str, Any],
    seconds: float,
) -> DriveRecord:  # fmt: skip
    """A record of now and here."""
    config = plain({"test": numbers, "run": run.to_dict()})
    return DriveRecord(
        run.task, test, run.method, run.seed, config_key(config), config, plain(measures), plain(details), seconds,
        commit(), versions(), machine(), datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def record_name(run: RunConfig, test: str, numbers: dict[str, Any]) -> str:
    """Of the record of a test."""
    key = config_key(plain({"test": numbers, "run": run.to_dict()}))
    return f"{run.task}_{test}_{run.method}_{run.seed}_{key}"


class DriveStore(AbstractStore[DriveRecord]):
    """Records of the road."""

    kind, format, command = DriveRecord, "nsac-drive", "nsac drive test"

    def __init__(self, folder: str | Path = RESULTS):
        super().__init__(folder)

    def of(self, test: str) -> list[DriveRecord]:
        """Records of one test."""
        return [record for record in self.records() if record.test == test]


def table_rows(records: Iterable[DriveRecord]) -> list[dict[str, Any]]:
    """One row per task, test, method and measure: mean and deviation over seeds, and their number."""
    collected: dict[tuple[str, str, str], list[DriveRecord]] = {}
    for record in records:
        collected.setdefault((record.task, record.test, record.method), []).append(record)
    rows = []
    for (task, test, method), some in sorted(collected.items(), key=lambda item: _place(*item[0])):
        for metric in dict.fromkeys(name for record in some for name in record.measures):
            values = [v for v in (record.measures.get(metric) for record in some) if v is not None]
            about = {"task": task, "test": test, "method": method, "metric": metric, "n": len(some)}
            mean = float(np.mean(values)) if values else None
            rows.append({**about, "mean": mean, "std": float(np.std(values, ddof=1)) if len(values) > 1 else None})
    return rows


def _place(task: str, test: str, method: str) -> tuple:
    return task, test, NEURAL.index(method) if method in NEURAL else len(NEURAL), method


def plain(value: Any) -> Any:
    """As JSON gives it back: lists for tuples, None for what is not finite."""
    return json.loads(json.dumps(finite(value)))
