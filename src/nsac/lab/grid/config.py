"""The numbers of a run: one TOML file per task, read, checked and resolved to a config per run."""

import inspect
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from nsac._checks import check_choice, check_int
from nsac.lab.grid.store import config_key, record_name
from nsac.lab.tasks.base import known_tasks
from nsac.methods import METHODS, AbstractMethod, AbstractProblem, AbstractSolved
from nsac.models import NetworkConfig
from nsac.training import TrainConfig

PAPER_TASKS = ("spiral", "boston", "kin8nm", "ettm1", "jena", "xjtu", "pronostia", "hust")
"""The paper's tasks without images, in the order of its Table 1."""

NEURAL = ("nsac", "gmle", "mcd", "de", "der", "sdenet")
"""The paper's methods."""

PROTOCOLS = ("paper", "sound")
POSED = ("tokens", "columns", "skip")
"""Fields of `Problem` that are a choice and not a fact."""

_LEVEL = {"num_samples", "problem", "network", "train", "methods"}
_METHOD = {"of", "arguments", "num_samples", "problem", "network", "train"}


class ConfigError(ValueError):
    """A file of numbers that cannot be used. The message says where it is wrong."""


@dataclass(frozen=True)
class RunConfig:
    """Everything a run depends on, but for the code."""

    task: str
    protocol: str
    method: str
    """its row in the table"""
    seed: int
    of: str
    """the method in `METHODS`"""
    revision: int
    """raised by hand when a change of the code moves numbers"""
    num_samples: int = 1
    """draws in prediction"""
    arguments: dict[str, Any] = field(default_factory=dict)
    """of the method"""
    problem: dict[str, Any] = field(default_factory=dict)
    """how the problem is posed, see `POSED`"""
    network: dict[str, Any] = field(default_factory=dict)
    """fields of `NetworkConfig`"""
    train: dict[str, Any] = field(default_factory=dict)
    """fields of `TrainConfig`; none for a method that is solved"""

    def __post_init__(self):
        check_choice("protocol", self.protocol, PROTOCOLS)
        check_choice("of", self.of, sorted(METHODS))
        check_int("seed", self.seed, 0)
        check_int("revision", self.revision, 0)
        check_int("num_samples", self.num_samples)
        taken = [name for name in inspect.signature(METHODS[self.of]).parameters if name not in ("problem", "seed")]
        _check_names("arguments", self.arguments, taken)
        _check_names("problem", self.problem, POSED)
        _check_names("network", self.network, [each.name for each in fields(NetworkConfig)])
        TrainConfig.from_dict(self.train)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def key(self) -> str:
        """A hash of the config."""
        return config_key(self.to_dict())

    @property
    def name(self) -> str:
        """Of its record."""
        return record_name(self.task, self.protocol, self.method, self.seed, self.key)

    def build(self, problem: AbstractProblem) -> AbstractMethod:
        """The method, not fitted."""
        posed = replace(problem, **self.problem, network=replace(problem.network, **self.network))
        return METHODS[self.of](posed, seed=self.seed, **self.arguments)  # pyright: ignore[reportCallIssue]


@cache
def config_names() -> tuple[str, ...]:
    """Tasks that have a file of numbers: the paper's, then the others."""
    found = sorted(entry.name.removesuffix(".toml") for entry in _folder().iterdir() if entry.name.endswith(".toml"))
    return (*PAPER_TASKS, *(name for name in found if name not in PAPER_TASKS))


def methods_of(task: str) -> tuple[str, ...]:
    """Rows of a task in every table: the paper's methods, then the naive ones."""
    return (*NEURAL, *_read(task)["naive"])


def protocols_of(task: str) -> list[str]:
    """What a task has of `"paper"` and `"sound"`."""
    return [protocol for protocol in PROTOCOLS if (task, protocol) in known_tasks()]


