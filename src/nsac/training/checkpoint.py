"""Checkpoints: a folder with the two latest states of a run, each one safetensors file that is whole or not there."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nsac._io import lock, write_atomic

FORMAT, VERSION = "nsac-checkpoint", "1"
KEEP = 2  # checkpoints in the folder: if the newest is damaged there is one to go back to


class CheckpointError(ValueError):
    """A checkpoint that cannot be used. The message says what to do."""


class Snapshot(NamedTuple):
    """The whole state of a run."""

    facts: dict[str, Any]  # what fits into JSON; "step" is among it
    tensors: dict[str, Tensor]  # what does not


@contextlib.contextmanager
def hold_checkpoints(folder: Path | None) -> Iterator[None]:
    """Reserve a folder, which is created, for one run; `CheckpointError` if another run has it. None for no folder."""
    if folder is None:
        yield
        return
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(lock(folder / ".lock", wait=False))
        except BlockingIOError:
            raise CheckpointError(
                f"`checkpoint` must be a folder that no other run is using. {folder} is in use. Wait for that run to "
                "end, or name another folder."
            ) from None
        yield


def write_checkpoint(folder: Path, snapshot: Snapshot) -> Path:
    """Add a checkpoint, then remove all but the latest two: at no moment is there one fewer, or a half-written one."""
    from safetensors.torch import save

    # Copies, because safetensors refuses tensors that share memory.
    tensors = {n: t.detach().cpu().clone(memory_format=torch.contiguous_format) for n, t in snapshot.tensors.items()}
    facts = json.dumps(snapshot.facts)
    about = {"format": FORMAT, "version": VERSION, "facts": facts, "sha256": _digest(facts, tensors)}
    path = folder / f"step-{snapshot.facts['step']:09d}.safetensors"
    write_atomic(path, save(tensors, about), path.with_suffix(".tmp"))  # kills leave one such file behind at most
    for old in _checkpoints(folder)[:-KEEP]:
        old.unlink()
    return path


def latest_checkpoint(folder: Path, sweep: bool = False) -> Path | None:
    """The newest checkpoint, or None if there is none yet; `sweep` removes what a killed run left half-written."""
    check_folder(folder)
    for temporary in folder.glob("step-*.tmp") if sweep else ():
        temporary.unlink(missing_ok=True)
    return (_checkpoints(folder) or [None])[-1]


def check_folder(folder: Path) -> None:
    """`CheckpointError` if it is a file."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"`checkpoint` must be a folder. {folder} is a file. Name a folder, new or old.")


def read_checkpoint(path: Path) -> Snapshot:
    """A checkpoint, if it is whole and of a version that is known; otherwise `CheckpointError`."""
    from safetensors import safe_open

    try:
        with safe_open(path, "pt") as file:
            about, tensors = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}
    except Exception as err:  # a damaged header can fail in any part of the parser
        raise _unusable(path, f"is damaged: {err}") from None
    if about.get("format") != FORMAT:
        raise _unusable(path, f"is not a checkpoint of a training run, or its header is damaged ({sorted(about)})")
    if about.get("version") != VERSION:
        raise CheckpointError(
            f"Checkpoint {path} has schema version {about.get('version')!r}; this library reads version {VERSION!r}. "
            "Go on with the library that wrote it, or name another folder to begin anew."
        )
    if about.get("sha256") != _digest(about.get("facts", ""), tensors):
        raise _unusable(path, "is damaged: its content does not match its checksum")
    return Snapshot(json.loads(about["facts"]), tensors)


def _digest(facts: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        digest.update(f"\n{name} {tensors[name].dtype} {tuple(tensors[name].shape)}\n".encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _unusable(path: Path, problem: str) -> CheckpointError:
    others = [other for other in _checkpoints(path.parent) if other != path]
    way_out = f"to go on from {others[-1].name}" if others else "to begin anew"
    return CheckpointError(f"Checkpoint {path} {problem}. Delete this file {way_out}.")


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.safetensors"))
