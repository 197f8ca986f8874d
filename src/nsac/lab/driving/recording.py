"""Making a recording of the expert: laps in the order of their seeds, in shards.

Laps follow from their seeds, so an interrupted recording resumes after its last complete shard and ends with the same
bits.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from nsac.lab.datasets.carracing import (
    DTYPES,
    INDEX,
    RecordConfig,
    Recording,
    load_recording,
    read_index,
    write_shard,
)
from nsac.lab.driving.expert import Expert
from nsac.lab.driving.world import DONE, HOLD, World


def record(
    folder: str | Path, config: RecordConfig | None = None, report: Callable[[int], None] | None = None
) -> Recording:
    """Record the expert, or resume a recording that was interrupted.

    Args:
        folder: of the recording.
        config: its configuration; a folder with another one is refused.
        report: called with the number of frames so far.
    """
    folder, config = Path(folder), config or RecordConfig()
    index = read_index(folder, config) if (folder / INDEX).exists() else {"config": asdict(config), "shards": []}
    done = sum(shard["frames"] for shard in index["shards"])
    seed = index["shards"][-1]["last_seed"] + 1 if index["shards"] else config.first_seed
    world = World() if done < config.frames else None
    while done < config.frames:
        assert world is not None
        laps: list[dict[str, np.ndarray]] = []
        size = 0
        while size < config.shard and done + size < config.frames:
            lap = record_lap(world, seed, config)
            left = config.frames - done - size
            laps.append({name: column[:left] for name, column in lap.items()})
            size += len(laps[-1]["frames"])
            seed += 1
            if report is not None:
                report(done + size)
        columns = {name: torch.from_numpy(np.concatenate([lap[name] for lap in laps])) for name in DTYPES}
        write_shard(folder, index, columns, {"hold": str(HOLD)})
        done += size
    if world is not None:
        world.close()
    return load_recording(folder)


def record_lap(world: World, seed: int, config: RecordConfig) -> dict[str, np.ndarray]:
    """One lap of the expert whose steering is disturbed now and then; the undisturbed actions are recorded."""
    generator = np.random.default_rng((config.first_seed, seed))
    offsets = _offsets(generator, config)
    frame, rows = world.start(seed), []
    expert = Expert(world)
    while world.visited < DONE and not world.over and len(rows) < config.limit:
        action = expert.act()
        rows.append((frame, action, seed, world.track.project(world.position)[1]))
        frame = world.step(action + [next(offsets), 0, 0])
    frames, actions, laps, distances = zip(*rows, strict=True)
    return {
        "frames": np.stack(frames),
        "actions": np.stack(actions).astype(np.float32),
        "laps": np.array(laps, np.int32),
        "distances": np.array(distances, np.float32),
    }


def _offsets(generator: np.random.Generator, config: RecordConfig) -> Iterator[float]:
    """Offsets of the steering, action by action: zero, or a constant over a few actions."""
    while True:
        if generator.uniform() < config.bursts:
            offset = generator.uniform(-config.offset, config.offset)
            for _ in range(generator.integers(2, config.longest + 1)):
                yield offset
        else:
            yield 0.0