def run_config(task: str, protocol: str, method: str, seed: int) -> RunConfig:
    """The config of one run.

    Later ones win: the file's numbers, its `[paper]` or `[sound]`, its `[methods.NAME]`, and `[paper.methods.NAME]`.
    """
    check_choice("task", task, config_names())
    return resolve(_read(task), task, protocol, method, seed)


def grid(
    tasks: Sequence[str] = PAPER_TASKS,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] = range(5),
    protocols: Sequence[str] = PROTOCOLS,
) -> list[RunConfig]:
    """Configs of all runs, seed by seed; a protocol a task does not have is left out.

    Args:
        tasks: names.
        methods: rows; by default all of a task. Naive ones that a task does not have are left out.
        seeds: numbers.
        protocols: `"paper"`, `"sound"`, or both.
    """
    for protocol in protocols:
        check_choice("protocol", protocol, PROTOCOLS)
    known = {name: {*methods_of(name), *_read(name).get("methods", {})} for name in map(_checked, tasks)}
    for method in methods or ():
        check_choice("method", method, sorted(set().union(*known.values())))
    return [
        run_config(task, protocol, method, seed)
        for seed in seeds
        for protocol in protocols
        for task in tasks
        if protocol in protocols_of(task)
        for method in methods or methods_of(task)
        if method in known[task]
    ]


def resolve(numbers: Mapping[str, Any], task: str, protocol: str, method: str, seed: int) -> RunConfig:
    """The config of one run from the content of a task's file."""
    level = numbers.get(protocol, {})
    layers = [numbers, level, *(place.get("methods", {}).get(method, {}) for place in (numbers, level))]
    found: dict[str, Any] = {}
    for layer in layers:
        for name in _METHOD & set(layer):
            value = layer[name]
            found[name] = {**found.get(name, {}), **value} if isinstance(value, dict) else value
    of = found.pop("of", method)
    rows = sorted({*METHODS, *numbers.get("methods", {}), *level.get("methods", {})})
    check_choice("method", method, rows)
    check_choice("of", of, sorted(METHODS))
    if issubclass(METHODS[of], AbstractSolved):  # nothing is trained or drawn
        found = {"arguments": found.get("arguments", {})}
    return RunConfig(task, protocol, method, seed, of, numbers["revision"], **found)


def check_numbers(numbers: Mapping[str, Any], task: str) -> None:
    """Refuse a file with unknown or missing names, or with numbers that no run can have."""
    try:
        _check_names("the file", numbers, {"revision", "naive", *_LEVEL, *PROTOCOLS})
        for name in ("revision", "naive", "num_samples", "train"):
            if name not in numbers:
                raise ConfigError(f"`{name}` must be there.")
        for place in ("", *PROTOCOLS):
            level = numbers.get(place, {}) if place else numbers
            _check_names(place or "the file", level, _LEVEL | (set() if place else set(numbers)))
            for method, own in level.get("methods", {}).items():
                _check_names(f"methods.{method}", own, _METHOD)
        for protocol in PROTOCOLS:
            for method in (*NEURAL, *numbers["naive"], *numbers.get("methods", {})):
                resolve(numbers, task, protocol, method, 0)
    except (TypeError, ValueError, AttributeError) as err:
        raise ConfigError(f"In the numbers of task {task!r}: {err}") from None


@cache
def _read(task: str) -> dict[str, Any]:
    try:
        numbers = tomllib.loads((_folder() / f"{task}.toml").read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as err:
        raise ConfigError(f"The numbers of task {task!r} are not TOML: {err}") from None
    check_numbers(numbers, task)
    return numbers


def _checked(task: str) -> str:
    check_choice("task", task, config_names())
    return task


def _folder():
    return files("nsac.lab.grid") / "configs"


def _check_names(where: str, given: Mapping[str, Any], known) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(f"`{where}` must have no names but {', '.join(sorted(known)) or 'none'}. Got {unknown[0]!r}.")
