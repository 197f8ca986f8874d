"""Recordings of an expert in CarRacing: grey frames, and the action the expert chose at each of them.

A folder holds `recording.json`, which lists the shards with their sha256, and `shard-0000.safetensors`, ... The
simulator that makes a recording belongs to the driving room; reading one does not need it.
"""

import hashlib
import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from nsac._checks import check_int
from nsac._io import write_atomic
from nsac.lab.datasets.store import DataError, cache_folder

SIZE = 84
"""Height and width of a frame, in pixels."""
FIELD = 73
"""Rows of a frame that show the field; the rows below show the indicators: speed, wheels, steering, turn."""
GREY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in a shade of grey."""

MIN_LAPS = 4
"""Laps of a recording at least: one for each split."""

FORMAT, VERSION = "nsac-recording", 1
INDEX = "recording.json"
DTYPES = {"frames": torch.uint8, "actions": torch.float32, "laps": torch.int32, "distances": torch.float32}
"""Columns of a shard."""


class RecordingError(DataError):
    """A recording that is missing, damaged, incomplete, or made with another configuration."""


@dataclass(frozen=True)
class RecordConfig:
    """Configuration of a recording."""

    frames: int = 30_000
    """in all; the last lap is cut"""
    first_seed: int = 0
    """of the first track; the following laps take the following seeds"""
    shard: int = 7_000
    """frames after which a shard ends with its lap: about 50 MB"""
    bursts: float = 0.03
    """probability that a steering offset begins, per action"""
    longest: int = 8
    """actions an offset lasts at most; at least two"""
    offset: float = 0.4
    """largest offset of the steering"""
    limit: int = 700
    """actions of a lap at most"""

    def __post_init__(self):
        for name in ("frames", "shard", "limit"):
            check_int(name, getattr(self, name))
        check_int("first_seed", self.first_seed, 0)
        check_int("longest", self.longest, 2)


def record_config(frames: int) -> RecordConfig:
    """The configuration of a recording of this size; the laps of a short one are cut, so that it has several."""
    check_int("frames", frames, MIN_LAPS)
    return RecordConfig(frames, limit=min(RecordConfig.limit, frames // MIN_LAPS))


@dataclass(frozen=True)
class Recording:
    """Frames in order of laps and time, and the expert's action for each."""

    frames: Tensor  # (n, 84, 84), uint8
    actions: Tensor  # (n, 3): steering, throttle and brake as the expert chose them, without the steering offsets
    laps: Tensor  # (n,), seed of the track
    distances: Tensor  # (n,), to the centreline
    config: RecordConfig
    digest: str  # of all shards

    def __len__(self) -> int:
        return len(self.frames)


def recordings_folder() -> Path:
    """The default folder of the recording: `NSAC_RECORDING`, or `carracing` in the cache."""
    return Path(os.environ.get("NSAC_RECORDING") or cache_folder() / "carracing")


def load_recording(folder: str | Path | None = None) -> Recording:
    """A complete recording with all checksums verified; otherwise a `RecordingError`."""
    folder = recordings_folder() if folder is None else Path(folder)
    if not (folder / INDEX).is_file():
        raise RecordingError(f"{folder} holds no recording. Make one: `nsac drive record --out {folder}`.")
    index = read_index(folder)
    config = RecordConfig(**index["config"])
    shards = [_read_shard(folder / entry["name"], entry) for entry in index["shards"]]
    found = sum(len(shard["frames"]) for shard in shards)
    if found != config.frames:
        raise RecordingError(
            f"{folder} must hold {config.frames} frames. It holds {found}. "
            f"The recording was interrupted: `nsac drive record --frames {config.frames} --out {folder}` resumes it."
        )
    columns = {name: torch.cat([shard[name] for shard in shards]) for name in DTYPES}
    digest = _sha256("".join(entry["sha256"] for entry in index["shards"]).encode())
    return Recording(**columns, config=config, digest=digest[:16])


def read_index(folder: Path, config: RecordConfig | None = None) -> dict[str, Any]:
    """The configuration and the list of shards of a recording; one that differs from `config` is refused."""
    path = folder / INDEX
    try:
        index = json.loads(path.read_bytes())
        if index.pop("format") != FORMAT or index.pop("version") != VERSION:
            raise ValueError("another format or version")
        found = RecordConfig(**index["config"])
        shards = [(s["name"], int(s["frames"]), int(s["last_seed"]), s["sha256"]) for s in index["shards"]]
        if any(Path(name).name != name for name, *_ in shards):
            raise ValueError("a shard in another folder")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as err:
        raise _damaged(path, f"is damaged ({err}).") from None
    if config is not None and found != config:
        name = next(f.name for f in fields(config) if getattr(found, f.name) != getattr(config, f.name))
        raise RecordingError(
            f"{folder} holds a recording with {name} {getattr(found, name)}, not {getattr(config, name)}. "
            "Name another folder, or delete it."
        )
    return index


def write_shard(folder: Path, index: dict[str, Any], columns: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Add a shard with the columns `DTYPES` to a recording: first its file, then the index, which lists its sha256."""
    name, content = f"shard-{len(index['shards']):04}.safetensors", save(columns, metadata)
    write_atomic(folder / name, content)
    last = int(columns["laps"][-1])
    entry = {"name": name, "frames": len(columns["frames"]), "last_seed": last, "sha256": _sha256(content)}
    index["shards"].append(entry)
    write_atomic(folder / INDEX, json.dumps({"format": FORMAT, "version": VERSION, **index}, indent=1).encode())


def _read_shard(path: Path, entry: dict[str, Any]) -> dict[str, Tensor]:
    try:
        content = path.read_bytes()
        if _sha256(content) != entry["sha256"]:
            raise ValueError("its sha256 is not the one in the index")
        columns = load(content)
    except Exception as err:  # damaged bytes can fail in any part of the parser
        raise _damaged(path, f"is damaged ({err}).") from None
    rows, shape = entry["frames"], (SIZE, SIZE)
    for name, dtype in DTYPES.items():
        column = columns.get(name, torch.empty(0))
        if column.dtype != dtype or len(column) != rows:
            raise _damaged(path, f"must hold {rows} {name} of {dtype}. It holds {len(column)} of {column.dtype}.")
    if columns["frames"].shape[1:] != shape or columns["actions"].shape[1:] != (3,):
        raise _damaged(path, f"must hold frames of {shape} and actions of 3 numbers.")
    return columns


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _damaged(path: Path, problem: str) -> RecordingError:
    return RecordingError(f"{path} {problem} Delete {path.parent} and record again.")
