"""Steering in the Udacity simulator: frames cropped, shrunk and converted to YUV, with augmentation for training."""

import io
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nsac.lab.datasets.store import DataError
from nsac.lab.datasets.udacity import Drive, load_drive
from nsac.lab.tasks.base import SPLITS, Task, task
from nsac.methods import FrameProblem

HEIGHT, WIDTH = 66, 200  # of a network input, in pixels
SKY_ROWS, BONNET_ROWS = 60, 25
"""Rows cropped from the top and the bottom of a frame of 160 rows: they do not show the road."""
CAMERA_SHAPE = (160, 320, 3)  # shape of the simulator's frames
MAX_PICTURE_BYTES = 200_000
"""Bytes of an encoded frame at most; uncompressed, it has 153,600."""
BLOCK_FRAMES, GUARD_FRAMES = 200, 10
"""Consecutive frames that stay in one split, 20 seconds, and frames dropped at both ends of a block: neighbouring
frames are almost equal."""
COPIES = 8  # copies of every training row, each augmented on its own; one epoch passes over all of them
MAX_SHIFT, STEERING_PER_COLUMN = 16, 0.0032
"""Largest horizontal shift of a frame, in columns, and the change of the steering per column that corrects it."""
MAX_LIFT = 5  # largest vertical shift, in rows
BRIGHTNESS, SHADOW = (0.7, 1.3), (0.4, 0.8)
"""Ranges of the factor on the brightness of a frame, and of the factor inside a shadow."""
RGB_TO_YUV = np.array([[0.299, 0.587, 0.114], [-0.14713, -0.28886, 0.436], [0.615, -0.51499, -0.10001]])
PROBLEM = FrameProblem(3, 1, frames=1, stack="pilot", size=(HEIGHT, WIDTH))
_TEXT = (
    "Steering in the Udacity simulator from its centre camera, 5111 frames around the lake in 532 s: cropped, shrunk "
    "to 66 x 200 and converted to YUV; the target is -1 to 1, where 1 is 25 degrees to the right. 70 % of the angles "
    f"are exactly 0. Blocks of {BLOCK_FRAMES} consecutive frames, without the {GUARD_FRAMES} at both ends, are split "
    "at random with the seed: 60 % train, 10 % validation, 10 % calibration, 20 % test. Each training row has "
    f"{COPIES} copies, flipped, shifted, brightened and shaded, the same for all methods."
)


class FrameError(DataError):
    """A frame that is not a picture of the camera."""


def road_task(seed: int, drive: Drive | None = None) -> Task:
    """Steering around the lake, split by blocks of time."""
    drive = drive or load_drive("lake")
    frames, steering = read_frames(drive), torch.tensor(drive.steering, dtype=torch.float32)
    splits = split_blocks(drive.segment, seed)
    scale = steering[splits["train"]].square().mean().sqrt()
    data = {}
    for name, rows in splits.items():
        data[name] = Frames(frames, steering, rows, scale, COPIES if name == "train" else 1, seed)
    rows = data["train"], data["validation"], data["calibration"], data["test"]
    return Task("udacity", "sound", seed, _TEXT, "steering, -1 to 1", PROBLEM, *rows, baselines=("zero", "mean"))


def split_blocks(segment: np.ndarray, seed: int) -> dict[str, Tensor]:
    """Rows of each split: blocks of consecutive frames of a segment, without those at their ends."""
    blocks = []
    for number in np.unique(segment):
        rows = np.flatnonzero(segment == number)
        pieces = np.array_split(rows, max(1, round(len(rows) / BLOCK_FRAMES)))
        blocks += [block for block in pieces if len(block) > 3 * GUARD_FRAMES]
    order = np.random.default_rng(seed).permutation(len(blocks))
    sizes = [max(1, round(share * len(blocks))) for share in (0.1, 0.1, 0.2)]
    *held_out, train = np.split(order, np.cumsum(sizes))
    splits = {}
    for name, chosen in zip(SPLITS, (train, *held_out), strict=True):
        inner = [blocks[i][GUARD_FRAMES:-GUARD_FRAMES] for i in chosen]
        splits[name] = torch.from_numpy(np.sort(np.concatenate(inner)))
    return splits


class Frames:
    """Some rows of a drive with frames, (n, 66, 200, 3), and steering, (n,), divided by `scale`; a split of a task.

    With several copies of each row, each is augmented, by row and seed alone.
    """

    def __init__(self, frames: Tensor, steering: Tensor, rows: Tensor, scale: Tensor, copies: int = 1, seed: int = 0):
        self.frames, self.steering, self.rows, self.scale, self.copies = frames, steering, rows, scale, copies
        self._augmentation = random_augmentation(copies * len(rows), seed) if copies > 1 else None

    def __len__(self) -> int:
        return self.copies * len(self.rows)

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """Network inputs, and steering over its scale."""
        chosen = self.rows[rows % len(self.rows)]
        frames, steering = self.frames[chosen], self.steering[chosen]
        if self._augmentation is not None:
            each = Augmentation(*(column[rows] for column in self._augmentation))
            frames, steering = augment(frames, steering, each)
        return {"x": network_input(frames.unsqueeze(1)), "y": (steering / self.scale).unsqueeze(1)}

    def unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """From the unit of the model to steering."""
        return torch.zeros(1), self.scale.view(1)


