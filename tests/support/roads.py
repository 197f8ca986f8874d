"""Small recordings, drives, policies and laps for tests."""

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nsac.lab.datasets.carracing import SIZE, RecordConfig, Recording, load_recording, write_shard
from nsac.lab.datasets.udacity import Drive
from nsac.lab.driving.lap import Lap
from nsac.lab.driving.policy import DrivingPolicy
from nsac.lab.driving.world import PLAIN
from nsac.lab.grid.config import RunConfig
from nsac.lab.tasks import carracing, udacity
from nsac.methods import METHODS
from nsac.models import NetworkConfig

NEURAL = ("nsac", "gmle", "mcd", "de", "der", "sdenet")


@contextmanager
def single_precision() -> Iterator[None]:
    """Network inputs of frames are in single precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.fixture(autouse=True)
def single() -> Iterator[None]:
    """Single precision in every test of the module that imports this."""
    with single_precision():
        yield


def made_recording(laps: int = 5, each: int = 8, seed: int = 0) -> Recording:
    """Frames of noise; each frame's first pixel is its number."""
    generator = np.random.default_rng(seed)
    frames = generator.integers(0, 256, (laps * each, SIZE, SIZE), dtype=np.uint8)
    frames[:, 0, 0] = np.arange(laps * each)
    actions = generator.uniform(0, 1, (laps * each, 3)).astype(np.float32)
    numbers = np.repeat(np.arange(laps), each).astype(np.int32)
    columns = [torch.from_numpy(column) for column in (frames, actions, numbers)]
    distances = torch.zeros(laps * each, dtype=torch.float32)
    return Recording(*columns, distances, RecordConfig(laps * each), "made")


def written_recording(folder: Path, shards: int = 3, each: int = 10) -> Recording:
    """A recording in a folder, with one lap per shard."""
    made = made_recording(shards, each)
    index = {"config": asdict(made.config), "shards": []}
    for i in range(shards):
        rows = slice(i * each, (i + 1) * each)
        columns = {name: getattr(made, name)[rows] for name in ("frames", "actions", "laps", "distances")}
        write_shard(folder, index, columns, {})
    return load_recording(folder)


def untrained(method: str, task: str = "carracing", seed: int = 0) -> DrivingPolicy:
    """A policy that has not been trained."""
    problem = {"carracing": carracing.PROBLEM, "udacity": udacity.PROBLEM}[task]
    network = {"num_heads": 4, "d_model": 32}
    config = RunConfig(task, "sound", method, seed, method, 1, num_samples=4, network=network)
    built = METHODS[method](replace(problem, network=NetworkConfig(**network)), seed=seed)
    ones = torch.ones(problem.output_dim)
    return DrivingPolicy(built, 0 * ones, 0.3 * ones, config, ones)


def made_lap(std: np.ndarray, finished: bool = True, distances: np.ndarray | None = None) -> Lap:
    """A lap on a circular track with these standard deviations of the steering."""
    n = len(std)
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    circle = 100 * np.stack([np.cos(angle), np.sin(angle)], 1)
    var = np.repeat(std[:, None] ** 2, 3, 1)
    return Lap(
        seed=1, colours=PLAIN, finished=finished, visited=0.96 if finished else 0.4, track=circle, half_width=6.67,
        seconds=0.04, positions=circle, distances=np.ones(n) if distances is None else distances,
        speeds=np.full(n, 60.0), actions=np.zeros((n, 3)), expert=np.full((n, 3), 0.1), aleatoric=0.75 * var,
        epistemic=0.25 * var, modes=("drive",) * n,
    )  # fmt: skip


def jpeg(seed: int = 0, size: tuple[int, int] = (320, 160)) -> bytes:
    """A picture of the camera's size."""
    image = pytest.importorskip("PIL.Image", reason="frames need the extra `drive`")
    generator = np.random.default_rng(seed)
    small = image.fromarray(generator.integers(0, 256, (8, 16, 3), dtype=np.uint8))
    out = io.BytesIO()
    small.resize(size).save(out, "JPEG")
    return out.getvalue()


def made_drive(folder: Path, frames: int = 900, broken: int | None = None) -> Drive:
    """A drive of ten pictures that repeat, in three segments."""
    names = tuple(f"IMG/{i % 10}.jpg" if i != broken else "IMG/broken.jpg" for i in range(frames))
    with tarfile.open(folder / "IMG.tar", "w") as tar:
        for name, content in [*((f"IMG/{i}.jpg", jpeg(i)) for i in range(10)), ("IMG/broken.jpg", jpeg()[:300])]:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    steering = np.sin(np.arange(frames) % 10)
    others = {name: np.zeros(frames) for name in ("throttle", "brake", "speed", "time")}
    return Drive(folder / "IMG.tar", names, steering, **others, segment=np.arange(frames) * 3 // frames)
