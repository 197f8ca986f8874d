"""A study: settings from one TOML file, one record per setting, tables and a figure made from the records."""

import itertools
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from matplotlib.figure import Figure

from nsac.lab.grid.config import ConfigError
from nsac.lab.grid.sheet import Sheet
from nsac.lab.grid.store import AbstractRecord, AbstractStore, config_key


@dataclass(frozen=True, kw_only=True)
class StudyRecord(AbstractRecord):
    """Result of one setting of a study."""

    study: str
    seed: int
    metrics: dict[str, float | None]
    """numbers of the tables; None where one is not finite"""
    series: dict[str, Any]
    """lists of numbers for the figure"""
    seconds: dict[str, float]
    """of the whole setting, `cpu` and `wall`"""

    @property
    def name(self) -> str:
        """Name of its file without the extension."""
        return f"{self.study}_{self.seed}_{self.key}"


class StudyStore(AbstractStore[StudyRecord]):
    """Records of studies."""

    kind, format, command = StudyRecord, "nsac-study", "nsac bench study"


@dataclass(frozen=True)
class Outcome:
    """Numbers of one setting; all but times and memory are reproducible."""

    metrics: dict[str, float]
    series: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """One point of a study."""

    study: str
    sweep: str
    """name of the sweep it belongs to, for tables and figures"""
    point: dict[str, Any]
    """values of what the sweep varies"""
    config: dict[str, Any]
    """every number, with the seed and the revision of the file"""

    @property
    def seed(self) -> int:
        """Seed of everything random."""
        return self.config["seed"]

    @property
    def name(self) -> str:
        """Name of its record. Sweeps that share a point share its record."""
        return f"{self.study}_{self.seed}_{config_key(self.config)}"

    @property
    def title(self) -> str:
        """Name for display."""
        return f"{self.study}: {', '.join(f'{k} {v}' for k, v in self.point.items())}, seed {self.seed}"


Found = Sequence[tuple[Setting, StudyRecord | Outcome]]
"""Settings and their results, in the order of the file."""


@dataclass(frozen=True)
class Study:
    """A question, the computation that answers it, and the presentation of the answer.

    `sheets` and `draw` receive the settings that have a record: at least one, not necessarily all.
    """

    name: str
    title: str
    place: str
    """table or figure of the paper"""
    caption: str
    """of the figure"""
    run: Callable[[dict[str, Any]], Outcome]
    sheets: Callable[[Found], list[Sheet]]
    draw: Callable[[Found], Figure] | None = None
    apart: bool = False
    """whether each setting runs in its own process, so that its peak memory can be measured"""


@cache
def settings(study: str) -> tuple[Setting, ...]:
    """All settings of a study's file: the combinations within each `[[sweep]]`, for each seed."""
    path = files("nsac.lab.studies") / "configs" / f"{study}.toml"
    return tuple(expand(study, tomllib.loads(path.read_text(encoding="utf-8"))))


def expand(study: str, numbers: Mapping[str, Any]) -> Iterable[Setting]:
    """Settings from the content of a file, seed by seed."""
    mismatch = set(numbers) ^ {"revision", "seeds", "fixed", "sweep"}
    if mismatch:
        raise ConfigError(f"In the configuration of study {study!r}: `{min(mismatch)}` is missing or unknown.")
    for seed in numbers["seeds"]:
        for sweep in numbers["sweep"]:
            varied = {name: values for name, values in sweep.items() if name != "name"}
            for values in itertools.product(*varied.values()):
                point = dict(zip(varied, values, strict=True))
                config = {"revision": numbers["revision"], **numbers["fixed"], **point, "seed": seed}
                yield Setting(study, sweep["name"], point, config)


def found(study: str, records: Iterable[StudyRecord]) -> list[tuple[Setting, StudyRecord]]:
    """Settings of a study and their records, without stale records."""
    by_name = {record.name: record for record in records}
    return [(setting, by_name[setting.name]) for setting in settings(study) if setting.name in by_name]


def rounded(values: Any) -> Any:
    """Numbers in nested lists, rounded to five significant digits, for they are only drawn."""
    if isinstance(values, list | tuple):
        return [rounded(value) for value in values]
    return float(f"{values:.5g}")
