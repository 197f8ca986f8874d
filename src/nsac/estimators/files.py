"""Model folders: `model.safetensors`, `config.json` and a model card, complete or absent, with nothing executable."""

import importlib
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from nsac._io import HeaderError, VersionError, add_header, remove_header, resolve, restore_folder, write_folder
from nsac._torch import single_threaded
from nsac.methods import METHODS, AbstractMethod, EventTrees, NSACMethod, problem_from_dict
from nsac.methods.stored import stored_sizes

if TYPE_CHECKING:
    from nsac.estimators.base import AbstractEstimator

FORMAT, VERSION = "nsac-model", 1
TENSORS, CONFIG, CARD = "model.safetensors", "config.json", "MODEL_CARD.md"
MAX_TENSORS_BYTES, MAX_CONFIG_BYTES, MAX_HEADER_BYTES = 4 << 30, 64 << 20, 8 << 20
"""Sizes of the two files and of the header of the first; larger ones are not read."""
MAX_READ_ATTEMPTS = 100  # while other processes replace the folder
CLASSES = {"NSACRegressor": "nsac.estimators.regressor", "NSACForecaster": "nsac.estimators.forecaster"}
"""Classes that a folder may hold, and their modules; no file can add to this list."""
_NOT_FINITE = {"examples.x", "scores", "said", "threshold", "components.trees.threshold", "novelty.log_amplitude"}
"""Tensors in which NaN is a missing value, or infinity is a limit or a logarithm of 0."""
_SCALES = {"x.scale", "y.scale", "unit", "change", "scale"}  # the last one is that of the calibration
_KEYS = {"parameters", "own", "problem", "seeds"}  # of a config; `own` is what `_state` returns


class ModelError(ValueError):
    """A model folder that cannot be used. The message contains the remedy."""


def import_class(name: str) -> "type[AbstractEstimator]":
    """A class of `CLASSES`, imported when it is needed: scikit-learn takes a second to import."""
    return getattr(importlib.import_module(CLASSES[name]), name)


def load(folder: str | os.PathLike) -> "AbstractEstimator":
    """A fitted estimator from the folder its `save` wrote; it predicts the same to the bit.

    Nothing in the folder is executed. Anything wrong with it is a `ModelError`.
    """
    config, tensors = read_model(folder)
    name = config.pop("class", None)
    if not isinstance(name, str) or name not in CLASSES:
        raise _unusable(folder, f"has the class {name!r}; this library knows {', '.join(CLASSES)}")
    cls = import_class(name)
    try:
        return from_archive(cls, config, tensors)
    except Exception as err:  # a wrong value can fail anywhere
        problem = f"does not describe a {name}: {type(err).__name__}: {err}".rstrip(".")
        raise _unusable(folder, problem) from None


def library_versions() -> dict[str, str]:
    """Versions of the libraries that a model depends on."""
    return {name: version(name) for name in ("nsac", "torch", "scikit-learn", "safetensors")}


def is_replaceable(folder: Path) -> bool:
    """Whether a folder is absent, empty or a model folder, with or without a card."""
    if not folder.is_dir():
        return not folder.exists()
    names = {path.name for path in folder.iterdir()}
    return names <= {TENSORS, CONFIG} or names == {TENSORS, CONFIG, CARD}


def write_model(
    folder: str | os.PathLike, config: dict[str, Any], tensors: dict[str, Tensor], card: str | None = None
) -> None:
    """Write a model folder: under a temporary name, flushed to the disk, exchanged for what is there.

    An empty folder, or another model, is replaced; anything else is refused. The config is for JSON, with the name of
    the class under `"class"`. The card is for people: it is not read, and has no part in the checksum.
    """
    from safetensors.torch import save

    folder = resolve(folder)
    if not is_replaceable(folder):
        raise ModelError(f"{folder} must be absent, empty or a model folder. It has other content. Name another.")
    # Copies, because safetensors refuses tensors that share memory.
    weights = save({n: t.detach().cpu().clone(memory_format=torch.contiguous_format) for n, t in tensors.items()})
    facts = add_header(FORMAT, VERSION, {"library": library_versions(), **config}, weights)
    text = json.dumps(facts, indent=1, sort_keys=True, allow_nan=False)
    files = {TENSORS: weights, CONFIG: text.encode()}
    write_folder(folder, files if card is None else files | {CARD: card.encode()})


