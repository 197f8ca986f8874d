"""Run records: one JSON file per run, whole or not there; what is there is not run again."""

import contextlib
import hashlib
import json
import math
import os
import platform
import subprocess
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from nsac._io import sync_folder, write_flushed

if TYPE_CHECKING:
    from pandas import DataFrame

VERSION = 1
RESULTS = Path("results/bench")
"""Where records are, unless another folder is named."""

RESULT = ("metrics", "bands", "pit", "parameters", "rows", "training")
"""Fields that follow from the config alone; the others tell when, where and how fast."""


class RecordError(ValueError):
    """A record that cannot be used. The message says what to do."""


@dataclass(frozen=True, kw_only=True)
class AbstractRecord(ABC):
    """What came out of something that was run, in plain values, and how to get it again."""

    key: str
    """hash of the config"""
    config: dict[str, Any]
    """every number it depends on"""
    commit: str | None
    """of the code, with `+` if it was changed since; None outside of a repository"""
    versions: dict[str, str]
    machine: dict[str, Any]
    made: str
    """when, UTC"""

    @property
    @abstractmethod
    def name(self) -> str:
        """Of its file, without the ending."""


@dataclass(frozen=True, kw_only=True)
class Record(AbstractRecord):
    """What came out of one run of the grid."""

    task: str
    protocol: str
    method: str
    seed: int
    text: str
    """what the task is"""
    unit: str
    """of the scores"""
    rows: dict[str, int]
    """rows of each part"""
    metrics: dict[str, float | None]
    """test scores; None where one is not finite"""
    pit: dict[str, list[int]]
    """histograms of F(y) over all test entries, `raw` and `calibrated`, even bins from 0 to 1"""
    bands: list[dict[str, Any]]
    """a few test rows per panel: `at`, `y`, `mean`, `std`, `epistemic` (a deviation), `half_90` (conformal); `ordered`:
    whether their order is one of time"""
    training: list[dict[str, Any]]
    """steps, best step, best validation score and whether it stopped early, per learner"""
    parameters: int
    seconds: dict[str, float]
    """of fitting, of predicting the test part once and of all, scores included: `fit_cpu`, `fit_wall`, ..."""
    peak_memory: float
    """megabytes the process held at most during the run"""

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        return record_name(self.task, self.protocol, self.method, self.seed, self.key)

    @property
    def result(self) -> dict[str, Any]:
        """What another run with the same config must give again, to the last digit."""
        return {name: getattr(self, name) for name in RESULT}


def record_name(task: str, protocol: str, method: str, seed: int, key: str) -> str:
    """Of a record's file, without the ending."""
    return f"{task}_{protocol}_{method}_{seed}_{key}"


def config_key(config: dict[str, Any]) -> str:
    """A name for a config: the same on every machine, another for every other config."""
    return hashlib.sha256(_canonical(config)).hexdigest()[:16]


R = TypeVar("R", bound=AbstractRecord)


class AbstractStore(ABC, Generic[R]):
    """A folder of records.

    Args:
        folder: is made when the first record is written.
    """

    kind: type[R]
    """of its records"""
    format: ClassVar[str]
    """what a file says it is"""
    command: ClassVar[str]
    """makes a record that is not there"""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise RecordError(f"`folder` must be a folder of records. {self.folder} is a file. Name another.")

    def __contains__(self, name: str) -> bool:
        return self._path(name).is_file()

    def write(self, record: R) -> bool:
        """Keep a record; if there is one of that name already, the first stays, and the answer is False.

        Written under a temporary name, flushed to the disk and linked: there is no moment with half a record.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        facts = {"format": self.format, "version": VERSION, **finite(asdict(record))}
        facts["sha256"] = hashlib.sha256(_canonical(facts)).hexdigest()
        path = self._path(record.name)
        temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
        try:
            write_flushed(temporary, (json.dumps(facts, sort_keys=True, allow_nan=False) + "\n").encode())
            os.link(temporary, path)  # a rename would replace
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(self.folder)
        return True

    def read(self, name: str) -> R:
        """One record, if it is whole and of a version that is known; otherwise `RecordError`."""
        path = self._path(name)
        try:
            facts = json.loads(path.read_bytes())
        except OSError as err:
            raise RecordError(f"Record {path} cannot be read: {err}. Run it with `{self.command}`.") from None
        except (ValueError, RecursionError) as err:
            raise self._unusable(path, f"is damaged: it is not JSON ({err})") from None
        if not isinstance(facts, dict) or facts.pop("format", None) != self.format:
            raise self._unusable(path, f"is not a record: it does not say {self.format!r}")
        if facts.get("version") != VERSION:
            raise RecordError(
                f"Record {path} has format version {facts.get('version')!r}; this library reads version {VERSION}. "
                "Read it with the library that wrote it, or delete it to run it again."
            )
        told = facts.pop("sha256", None)
        if told != hashlib.sha256(_canonical({"format": self.format, **facts})).hexdigest():
            raise self._unusable(path, "is damaged: its content does not match its checksum")
        del facts["version"]
        if set(facts) != {field.name for field in fields(self.kind)}:
            raise self._unusable(path, "does not have the fields of a record")
        record = self.kind(**facts)
        if record.name != name or config_key(record.config) != record.key:
            raise self._unusable(path, f"is not what its name says, but {record.name}")
        return record

    def names(self) -> list[str]:
        """Of all records, in order."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def records(self, names: Iterable[str] | None = None) -> list[R]:
        """All records, or those of these names that are there."""
        wanted = self.names() if names is None else [name for name in names if name in self]
        return [self.read(name) for name in wanted]

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _unusable(self, path: Path, problem: str) -> RecordError:
        return RecordError(f"Record {path} {problem}. Delete this file, and `{self.command}` makes it again.")


class Store(AbstractStore[Record]):
    """Records of the grid."""

    kind, format, command = Record, "nsac-record", "nsac bench run"

    def __init__(self, folder: str | Path = RESULTS):
        super().__init__(folder)


def frame(records: Iterable[Record]) -> "DataFrame":
    """One row per record: what it is of, its metrics, seconds, memory and parameters."""
    import pandas as pd

    about = ("task", "protocol", "method", "seed", "key", "parameters", "peak_memory", "commit")
    rows = []
    for record in records:
        seconds = {f"seconds_{name}": value for name, value in record.seconds.items()}
        rows.append({**{name: getattr(record, name) for name in about}, **seconds, **record.metrics})
    return pd.DataFrame(rows, columns=None if rows else list(about))


def finite(value: Any) -> Any:
    """The same, with None in place of every number that JSON does not know."""
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def now_and_here() -> dict[str, Any]:
    """Code, machine and time, as fields of a record."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return {"commit": commit(), "versions": versions(), "machine": machine(), "made": made}


def commit() -> str | None:
    """Of the code that runs, with `+` if files of it were changed since."""
    return _commit(str(Path(__file__).resolve().parent.parent))


@cache
def _commit(folder: str) -> str | None:
    def git(*arguments: str) -> str:
        told = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True, timeout=10)
        return told.stdout.strip()

    try:
        if not git("ls-files", "."):  # installed into a folder that some other repository ignores
            return None
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def versions() -> dict[str, str]:
    """Of what numbers depend on."""
    names = ("nsac", "torch", "numpy", "scikit-learn", "scoringrules", "pandas")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def machine() -> dict[str, Any]:
    """Kind of machine; nothing that names one."""
    about = {"system": platform.system(), "architecture": platform.machine(), "cores": os.cpu_count()}
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        about |= {"processor": models[0]} if models else {}
    return about


def _canonical(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
