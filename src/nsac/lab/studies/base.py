"""What a study is: settings from one TOML file, a record per setting, tables and a picture made of the records."""

import itertools
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from nsac.lab.grid.config import ConfigError
from nsac.lab.grid.sheet import Sheet
from nsac.lab.grid.store import AbstractRecord, AbstractStore, config_key

RESULTS = Path("results/studies")
"""Where records of studies are, unless another folder is named."""

DIGITS = 5
"""Of numbers in pictures."""


@dataclass(frozen=True, kw_only=True)
class StudyRecord(AbstractRecord):
    """What came out of one setting of a study."""

    study: str
    seed: int
    metrics: dict[str, float | None]
    """numbers of tables; None where one is not finite"""
    series: dict[str, Any]
    """lists of numbers for pictures"""
    seconds: dict[str, float]
    """of the whole setting, `cpu` and `wall`"""

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        return f"{self.study}_{self.seed}_{self.key}"


class StudyStore(AbstractStore[StudyRecord]):
    """Records of studies."""

    kind, format, command = StudyRecord, "nsac-study", "nsac bench study"

    def __init__(self, folder: str | Path = RESULTS):
        super().__init__(folder)


@dataclass(frozen=True)
class Outcome:
    """What a setting gives, the same every time but for times and memory."""

    metrics: dict[str, float]
    series: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """One point of a study."""

    study: str
    sweep: str
    """which of the study's sweeps it belongs to"""
    point: dict[str, Any]
    """what the sweep varies, at this point"""
    config: dict[str, Any]
    """every number, with the seed and the file's revision"""

    @property
    def seed(self) -> int:
        """Of everything random."""
        return self.config["seed"]

    @property
    def name(self) -> str:
        """Of its record. Sweeps that meet at a point share it."""
        return f"{self.study}_{self.seed}_{config_key(self.config)}"

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.study}: {', '.join(f'{k} {v}' for k, v in self.point.items())}, seed {self.seed}"


Found = Sequence[tuple[Setting, StudyRecord | Outcome]]
"""Settings and what they gave, in the order of the file."""


@dataclass(frozen=True)
class Study:
    """A question, how it is answered, and how the answer is shown.

    `draw` and `sheets` are given at least one record, and need not be given all.
    """

    name: str
    title: str
    place: str
    """in the paper"""
    caption: str
    """of the picture"""
    run: Callable[[dict[str, Any]], Outcome]
    sheets: Callable[[Found], list[Sheet]]
    draw: Callable[[Found], Figure] | None = None
    apart: bool = False
    """whether each setting has a process of its own, so that its memory is its own"""


@cache
def settings(study: str) -> tuple[Setting, ...]:
    """All settings of a study's file: the combinations within each `[[sweep]]`, with each seed."""
    return tuple(expand(study, tomllib.loads((_folder() / f"{study}.toml").read_text(encoding="utf-8"))))


def expand(study: str, numbers: Mapping[str, Any]) -> Iterable[Setting]:
    """Settings from the content of a file, seed by seed."""
    unknown = set(numbers) ^ {"revision", "seeds", "fixed", "sweep"}
    if unknown:
        raise ConfigError(f"In the numbers of study {study!r}: `{min(unknown)}` is missing, or is not known.")
    for seed in numbers["seeds"]:
        for sweep in numbers["sweep"]:
            varied = {name: values for name, values in sweep.items() if name != "name"}
            for values in itertools.product(*varied.values()):
                point = dict(zip(varied, values, strict=True))
                config = {"revision": numbers["revision"], **numbers["fixed"], **point, "seed": seed}
                yield Setting(study, sweep["name"], point, config)


def found(study: str, records: Iterable[StudyRecord]) -> list[tuple[Setting, StudyRecord]]:
    """Settings of a study and their records; records of other numbers than those that hold now are left out."""
    by_name = {record.name: record for record in records}
    return [(setting, by_name[setting.name]) for setting in settings(study) if setting.name in by_name]


def rounded(values: Any) -> Any:
    """Numbers of a picture, in nested lists."""
    if isinstance(values, list | tuple):
        return [rounded(value) for value in values]
    return float(f"{values:.{DIGITS}g}")


def _folder():
    return files("nsac.lab.studies") / "configs"
