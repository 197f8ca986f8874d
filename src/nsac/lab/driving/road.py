"""The Udacity simulator's road: frames cut, shrunk and turned to YUV, and changed so that few of them teach much."""

import io
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nsac.lab.datasets.udacity import Drive, load_drive
from nsac.lab.driving.errors import DrivingError
from nsac.lab.tasks.base import Task
from nsac.methods import FrameProblem

HEIGHT, WIDTH = 66, 200
SKY, BONNET = 60, 25
"""Rows cut from the top and the bottom of a frame of 160 rows: no road is there."""
CAMERA = (160, 320, 3)
"""Shape of the simulator's frames."""
BLOCK, GUARD = 200, 10
"""Neighbouring frames that stay together, 20 seconds, and those left out at both ends of a block: they look alike."""
COPIES = 8
"""Of every training row, each changed in its own way; one epoch goes through all of them."""
SHIFT, PER_PIXEL = 16, 0.0032
"""A frame is moved by so many of its 200 columns at most, and the wheel turned by so much per column to come back."""
LIFT = 5
"""Rows it is moved by at most."""
BRIGHT, SHADOW = (0.7, 1.3), (0.4, 0.8)
"""Brightness, and what is left of it in a shadow."""

PROBLEM = FrameProblem(3, 1, frames=1, stack="pilot", size=(HEIGHT, WIDTH))
_TEXT = (
    "Steering of the Udacity simulator by its centre camera, 5111 frames round the lake in 532 s: cut, shrunk to "
    "66 x 200 and turned to YUV; -1 to 1, where 1 is 25 degrees to the right. 70 % of the angles are exactly 0. Blocks "
    f"of {BLOCK} neighbouring frames, without the {GUARD} at both ends, are dealt with the seed: 60 % train, 10 % "
    f"choose weights, 10 % calibrate, 20 % test. Training rows come {COPIES} times, flipped, moved, brightened and "
    "shaded, alike for all methods."
)


class FrameError(DrivingError):
    """A frame that is no picture of the camera."""


def decode(jpeg: bytes, name: str) -> np.ndarray:
    """Bytes of a picture, (160, 320, 3), red, green, blue; `FrameError` with its name if it is none."""
    from PIL import Image  # extra `drive`

    try:
        picture = np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))
    except Exception as err:  # damaged bytes fail in any part of the decoder
        raise FrameError(f"{name} is not a whole picture ({err}). Put an intact copy in its place.") from None
    if picture.shape != CAMERA:
        raise FrameError(f"{name} must be a picture of {CAMERA[1]} x {CAMERA[0]}. Got {picture.shape[1::-1]} instead.")
    return picture


def prepare(picture: np.ndarray) -> np.ndarray:
    """(160, 320, 3), red, green, blue, to (66, 200, 3), Y, U, V, uint8."""
    from PIL import Image

    road = Image.fromarray(picture[SKY:-BONNET]).resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    return np.rint(np.asarray(road) @ _YUV.T + [0, 128, 128]).clip(0, 255).astype(np.uint8)


_YUV = np.array([[0.299, 0.587, 0.114], [-0.14713, -0.28886, 0.436], [0.615, -0.51499, -0.10001]])


def see(frames: Tensor) -> Tensor:
    """(B, S, 66, 200, 3), uint8, as a network sees it, (B, S, 3, 66, 200), about -2 to 2."""
    return (frames.float() / 64 - 2).movedim(-1, 2)


def read_frames(drive: Drive) -> Tensor:
    """All frames of a drive, prepared, (n, 66, 200, 3)."""
    frames = [prepare(decode(drive.jpeg(i), f"{name} in {drive.archive}")) for i, name in enumerate(drive.names)]
    return torch.from_numpy(np.stack(frames))


class Changes(NamedTuple):
    """How copies of frames differ from the original, (rows,) each."""

    flip: Tensor
    right: Tensor
    down: Tensor
    bright: Tensor
    shadow: Tensor
    edge: Tensor  # (rows, 3): the shadow is where a + b x + c y > 0, with x and y from -1 to 1


def random_changes(rows: int, seed: int) -> Changes:
    """Each with some chance to be none."""
    random = np.random.default_rng(seed)
    half = random.uniform(size=(2, rows)) < 0.5
    angle = random.uniform(0, 2 * np.pi, rows)
    edge = np.stack([random.uniform(-0.7, 0.7, rows), np.cos(angle), np.sin(angle)], 1)
    return Changes(
        torch.from_numpy(half[0]),
        torch.from_numpy(np.rint(random.uniform(-SHIFT, SHIFT, rows)).astype(np.int64)),
        torch.from_numpy(random.integers(-LIFT, LIFT + 1, rows)),
        torch.from_numpy(random.uniform(*BRIGHT, rows)).float(),
        torch.from_numpy(np.where(half[1], random.uniform(*SHADOW, rows), 1.0)).float(),
        torch.from_numpy(edge).float(),
    )


