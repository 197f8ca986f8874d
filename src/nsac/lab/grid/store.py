"""Run records: one JSON file per run, written completely or not at all; a run that has a record is not repeated."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from nsac._io import HeaderError, VersionError, add_header, digest, remove_header, write_once

VERSION = 1
RESULTS = Path("results/bench")  # default folder of the records
EXPERIMENT = "nsac-bench"  # of MLflow
RESULT = ("metrics", "bands", "pit", "parameters", "rows", "training")
"""Fields that follow from the configuration alone; the others depend on time, machine and speed."""


class RecordError(ValueError):
    """A record that cannot be used. The message states how to fix it."""


@dataclass(frozen=True, kw_only=True)
class AbstractRecord(ABC):
    """Result of one run in plain values, with everything that is needed to repeat it."""

    key: str  # hash of the configuration
    config: dict[str, Any]  # every setting the result depends on
    commit: str | None  # of the code, with `+` if its files have changed since; None outside of a repository
    versions: dict[str, str]
    machine: dict[str, Any]
    made: str  # time of the run, UTC

    @property
    @abstractmethod
    def name(self) -> str:
        """File name without the extension."""


@dataclass(frozen=True, kw_only=True)
class Record(AbstractRecord):
    """Result of one run of the grid."""

    task: str
    protocol: str
    method: str
    seed: int
    text: str  # description of the task
    unit: str  # unit of the scores
    rows: dict[str, int]  # number of rows of each split
    metrics: dict[str, float | None]  # test scores; None where one is not finite
    pit: dict[str, list[int]]
    """histograms of F(y) over all test entries, `raw` and `calibrated`, equal bins from 0 to 1"""
    bands: list[dict[str, Any]]
    """a few test rows per panel: `at`, `y`, `mean`, `std`, `epistemic` (a standard deviation), `half_90` (conformal);
    `ordered`: whether their order is one of time"""
    training: list[dict[str, Any]]
    """per learner: steps, best step, best validation score, and whether training stopped early"""
    parameters: int
    seconds: dict[str, float]
    """of fitting, of predicting the test split once, and in total with the scores: `fit_cpu`, `fit_wall`, ..."""
    peak_memory: float  # largest resident memory of the process during the run, in megabytes

    @property
    def name(self) -> str:
        """File name without the extension."""
        return record_name(self.task, self.protocol, self.method, self.seed, self.key)

    @property
    def result(self) -> dict[str, Any]:
        """What another run of the same configuration reproduces to the last digit."""
        return {name: getattr(self, name) for name in RESULT}


def record_name(task: str, protocol: str, method: str, seed: int, key: str) -> str:
    """File name of a record, without the extension."""
    return f"{task}_{protocol}_{method}_{seed}_{key}"


def config_key(config: dict[str, Any]) -> str:
    """Hash of a configuration, the same on every machine."""
    return digest(config)[:16]


R = TypeVar("R", bound=AbstractRecord)


class AbstractStore(ABC, Generic[R]):
    """A folder of records; it is created when the first record is written."""

    kind: type[R]
    format: ClassVar[str]  # value of `format` in its files
    command: ClassVar[str]  # that creates its records

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise RecordError(f"`folder` must be a folder of records. {self.folder} is a file. Name another.")

    def __contains__(self, name: str) -> bool:
        return self._path(name).is_file()

    def write(self, record: R) -> bool:
        """Write a record and return True; an existing record of that name is kept, and the result is False."""
        facts = add_header(self.format, VERSION, finite(asdict(record)))
        content = json.dumps(facts, sort_keys=True, allow_nan=False) + "\n"
        return write_once(self._path(record.name), content.encode())

    def read(self, name: str) -> R:
        """Read one record; raise `RecordError` if it is damaged or of an unknown version."""
        path = self._path(name)
        try:
            facts = remove_header(self.format, VERSION, json.loads(path.read_bytes()))
        except OSError as err:
            raise RecordError(f"Record {path} cannot be read: {err}. Create it with `{self.command}`.") from None
        except VersionError as err:
            remedy = "Read it with the library that wrote it, or delete it to run it again."
            raise RecordError(f"Record {path} {err}. {remedy}") from None
        except HeaderError as err:
            raise self._unusable(path, str(err)) from None
        except (ValueError, RecursionError) as err:
            raise self._unusable(path, f"is damaged: it is not JSON ({err})") from None
        if set(facts) != {field.name for field in fields(self.kind)}:
            raise self._unusable(path, "does not have the fields of a record")
        record = self.kind(**facts)
        if record.name != name or config_key(record.config) != record.key:
            raise self._unusable(path, f"does not match its file name; its content is that of {record.name}")
        return record

    def names(self) -> list[str]:
        """Sorted names of all records."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def records(self, names: Iterable[str] | None = None) -> list[R]:
        """All records, or the existing ones of these names."""
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


def mlflow_logger() -> Callable[[Record], bool]:
    """A function that logs a record to the server of MLFLOW_TRACKING_URI, or to MLflow's own default.

    It returns False for a record that is logged already, by the tag `nsac.record`.
    """
    try:
        import mlflow
    except ImportError:
        raise ImportError("Tracking needs MLflow. Install it with `pip install 'nsac[track]'`.") from None
    experiment = mlflow.set_experiment(EXPERIMENT).experiment_id

    def log(record: Record) -> bool:
        condition = f"tags.`nsac.record` = '{record.name}'"
        if mlflow.search_runs([experiment], condition, max_results=1, output_format="list"):
            return False
        with mlflow.start_run(experiment_id=experiment, run_name=record.name):
            mlflow.set_tags({"nsac.record": record.name, "nsac.commit": record.commit or ""})
            mlflow.log_params(_flat(record.config))
            numbers = {**record.metrics, **{f"seconds_{name}": v for name, v in record.seconds.items()}}
            numbers |= {"parameters": record.parameters, "peak_memory": record.peak_memory}
            mlflow.log_metrics({name: value for name, value in numbers.items() if value is not None})
        return True

    return log


def finite(value: Any) -> Any:
    """The same value, with None for every number that is not finite, since JSON has none."""
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in config.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat
