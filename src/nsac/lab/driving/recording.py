"""Recordings of the expert: frames and what it would have done, in shards that are whole or not there.

A folder holds `recording.json`, which lists the shards with their sha256, and `shard-0000.safetensors`, ... Laps are
made in the order of their seeds, so a recording that was stopped goes on where its last whole shard ends, and is the
same to the bit.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac._checks import check_int
from nsac._io import write_atomic
from nsac.lab.datasets.store import cache_folder
from nsac.lab.driving.errors import RecordingError
from nsac.lab.driving.expert import Expert
from nsac.lab.driving.world import DONE, HOLD, SIZE, World

FORMAT, VERSION = "nsac-recording", 1
INDEX = "recording.json"
KINDS = {"frames": torch.uint8, "actions": torch.float32, "laps": torch.int32, "distances": torch.float32}


@dataclass(frozen=True)
class RecordConfig:
    """The numbers of a recording."""

    frames: int = 30_000
    """in all; the last lap is cut"""
    first_seed: int = 0
    """of the first track; laps take the seeds after it"""
    shard: int = 7_000
    """frames after which a shard ends with its lap: about 50 MB"""
    bursts: float = 0.03
    """chance that a steering offset begins, per action"""
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


@dataclass(frozen=True)
class Recording:
    """Frames in order of laps and time, and the expert's action for each."""

    frames: Tensor
    """(n, 84, 84), uint8"""
    actions: Tensor
    """(n, 3): steering, gas and brake that the expert wanted, not what was done with it"""
    laps: Tensor
    """(n,), seed of the track"""
    distances: Tensor
    """(n,), to the centreline"""
    config: RecordConfig
    digest: str
    """of all shards"""

    def __len__(self) -> int:
        return len(self.frames)


def recordings_folder() -> Path:
    """Where the recording is, unless another folder is named: `NSAC_RECORDING`, or in the cache."""
    return Path(os.environ.get("NSAC_RECORDING") or cache_folder() / "carracing")


def record(
    folder: str | Path, config: RecordConfig | None = None, report: Callable[[int], None] | None = None
) -> Recording:
    """Record the expert, or what is still missing of a recording with these numbers.

    Args:
        folder: of the recording.
        config: numbers; a folder with other ones is refused.
        report: called with the number of frames so far.
    """
    folder, config = Path(folder), config or RecordConfig()
    index = _read_index(folder, config) if (folder / INDEX).exists() else {"config": asdict(config), "shards": []}
    done = sum(shard["frames"] for shard in index["shards"])
    seed = index["shards"][-1]["last_seed"] + 1 if index["shards"] else config.first_seed
    world = World() if done < config.frames else None
    while done < config.frames:
        assert world is not None
        shard: list[dict[str, np.ndarray]] = []
        size = 0
        while size < config.shard and done + size < config.frames:
            lap = record_lap(world, seed, config)
            left = config.frames - done - size
            shard.append({name: column[:left] for name, column in lap.items()})
            size += len(shard[-1]["frames"])
            seed += 1
            if report is not None:
                report(done + size)
        name = f"shard-{len(index['shards']):04}.safetensors"
        content = _pack(shard)
        write_atomic(folder / name, content)
        about = {"name": name, "frames": size, "last_seed": seed - 1, "sha256": hashlib.sha256(content).hexdigest()}
        index["shards"].append(about)
        write_atomic(folder / INDEX, json.dumps({"format": FORMAT, "version": VERSION, **index}, indent=1).encode())
        done += size
    if world is not None:
        world.close()
    return load_recording(folder)


def record_lap(world: World, seed: int, config: RecordConfig) -> dict[str, np.ndarray]:
    """One lap of the expert, disturbed now and then; what it wants is kept, not what the car was made to do."""
    random = np.random.default_rng((config.first_seed, seed))
    offsets = _offsets(random, config)
    frame, rows = world.start(seed), []
    expert = Expert(world)
    while world.visited < DONE and not world.over and len(rows) < config.limit:
        wanted = expert.act()
        rows.append((frame, wanted, seed, world.track.project(world.position)[1]))
        frame = world.step(wanted + [next(offsets), 0, 0])
    frames, actions, laps, distances = zip(*rows, strict=True)
    return {
        "frames": np.stack(frames),
        "actions": np.stack(actions).astype(np.float32),
        "laps": np.array(laps, np.int32),
        "distances": np.array(distances, np.float32),
    }


def load_recording(folder: str | Path | None = None) -> Recording:
    """A whole recording, every shard checked; otherwise `RecordingError`."""
    folder = recordings_folder() if folder is None else Path(folder)
    if not (folder / INDEX).is_file():
        raise RecordingError(f"{folder} holds no recording. Make one: `nsac drive record --out {folder}`.")
    index = _read_index(folder)
    config = RecordConfig(**index["config"])
    parts = [_unpack(folder / about["name"], about) for about in index["shards"]]
    found = sum(len(part["frames"]) for part in parts)
    if found != config.frames:
        raise RecordingError(
            f"{folder} must hold {config.frames} frames. It holds {found}. "
            f"The recording was stopped: `nsac drive record --frames {config.frames} --out {folder}` goes on."
        )
    columns = {name: torch.cat([part[name] for part in parts]) for name in KINDS}
    digest = hashlib.sha256("".join(about["sha256"] for about in index["shards"]).encode()).hexdigest()
    return Recording(**columns, config=config, digest=digest[:16])


def _offsets(random: np.random.Generator, config: RecordConfig) -> Iterator[float]:
    while True:
        if random.uniform() < config.bursts:
            offset = random.uniform(-config.offset, config.offset)
            for _ in range(random.integers(2, config.longest + 1)):
                yield offset
        else:
            yield 0.0


def _read_index(folder: Path, config: RecordConfig | None = None) -> dict[str, Any]:
    path = folder / INDEX
    try:
        index = json.loads(path.read_bytes())
        if index.pop("format") != FORMAT or index.pop("version") != VERSION:
            raise ValueError("another format or version")
        found = RecordConfig(**index["config"])
        shards = [(Path(s["name"]).name, int(s["frames"]), int(s["last_seed"]), s["sha256"]) for s in index["shards"]]
        if any(name != s["name"] for (name, *_), s in zip(shards, index["shards"], strict=True)):
            raise ValueError("a shard in another folder")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as err:
        raise RecordingError(f"{path} is damaged ({err}). Delete {folder} and record anew.") from None
    if config is not None and found != config:
        other = next(f.name for f in fields(config) if getattr(found, f.name) != getattr(config, f.name))
        raise RecordingError(
            f"{folder} holds a recording with {other} {getattr(found, other)}, not {getattr(config, other)}. "
            "Name another folder, or delete it."
        )
    return index


def _pack(laps: list[dict[str, np.ndarray]]) -> bytes:
    from safetensors.torch import save

    columns = {name: np.concatenate([lap[name] for lap in laps]) for name in KINDS}
    return save({name: torch.from_numpy(column) for name, column in columns.items()}, {"hold": str(HOLD)})


def _unpack(path: Path, about: dict[str, Any]) -> dict[str, Tensor]:
    from safetensors.torch import load

    again = f"Delete {path.parent} and record anew."
    try:
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != about["sha256"]:
            raise ValueError("its sha256 is not the one in the index")
        columns = load(content)
    except Exception as err:  # whatever is wrong with the bytes
        raise RecordingError(f"{path} is damaged ({err}). {again}") from None
    rows, shape = about["frames"], (SIZE, SIZE)
    for name, kind in KINDS.items():
        column = columns.get(name)
        if column is None or column.dtype != kind or len(column) != rows:
            found = "nothing" if column is None else f"{len(column)} of {column.dtype}"
            raise RecordingError(f"{path} must hold {rows} {name} of {kind}. It holds {found}. {again}")
    if columns["frames"].shape[1:] != shape or columns["actions"].shape[1:] != (3,):
        raise RecordingError(f"{path} must hold frames of {shape} and actions of 3 numbers. {again}")
    return columns
