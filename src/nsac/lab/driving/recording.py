"""Making a recording of the expert: laps in the order of their seeds, in shards.

Laps follow from their seeds, so an interrupted recording resumes after its last complete shard and ends with the same
bits.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nsac.lab.datasets.carracing import DTYPES, INDEX, RecordConfig, Recording, load_recording, read_index, write_shard
from nsac.lab.driving.expert import Expert
from nsac.lab.driving.world import DONE, HOLD, World


def record(
    folder: str | Path, config: RecordConfig | None = None, report: Callable[[int], None] | None = None
) -> Recording:
    """Record the expert, or resume a recording that was interrupted; a folder with another configuration is refused."""
    folder, config = Path(folder), config or RecordConfig()
    index = read_index(folder, config) if (folder / INDEX).exists() else {"config": asdict(config), "shards": []}
    done = sum(shard["frames"] for shard in index["shards"])
    seed = index["shards"][-1]["last_seed"] + 1 if index["shards"] else config.first_seed
    if done >= config.frames:
        return load_recording(folder)
    world = World()
    while done < config.frames:
        laps, size = [], 0
        while size < config.shard and done + size < config.frames:
            laps.append(record_lap(world, seed, config))
            size += len(laps[-1]["frames"])
            seed += 1
            if report is not None:
                report(min(done + size, config.frames))
        columns = {name: torch.cat([lap[name] for lap in laps])[: config.frames - done] for name in DTYPES}
        write_shard(folder, index, columns, {"hold": str(HOLD)})
        done += len(columns["frames"])
    world.close()
    return load_recording(folder)


def record_lap(world: World, seed: int, config: RecordConfig) -> dict[str, Tensor]:
    """One lap of the expert whose steering is disturbed now and then; the undisturbed actions are recorded."""
    offsets = _offsets(np.random.default_rng((config.first_seed, seed)), config)
    frame, rows = world.start(seed), []
    expert = Expert(world)
    while world.visited < DONE and not world.over and len(rows) < config.limit:
        action = expert.act()
        rows.append((frame, action, seed, world.track.project(world.position)[1]))
        frame = world.step(action + [next(offsets), 0, 0])
    columns = [torch.from_numpy(np.array(column)) for column in zip(*rows, strict=True)]
    return {name: column.to(dtype) for (name, dtype), column in zip(DTYPES.items(), columns, strict=True)}


def _offsets(generator: np.random.Generator, config: RecordConfig) -> Iterator[float]:
    while True:  # action by action: zero, or a constant over a few actions
        if generator.uniform() < config.bursts:
            offset = generator.uniform(-config.offset, config.offset)
            for _ in range(generator.integers(2, config.longest + 1)):
                yield offset
        else:
            yield 0.0