def read_model(folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Config and tensors of a model folder, if it is complete and of a known version; otherwise `ModelError`.

    They are of one version also while another process replaces the folder: then it is read again.
    """
    for attempt in reversed(range(MAX_READ_ATTEMPTS)):
        restore_folder(Path(folder))
        before = _identity(folder)
        try:
            return _read_once(folder)
        except ModelError:
            if not attempt or _identity(folder) == before:
                raise
    raise AssertionError


def _identity(folder: str | os.PathLike) -> tuple[int, int, int] | None:
    """Differs between a folder and the one that has replaced it; None if there is none."""
    try:
        about = os.stat(folder)
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_ctime_ns


def _read_once(folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors.torch import load as parse

    if not Path(folder).is_dir():
        raise ModelError(f"{folder} must be a folder that `save` wrote. There is no such folder. Check the path.")
    # Both are opened before one is read: what is open is there until it is closed, even if it is removed.
    with _open(folder, CONFIG, MAX_CONFIG_BYTES) as config, _open(folder, TENSORS, MAX_TENSORS_BYTES) as file:
        try:
            text, weights = config.read(), file.read()
        except OSError as err:
            raise _unusable(folder, f"cannot be read: {err}") from None
    try:
        facts = remove_header(FORMAT, VERSION, json.loads(text, parse_constant=_refuse), weights)
    except VersionError as err:
        remedy = "Load it with the library that wrote it, or fit it anew."
        raise ModelError(f"The model in {folder} {err}. {remedy}") from None
    except HeaderError as err:
        raise _unusable(folder, str(err)) from None
    except (ValueError, RecursionError) as err:
        raise _unusable(folder, f"is damaged: {CONFIG} is not JSON ({err})") from None
    if int.from_bytes(weights[:8], "little") > MAX_HEADER_BYTES:
        raise _unusable(folder, f"is damaged: the header of {TENSORS} is larger than {MAX_HEADER_BYTES} bytes")
    try:
        tensors = parse(weights)
    except Exception as err:  # a damaged header can fail in any part of the parser
        raise _unusable(folder, f"is damaged: {TENSORS}: {err}") from None
    facts.pop("library", None)
    return facts, tensors


def to_archive(estimator: "AbstractEstimator") -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A fitted estimator as plain values and tensors."""
    facts, state = estimator._state()
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], (int, np.integer)):
        parameters["random_state"] = None  # a generator cannot be saved, and is no longer needed
    folds = parameters.pop("folds")
    if folds != "deprecated":
        parameters["members"] = folds
    config = {"class": type(estimator).__name__, "parameters": parameters, "own": facts}
    config |= {"problem": estimator.problem_.to_dict(), "seeds": estimator.seeds_}
    tensors = {f"own.{name}": tensor for name, tensor in state.items()}
    tensors |= {f"calibration.{name}": tensor for name, tensor in estimator.calibration_.to_tensors().items()}
    for k, member in enumerate(estimator.members_):
        tensors |= {f"member.{k}.{name}": _smallest(tensor) for name, tensor in member.state_dict().items()}
    return _plain(config), tensors


