"""An expert that drives CarRacing, and its recording: laps in the order of their seeds, in shards.

It pursues the centreline, with a target speed for every bend. It is privileged: it uses the track and the position and
speed of the car, and no frame. Laps follow from their seeds, so an interrupted recording resumes after its last
complete shard and ends with the same bits.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nsac.lab.datasets.carracing import DTYPES, INDEX, RecordConfig, Recording, load_recording, read_index, write_shard
from nsac.lab.driving.world import DONE, HOLD, Track, World

LOOKAHEAD, LOOKAHEAD_PER_SPEED = 6.0, 0.15
"""Distance to the pursued point at rest, and what is added per unit of speed."""
STEERING_GAIN, WHEEL_BASE = 1.2, 3.24
MIN_SPEED, MAX_SPEED = 30.0, 85.0
GRIP, BRAKING = 170.0, 260.0
"""Largest speed squared times curvature without sliding; speed squared that braking removes per unit of length."""
THROTTLE_GAIN, BRAKE_GAIN, SPEED_TOLERANCE = 0.05, 0.05, 2.0
"""Throttle and brake per unit of speed too low or too high; within the tolerance there is no braking."""
MAX_BRAKE = 0.8
"""Upper limit of the brake: locked wheels do not steer."""
MIN_HEADING_COSINE, RECOVERY_SPEED = 0.5, 20.0
"""A car off the road, or whose heading is farther from the pursued point, returns at this speed, without spinning."""


def speed_profile(track: Track) -> np.ndarray:
    """Target speed at each point of the track, limited by the bends and by the distance to brake for them."""
    speed = np.sqrt(GRIP / np.abs(track.curvature()).clip(1e-9)).clip(MIN_SPEED, MAX_SPEED)
    for i in range(2 * len(speed) - 1, -1, -1):  # two rounds, since the centreline is closed
        here, ahead = i % len(speed), (i + 1) % len(speed)
        speed[here] = min(speed[here], np.sqrt(speed[ahead] ** 2 + BRAKING * track.lengths[here]))
    return speed


class Expert:
    """The expert for the current track of a world."""

    def __init__(self, world: World):
        self.world, self.track = world, world.track
        self.speeds = speed_profile(self.track)

    def act(self) -> np.ndarray:
        """Steering, throttle and brake, (3,), for the current state of the world."""
        world = self.world
        along, off_centre = self.track.project(world.position)
        speed, heading = world.speed, world.heading
        pursued = self.track.at(along + LOOKAHEAD + LOOKAHEAD_PER_SPEED * speed) - world.position
        distance = max(float(np.hypot(*pursued)), 1e-6)
        sine = float(heading[0] * pursued[1] - heading[1] * pursued[0]) / distance
        if heading @ pursued < 0:
            sine = np.sign(sine) or 1.0  # the point is behind the car: turn fully
        steering = float(np.clip(-STEERING_GAIN * np.arctan2(2 * WHEEL_BASE * sine, distance), -1, 1))
        piece = int(np.searchsorted(self.track.starts, along % self.track.length, "right")) - 1
        target = self.speeds[min(piece, len(self.speeds) - 1)]
        if off_centre > self.track.half_width or heading @ pursued < MIN_HEADING_COSINE * distance:
            target = min(target, RECOVERY_SPEED)
        missing = target - speed
        throttle = float(np.clip(THROTTLE_GAIN * missing, 0, 1)) * (1 - abs(steering))
        brake = float(np.clip(BRAKE_GAIN * -missing, 0, MAX_BRAKE)) if missing < -SPEED_TOLERANCE else 0.0
        return np.array([steering, throttle, brake])


def record(
    folder: str | Path, config: RecordConfig | None = None, report: Callable[[int], None] = lambda frames: None
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
