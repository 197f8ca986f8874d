"""Records of what happened on the road: one JSON file per pilot and test, whole or not there."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from nsac.bench.config import NEURAL, RunConfig
from nsac.bench.store import RecordError, commit, config_key, finite, machine, versions
from nsac.training.disk import write_whole

FORMAT, VERSION = "nsac-drive", 1
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


def record_file(folder: str | os.PathLike, run: RunConfig, test: str, numbers: dict[str, Any]) -> Path:
    """Where the record of a test is or would be."""
    key = config_key(plain({"test": numbers, "run": run.to_dict()}))
    return Path(folder) / f"{run.task}_{test}_{run.method}_{run.seed}_{key}.json"


def write_record(folder: str | os.PathLike, record: DriveRecord) -> Path:
    """Keep a record, whole or not at all."""
    facts = {"format": FORMAT, "version": VERSION, **asdict(record)}
    facts["sha256"] = _digest(facts)
    path = Path(folder) / f"{record.name}.json"
    write_whole(path, (json.dumps(facts, sort_keys=True, allow_nan=False) + "\n").encode())
    return path


def read_record(path: str | os.PathLike) -> DriveRecord:
    """One record, if it is whole and of a version that is known; otherwise `RecordError`."""
    try:
        facts = json.loads(Path(path).read_bytes())
        told = facts.pop("sha256")
        if told != _digest(facts):
            raise ValueError("its content does not match its checksum")
        if (facts.pop("format"), facts.pop("version")) != (FORMAT, VERSION):
            raise ValueError("it has another format or version")
        if set(facts) != {field.name for field in fields(DriveRecord)}:
            raise ValueError("it does not have the fields of a record")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise RecordError(
            f"Record {path} cannot be used: {err}. Delete it, and the same command makes it again."
        ) from None
    return DriveRecord(**facts)


def read_records(folder: str | os.PathLike = RESULTS, test: str | None = None) -> Iterator[DriveRecord]:
    """All records of a folder, or those of one test, in order of names."""
    for path in sorted(Path(folder).glob("*.json")):
        record = read_record(path)
        if test in (None, record.test):
            yield record


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


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