def change(frames: Tensor, steering: Tensor, by: Changes) -> tuple[Tensor, Tensor]:
    """Frames, (B, 66, 200, 3), and steering, (B,), changed; a picture moved right calls for the right."""
    b, h, w, _ = frames.shape
    rows = (torch.arange(h) - by.down[:, None]).clamp(0, h - 1)
    columns = (torch.arange(w) - by.right[:, None]).clamp(0, w - 1)
    columns = torch.where(by.flip[:, None], columns.flip(1), columns)
    moved = frames[torch.arange(b)[:, None, None], rows[:, :, None], columns[:, None, :]]
    x, y = torch.linspace(-1, 1, w), torch.linspace(-1, 1, h)
    side = by.edge[:, :1, None] + by.edge[:, 1:2, None] * x + by.edge[:, 2:, None] * y[:, None]  # b h w
    light = torch.where(side > 0, by.shadow[:, None, None], 1.0) * by.bright[:, None, None]
    luma = (moved[..., 0] * light).clamp(0, 255).to(torch.uint8)
    turned = steering + PER_PIXEL * by.right
    return torch.cat([luma.unsqueeze(-1), moved[..., 1:]], -1), torch.where(by.flip, -turned, turned).clamp(-1, 1)


class Frames:
    """Rows of a drive: a frame and its steering; a part of a task.

    Args:
        frames: (n, 66, 200, 3), of the whole drive.
        steering: (n,).
        rows: numbers of the frames that belong to the part.
        scale: root mean square of the steering of training; 0 stays 0.
        copies: how often each row comes; if more than once, changed each time, by row and seed alone.
        seed: fixes the changes.
    """

    def __init__(self, frames: Tensor, steering: Tensor, rows: Tensor, scale: Tensor, copies: int = 1, seed: int = 0):
        self.frames, self.steering, self.rows, self.scale, self.copies = frames, steering, rows, scale, copies
        self._changes = random_changes(copies * len(rows), seed) if copies > 1 else None

    def __len__(self) -> int:
        return self.copies * len(self.rows)

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """Frames as a network sees them, and steering over its scale."""
        chosen = self.rows[rows % len(self.rows)]
        frames, steering = self.frames[chosen], self.steering[chosen]
        if self._changes is not None:
            frames, steering = change(frames, steering, Changes(*(column[rows] for column in self._changes)))
        return {"x": see(frames.unsqueeze(1)), "y": (steering / self.scale).unsqueeze(1)}

    def unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """From what is learnt to steering."""
        return torch.zeros(1), self.scale.view(1)


def road_task(seed: int, drive: Drive | None = None) -> Task:
    """Steering round the lake, split by blocks of time."""
    drive = drive or load_drive("lake")
    frames, steering = read_frames(drive), torch.tensor(drive.steering, dtype=torch.float32)
    parts = split_blocks(drive.segment, seed)
    scale = steering[parts["train"]].square().mean().sqrt()
    data = {
        name: Frames(frames, steering, rows, scale, COPIES if name == "train" else 1, seed)
        for name, rows in parts.items()
    }
    each = data["train"], data["validation"], data["calibration"], data["test"]
    return Task("udacity", "sound", seed, _TEXT, "steering, -1 to 1", PROBLEM, *each, baselines=("zero", "mean"))


def split_blocks(segment: np.ndarray, seed: int) -> dict[str, Tensor]:
    """Rows of each part: blocks of neighbouring frames of a segment, without those at their ends."""
    blocks = []
    for number in np.unique(segment):
        rows = np.flatnonzero(segment == number)
        blocks += [block for block in np.array_split(rows, max(1, round(len(rows) / BLOCK))) if len(block) > 3 * GUARD]
    order = np.random.default_rng(seed).permutation(len(blocks))
    validation, calibration, test = (max(1, round(share * len(blocks))) for share in (0.1, 0.1, 0.2))
    edges = np.cumsum([validation, calibration, test])
    names = dict(zip(("validation", "calibration", "test", "train"), np.split(order, edges), strict=True))
    parts = {name: np.concatenate([blocks[i][GUARD:-GUARD] for i in sorted(names[name])]) for name in names}
    return {name: torch.from_numpy(np.sort(parts[name])) for name in ("train", "validation", "calibration", "test")}
