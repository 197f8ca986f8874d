"""Configuration of a run: one TOML file per task, read, checked and resolved to one `RunConfig` per run."""

import inspect
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from nsac._checks import check_choice, check_int
from nsac.lab.grid.store import config_key, record_name
from nsac.lab.tasks.base import TASKS
from nsac.methods import METHODS, AbstractMethod, AbstractProblem, AbstractSolved
from nsac.models import NetworkConfig
from nsac.training import TrainConfig

PAPER_TASKS = ("spiral", "boston", "kin8nm", "ettm1", "jena", "xjtu", "pronostia", "hust")
"""The paper's tasks without images, in the order of its Table 1."""
NEURAL = ("nsac", "gmle", "mcd", "de", "der", "sdenet")  # the paper's methods
PROTOCOLS = ("paper", "sound")
POSED = ("tokens", "columns", "skip", "heavy_tails", "beta", "trees")  # fields of a problem that are modelling choices
FOLDER = files("nsac.lab.grid") / "configs"
_SECTION_KEYS = {"num_samples", "problem", "network", "train", "methods"}
_METHOD_KEYS = {"of", "revision", "arguments", "num_samples", "problem", "network", "train"}


class ConfigError(ValueError):
    """A configuration file that cannot be used. The message names the place of the error."""


@dataclass(frozen=True)
class RunConfig:
    """Everything a run depends on, except the code."""

    task: str
    protocol: str
    method: str  # its row in the table
    seed: int
    of: str  # the method in `METHODS`
    revision: int  # increased by hand when a change of the code changes the results
    num_samples: int = 1  # draws in prediction
    arguments: dict[str, Any] = field(default_factory=dict)  # arguments of the method
    problem: dict[str, Any] = field(default_factory=dict)  # modelling choices, see `POSED`
    network: dict[str, Any] = field(default_factory=dict)  # fields of `NetworkConfig`
    train: dict[str, Any] = field(default_factory=dict)
    """fields of `TrainConfig`; empty for a method that is solved in closed form"""

    def __post_init__(self):
        check_choice("protocol", self.protocol, PROTOCOLS)
        check_choice("of", self.of, sorted(METHODS))
        check_int("seed", self.seed, 0)
        check_int("revision", self.revision, 0)
        check_int("num_samples", self.num_samples)
        parameters = inspect.signature(METHODS[self.of]).parameters
        _check_keys("arguments", self.arguments, [name for name in parameters if name not in ("problem", "seed")])
        _check_keys("problem", self.problem, POSED)
        _check_keys("network", self.network, [each.name for each in fields(NetworkConfig)])
        TrainConfig.from_dict(self.train)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def key(self) -> str:
        """Hash of the configuration."""
        return config_key(self.to_dict())

    @property
    def name(self) -> str:
        """Name of its record."""
        return record_name(self.task, self.protocol, self.method, self.seed, self.key)

    def build(self, problem: AbstractProblem) -> AbstractMethod:
        """The method, not fitted."""
        posed = replace(problem, **self.problem, network=replace(problem.network, **self.network))
        return METHODS[self.of](posed, seed=self.seed, **self.arguments)  # pyright: ignore[reportCallIssue]


@cache
def config_names() -> tuple[str, ...]:
    """Tasks that have a configuration file: the paper's, then the others."""
    found = sorted(entry.name.removesuffix(".toml") for entry in FOLDER.iterdir() if entry.name.endswith(".toml"))
    return (*PAPER_TASKS, *(name for name in found if name not in PAPER_TASKS))


def methods_of(task: str) -> tuple[str, ...]:
    """Rows of a task in every table: the paper's methods, then the baselines."""
    return (*NEURAL, *_read(task)["baselines"])


def protocols_of(task: str) -> list[str]:
    """Protocols of a task: `"paper"`, `"sound"`, or both."""
    return [protocol for protocol in PROTOCOLS if (task, protocol) in TASKS]


def run_config(task: str, protocol: str, method: str, seed: int) -> RunConfig:
    """The configuration of one run.

    Later settings override earlier ones: the top of the file, `[paper]` or `[sound]`, `[methods.NAME]`, and
    `[paper.methods.NAME]`.
    """
    check_choice("task", task, config_names())
    return resolve(_read(task), task, protocol, method, seed)


def grid(
    tasks: Sequence[str] = PAPER_TASKS,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] = range(5),
    protocols: Sequence[str] = PROTOCOLS,
) -> list[RunConfig]:
    """Configurations of all runs, seed by seed; protocols and methods that a task does not have are skipped.

    By default, `methods` are all rows of a task.
    """
    for protocol in protocols:
        check_choice("protocol", protocol, PROTOCOLS)
    known: dict[str, set[str]] = {}
    for task in tasks:
        check_choice("task", task, config_names())
        known[task] = {*methods_of(task), *_read(task).get("methods", {})}
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


def resolve(settings: Mapping[str, Any], task: str, protocol: str, method: str, seed: int) -> RunConfig:
    """The configuration of one run, from the content of a task's file."""
    section = settings.get(protocol, {})
    overrides = [place.get("methods", {}).get(method, {}) for place in (settings, section)]
    resolved: dict[str, Any] = {}
    for layer in (settings, section, *overrides):
        for name in _METHOD_KEYS & set(layer):
            value = layer[name]
            resolved[name] = {**resolved.get(name, {}), **value} if isinstance(value, dict) else value
    of = resolved.pop("of", method)
    check_choice("method", method, sorted({*METHODS, *settings.get("methods", {}), *section.get("methods", {})}))
    check_choice("of", of, sorted(METHODS))
    if issubclass(METHODS[of], AbstractSolved):  # it is neither trained nor sampled
        resolved = {"revision": resolved["revision"], "arguments": resolved.get("arguments", {})}
    return RunConfig(task, protocol, method, seed, of, **resolved)


def check_settings(settings: Mapping[str, Any], task: str) -> None:
    """Refuse a file with unknown or missing keys, or with values that no run accepts."""
    try:
        _check_keys("the file", settings, {"revision", "baselines", *_SECTION_KEYS, *PROTOCOLS})
        for name in ("revision", "baselines", "num_samples", "train"):
            if name not in settings:
                raise ConfigError(f"`{name}` is required.")
        for protocol in PROTOCOLS:
            _check_keys(protocol, settings.get(protocol, {}), _SECTION_KEYS)
        for section in (settings, *(settings.get(protocol, {}) for protocol in PROTOCOLS)):
            for method, overrides in section.get("methods", {}).items():
                _check_keys(f"methods.{method}", overrides, _METHOD_KEYS)
        for protocol in PROTOCOLS:
            for method in (*NEURAL, *settings["baselines"], *settings.get("methods", {})):
                resolve(settings, task, protocol, method, 0)
    except (TypeError, ValueError, AttributeError) as err:
        raise ConfigError(f"In the configuration of task {task!r}: {err}") from None


@cache
def _read(task: str) -> dict[str, Any]:
    try:
        settings = tomllib.loads((FOLDER / f"{task}.toml").read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as err:
        raise ConfigError(f"The configuration of task {task!r} is not TOML: {err}") from None
    check_settings(settings, task)
    return settings


def _check_keys(where: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(f"`{where}` must have no keys but {', '.join(sorted(known)) or 'none'}. Got {unknown[0]!r}.")