def from_archive(
    cls: "type[AbstractEstimator]", config: dict[str, Any], tensors: dict[str, Tensor]
) -> "AbstractEstimator":
    """Inverse of `to_archive`, without the key `class`. Wrong values may raise any exception."""
    if set(config) != _KEYS:
        raise ValueError(f"`config` must have the keys {sorted(_KEYS)}. Got {sorted(config)} instead.")
    parameters = {"members" if name == "folds" else name: value for name, value in config["parameters"].items()}
    estimator = cls(**parameters)
    kind = config["problem"]["kind"]
    if kind not in cls.kinds:
        raise ValueError(f"`problem` must be one of {', '.join(cls.kinds)}. Got {kind!r} instead.")
    if kind == "events":
        estimator.encoding_ = "events"  # pyright: ignore[reportAttributeAccessIssue]
    estimator._check_method()
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        head, _, rest = name.partition(".")
        if head == "member":
            number, _, rest = rest.partition(".")
            head = f"member.{number}"
        _check_finite(name, rest, tensor)
        groups.setdefault(head, {})[rest] = tensor
    estimator.calibration_ = estimator._read_calibration(groups.pop("calibration"))
    problem = estimator.problem_ = problem_from_dict(config["problem"])
    if kind != "events" and problem.output_dim != estimator.calibration_.scale.numel():
        raise ValueError("`problem` does not fit the tensors.")
    state = groups.pop("own", {})
    names, seeds = [f"member.{k}" for k in range(len(groups))], config["seeds"]
    if not names or set(groups) != set(names) or len(seeds) != len(names):
        raise ValueError(f"The tensors must be those of {len(seeds)} members. Got {sorted(groups)} instead.")
    estimator.seeds_ = seeds
    with single_threaded():
        pairs = zip(names, seeds, strict=True)
        estimator.members_ = [_load_member(estimator, groups[name], seed) for name, seed in pairs]
    estimator._load_state(config["own"], state)
    return estimator


def _check_finite(name: str, own_name: str, tensor: Tensor) -> None:
    """Offsets, scales and weights are finite, and scales above 0; a score that is NaN was not observed."""
    if not tensor.is_floating_point() or own_name in _NOT_FINITE:
        return
    if not torch.isfinite(tensor).all() or (own_name in _SCALES and not (tensor > 0).all()):
        raise ValueError(f"Tensor {name!r} must be finite{', and above 0' if own_name in _SCALES else ''}.")


def _load_member(estimator: "AbstractEstimator", tensors: dict[str, Tensor], seed: int) -> AbstractMethod:
    problem, cls = estimator.problem_, METHODS[estimator.method]
    with stored_sizes(cls, problem, tensors):
        member = cls(problem, seed=seed)  # pyright: ignore[reportCallIssue]
    tensors, member = _renamed(tensors, problem.network.d_model), member.double()
    expected = member.state_dict()
    if isinstance(member, NSACMethod):  # in older folders the epistemic variance of events has a unit of 1
        tensors = {name: each for name, each in expected.items() if name.startswith("persistence.")} | tensors
    for name, tensor in expected.items():
        found = tensors.get(name)
        if found is None or found.shape != tensor.shape or found.is_floating_point() != tensor.is_floating_point():
            raise ValueError(f"Tensor {name!r} is missing, or has another shape.")
    member.load_state_dict({name: tensor.to(expected[name]) for name, tensor in tensors.items()})
    for module in member.modules():
        if isinstance(module, EventTrees):
            module.check_nodes()
    return member.eval()


def _renamed(tensors: dict[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """Tensors of a member by their present names.

    Hidden layers once read the query alone: the same function has weights 0 for the attended values.
    """
    old, new = "reader.query.", "reader.hidden."
    renamed = {new + name.removeprefix(old) if name.startswith(old) else name: t for name, t in tensors.items()}
    if f"{old}0.weight" in tensors:
        renamed[f"{new}0.weight"] = pad(renamed[f"{new}0.weight"], (0, d_model))
    return renamed


def _smallest(tensor: Tensor) -> Tensor:
    single = tensor.is_floating_point() and torch.equal(tensor.float().double(), tensor.double())
    return tensor.float() if single else tensor  # weights were trained in single precision


def _plain(value: Any) -> Any:
    """Numbers and sequences of numpy as those of Python, for JSON."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def _open(folder: str | os.PathLike, name: str, max_bytes: int) -> BinaryIO:
    path = Path(folder) / name
    if not path.is_file():  # a pipe or a device would never end
        raise _unusable(folder, f"has no file {name}")
    try:
        file = open(path, "rb")
    except OSError as err:
        raise _unusable(folder, f"cannot be read: {err}") from None
    if os.fstat(file.fileno()).st_size > max_bytes:
        file.close()
        raise _unusable(folder, f"is damaged: {name} is larger than {max_bytes} bytes")
    return file


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _unusable(folder: str | os.PathLike, problem: str) -> ModelError:
    return ModelError(f"The model in {folder} {problem}. Copy it again from its source, or fit it anew.")
