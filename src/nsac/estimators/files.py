"""Model folders: `model.safetensors` and `config.json`, both whole or not there, and nothing in them can run."""

import hashlib
import importlib
import json
import os
import shutil
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nsac._io import sync_folder, write_flushed

if TYPE_CHECKING:
    from nsac.estimators.base import AbstractEstimator

FORMAT, VERSION = "nsac-model", 1
TENSORS, CONFIG = "model.safetensors", "config.json"
LARGEST_TENSORS, LARGEST_CONFIG, LARGEST_HEADER = 4 << 30, 64 << 20, 8 << 20
"""Bytes of the two files and of the header of the first; what claims to be larger is not read."""
CLASSES = {"NSACRegressor": "nsac.estimators.regressor", "NSACForecaster": "nsac.estimators.forecaster"}
"""What a folder may hold, and where its code is; a closed list, whatever a file says."""


class ModelError(ValueError):
    """A model folder that cannot be used. The message says what to do."""


def load(folder: str | os.PathLike) -> "AbstractEstimator":
    """A fitted estimator from the folder its `save` wrote; it predicts the same to the bit.

    Nothing in the folder is executed. Anything wrong with it is a `ModelError`.
    """
    config, tensors = read_model(folder)
    name = config.pop("class", None)
    if not isinstance(name, str) or name not in CLASSES:
        raise _unusable(folder, f"holds a {name!r}, and this library knows {', '.join(CLASSES)}")
    cls = getattr(importlib.import_module(CLASSES[name]), name)
    try:
        return cls._from_files(config, tensors)
    except Exception as err:  # a wrong number can fail in any part of what it describes
        raise _unusable(folder, f"does not describe a {name}: {type(err).__name__}: {err}") from None


def write_model(folder: str | os.PathLike, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a model folder: under a temporary name beside it, flushed to the disk, renamed.

    An empty folder, or another model, is replaced; anything else is left alone.

    Args:
        folder: where.
        config: what fits into JSON, with the name of the class under `"class"`.
        tensors: what does not.
    """
    from safetensors.torch import save

    folder = Path(os.path.abspath(folder))
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if (folder.exists() and not folder.is_dir()) or not names <= {TENSORS, CONFIG}:
        raise ModelError(f"{folder} must be new, or hold nothing but a model. It holds other things. Name another.")
    # Copies, because safetensors refuses tensors that share memory.
    copies = {n: t.detach().cpu().clone(memory_format=torch.contiguous_format) for n, t in tensors.items()}
    weights = save(copies)
    facts = {"format": FORMAT, "version": VERSION, "library": _versions(), **config}
    facts["sha256"] = _digest(facts, weights)
    text = json.dumps(facts, indent=1, sort_keys=True, allow_nan=False)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = (folder.with_name(f".{folder.name}.{kind}-{uuid.uuid4().hex[:8]}") for kind in ("new", "old"))
    try:
        temporary.mkdir()
        for name, content in ((TENSORS, weights), (CONFIG, text.encode())):
            write_flushed(temporary / name, content)
        sync_folder(temporary)
        if names:
            os.rename(folder, old)
        os.replace(temporary, folder)
        sync_folder(folder.parent)
    except BaseException:
        if names and old.exists() and not folder.exists():
            os.rename(old, folder)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def read_model(folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Config and tensors of a model folder, if it is whole and of a version that is known; otherwise `ModelError`."""
    from safetensors.torch import load as parse

    if not Path(folder).is_dir():
        raise ModelError(f"{folder} must be a folder that `save` wrote. There is no such folder. Look at the path.")
    text, weights = _read(folder, CONFIG, LARGEST_CONFIG), _read(folder, TENSORS, LARGEST_TENSORS)
    try:
        facts = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as err:
        raise _unusable(folder, f"is damaged: {CONFIG} is not JSON ({err})") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise _unusable(folder, f"is not a model: {CONFIG} does not say {FORMAT!r}")
    if facts.get("version") != VERSION:
        raise ModelError(
            f"The model in {folder} has format version {facts.get('version')!r}; this library reads version {VERSION}. "
            "Load it with the library that wrote it, or fit it anew."
        )
    if facts.pop("sha256", None) != _digest(facts, weights):
        raise _unusable(folder, "is damaged: its content does not match its checksum")
    if int.from_bytes(weights[:8], "little") > LARGEST_HEADER:
        raise _unusable(folder, f"is damaged: the header of {TENSORS} is larger than {LARGEST_HEADER} bytes")
    try:
        tensors = parse(weights)
    except Exception as err:  # a damaged header can fail in any part of the parser
        raise _unusable(folder, f"is damaged: {TENSORS}: {err}") from None
    for name in ("format", "version", "library"):
        facts.pop(name, None)
    return facts, tensors


def _read(folder: str | os.PathLike, name: str, largest: int) -> bytes:
    path = Path(folder) / name
    if not path.is_file():  # a pipe or a device would never end
        raise _unusable(folder, f"has no file {name}")
    if path.stat().st_size > largest:
        raise _unusable(folder, f"is damaged: {name} is larger than {largest} bytes")
    try:
        return path.read_bytes()
    except OSError as err:
        raise _unusable(folder, f"cannot be read: {err}") from None


def _digest(facts: dict[str, Any], weights: bytes) -> str:
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode())
    digest.update(hashlib.sha256(weights).digest())
    return digest.hexdigest()


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("nsac", "torch", "scikit-learn", "safetensors")}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _unusable(folder: str | os.PathLike, problem: str) -> ModelError:
    return ModelError(f"The model in {folder} {problem}. Copy it again from where it was saved, or fit it anew.")
