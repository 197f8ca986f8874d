"""Model folders: `model.safetensors` and `config.json`, complete or absent, with nothing executable in them."""

import importlib
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nsac._io import HeaderError, VersionError, add_header, remove_header, write_folder

if TYPE_CHECKING:
    from nsac.estimators.base import AbstractEstimator

FORMAT, VERSION = "nsac-model", 1
TENSORS, CONFIG = "model.safetensors", "config.json"
MAX_TENSORS_BYTES, MAX_CONFIG_BYTES, MAX_HEADER_BYTES = 4 << 30, 64 << 20, 8 << 20
"""Sizes of the two files and of the header of the first; larger ones are not read."""
CLASSES = {"NSACRegressor": "nsac.estimators.regressor", "NSACForecaster": "nsac.estimators.forecaster"}
"""Classes that a folder may hold, and their modules; no file can add to this list."""


class ModelError(ValueError):
    """A model folder that cannot be used. The message contains the remedy."""


def load(folder: str | os.PathLike) -> "AbstractEstimator":
    """A fitted estimator from the folder its `save` wrote; it predicts the same to the bit.

    Nothing in the folder is executed. Anything wrong with it is a `ModelError`.
    """
    from nsac.estimators.archive import from_archive

    config, tensors = read_model(folder)
    name = config.pop("class", None)
    if not isinstance(name, str) or name not in CLASSES:
        raise _unusable(folder, f"has the class {name!r}; this library knows {', '.join(CLASSES)}")
    cls = getattr(importlib.import_module(CLASSES[name]), name)
    try:
        return from_archive(cls, config, tensors)
    except Exception as err:  # a wrong value can fail anywhere
        raise _unusable(folder, f"does not describe a {name}: {type(err).__name__}: {err}") from None


def write_model(folder: str | os.PathLike, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a model folder: under a temporary name, flushed to the disk, renamed.

    An empty folder, or another model, is replaced; anything else is refused.

    Args:
        folder: where.
        config: values for JSON, with the name of the class under `"class"`.
        tensors: by name.
    """
    from safetensors.torch import save

    folder = Path(os.path.abspath(folder))
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if (folder.exists() and not folder.is_dir()) or not names <= {TENSORS, CONFIG}:
        raise ModelError(f"{folder} must be absent, empty or a model folder. It has other content. Name another.")
    # Copies, because safetensors refuses tensors that share memory.
    copies = {n: t.detach().cpu().clone(memory_format=torch.contiguous_format) for n, t in tensors.items()}
    weights = save(copies)
    facts = add_header(FORMAT, VERSION, {"library": _versions(), **config}, weights)
    text = json.dumps(facts, indent=1, sort_keys=True, allow_nan=False)
    write_folder(folder, {TENSORS: weights, CONFIG: text.encode()})


def read_model(folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Config and tensors of a model folder, if it is complete and of a known version; otherwise `ModelError`."""
    from safetensors.torch import load as parse

    if not Path(folder).is_dir():
        raise ModelError(f"{folder} must be a folder that `save` wrote. There is no such folder. Check the path.")
    text, weights = _read(folder, CONFIG, MAX_CONFIG_BYTES), _read(folder, TENSORS, MAX_TENSORS_BYTES)
    try:
        headed = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as err:
        raise _unusable(folder, f"is damaged: {CONFIG} is not JSON ({err})") from None
    try:
        facts = remove_header(FORMAT, VERSION, headed, weights)
    except VersionError as err:
        raise ModelError(
            f"The model in {folder} {err}. Load it with the library that wrote it, or fit it anew."
        ) from None
    except HeaderError as err:
        raise _unusable(folder, str(err)) from None
    if int.from_bytes(weights[:8], "little") > MAX_HEADER_BYTES:
        raise _unusable(folder, f"is damaged: the header of {TENSORS} is larger than {MAX_HEADER_BYTES} bytes")
    try:
        tensors = parse(weights)
    except Exception as err:  # a damaged header can fail in any part of the parser
        raise _unusable(folder, f"is damaged: {TENSORS}: {err}") from None
    facts.pop("library", None)
    return facts, tensors


def _read(folder: str | os.PathLike, name: str, max_bytes: int) -> bytes:
    path = Path(folder) / name
    if not path.is_file():  # a pipe or a device would never end
        raise _unusable(folder, f"has no file {name}")
    if path.stat().st_size > max_bytes:
        raise _unusable(folder, f"is damaged: {name} is larger than {max_bytes} bytes")
    try:
        return path.read_bytes()
    except OSError as err:
        raise _unusable(folder, f"cannot be read: {err}") from None


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("nsac", "torch", "scikit-learn", "safetensors")}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _unusable(folder: str | os.PathLike, problem: str) -> ModelError:
    return ModelError(f"The model in {folder} {problem}. Copy it again from its source, or fit it anew.")