def read_frames(drive: Drive) -> Tensor:
    """All frames of a drive, prepared, (n, 66, 200, 3)."""
    frames = [prepare(decode(drive.jpeg(i), f"{name} in {drive.archive}")) for i, name in enumerate(drive.names)]
    return torch.from_numpy(np.stack(frames))


def decode(jpeg: bytes, name: str) -> np.ndarray:
    """A picture from its bytes, (160, 320, 3), red, green, blue; `FrameError` with its name if it is damaged.

    Its size is read from its header: a picture of another size is not decoded, since a small file can hold a huge one.
    """
    from PIL import Image  # extra `drive`

    height, width, _ = CAMERA_SHAPE
    if len(jpeg) > MAX_PICTURE_BYTES:
        raise FrameError(f"{name} must have at most {MAX_PICTURE_BYTES} bytes. Got {len(jpeg)} instead.")
    try:
        picture = Image.open(io.BytesIO(jpeg), formats=("JPEG", "PNG"))  # reads the header only
        if picture.size == (width, height):
            return np.asarray(picture.convert("RGB"))
    except Exception as err:  # damaged bytes fail in any part of the decoder
        raise FrameError(f"{name} is not a complete picture ({err}). Replace it with an intact copy.") from None
    raise FrameError(f"{name} must be a picture of {width} x {height}. Got {picture.size} instead.")


def prepare(picture: np.ndarray) -> np.ndarray:
    """A picture, (160, 320, 3), red, green, blue, as a frame, (66, 200, 3), Y, U, V, uint8."""
    from PIL import Image

    cropped = Image.fromarray(picture[SKY_ROWS:-BONNET_ROWS]).resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    return np.rint(np.asarray(cropped) @ RGB_TO_YUV.T + [0, 128, 128]).clip(0, 255).astype(np.uint8)


def network_input(frames: Tensor) -> Tensor:
    """Frames, (B, S, 66, 200, 3), uint8, as input of a network, (B, S, 3, 66, 200), about -2 to 2."""
    return (frames.float() / 64 - 2).movedim(-1, 2)


class Augmentation(NamedTuple):
    """How copies of frames differ from the original, (rows,) each."""

    flip: Tensor
    right: Tensor
    down: Tensor
    brightness: Tensor
    shadow: Tensor
    edge: Tensor  # (rows, 3): the shadow is where a + b x + c y > 0, with x and y from -1 to 1


def random_augmentation(rows: int, seed: int) -> Augmentation:
    """Random flips, shifts, brightness and shadows; half of the copies are flipped, and half have a shadow."""
    generator = np.random.default_rng(seed)
    half = generator.uniform(size=(2, rows)) < 0.5
    angle = generator.uniform(0, 2 * np.pi, rows)
    edge = np.stack([generator.uniform(-0.7, 0.7, rows), np.cos(angle), np.sin(angle)], 1)
    return Augmentation(
        torch.from_numpy(half[0]),
        torch.from_numpy(np.rint(generator.uniform(-MAX_SHIFT, MAX_SHIFT, rows)).astype(np.int64)),
        torch.from_numpy(generator.integers(-MAX_LIFT, MAX_LIFT + 1, rows)),
        torch.from_numpy(generator.uniform(*BRIGHTNESS, rows)).float(),
        torch.from_numpy(np.where(half[1], generator.uniform(*SHADOW, rows), 1.0)).float(),
        torch.from_numpy(edge).float(),
    )


def augment(frames: Tensor, steering: Tensor, by: Augmentation) -> tuple[Tensor, Tensor]:
    """Frames, (B, 66, 200, 3), and steering, (B,), augmented; a frame shifted to the right is steered to the right."""
    b, h, w, _ = frames.shape
    rows = (torch.arange(h) - by.down[:, None]).clamp(0, h - 1)
    columns = (torch.arange(w) - by.right[:, None]).clamp(0, w - 1)
    columns = torch.where(by.flip[:, None], columns.flip(1), columns)
    moved = frames[torch.arange(b)[:, None, None], rows[:, :, None], columns[:, None, :]]
    x, y = torch.linspace(-1, 1, w), torch.linspace(-1, 1, h)
    side = by.edge[:, :1, None] + by.edge[:, 1:2, None] * x + by.edge[:, 2:, None] * y[:, None]  # b h w
    light = torch.where(side > 0, by.shadow[:, None, None], 1.0) * by.brightness[:, None, None]
    luma = (moved[..., 0] * light).clamp(0, 255).to(torch.uint8)
    turned = steering + STEERING_PER_COLUMN * by.right
    return torch.cat([luma.unsqueeze(-1), moved[..., 1:]], -1), torch.where(by.flip, -turned, turned).clamp(-1, 1)


task("udacity", "sound")(road_task)
