"""What a cloned driver learns from: four frames, the expert's action, and the same frames in other shades."""

import numpy as np
import torch
from torch import Tensor

from nsac.lab.driving.recording import Recording
from nsac.lab.driving.world import FIELD, GREY, SIZE
from nsac.lab.tasks.base import Task
from nsac.methods import FrameProblem

FRAMES = 4
"""Of a sequence."""
COPIES = 2
"""Of every training row, each in its own shades; one epoch goes through all of them."""
PLAIN_SHARE = 0.3
"""Of the copies that stay as they were recorded."""
KNOTS = (0.0, 78.0, 100.0, 108.0, 157.0, 166.0, 173.0, 181.0, 255.0)
"""Shades of a recorded frame: car and kerbs, the road with its joints, background, patches of grass, kerbs."""
CHUNK = 64
"""Rows that are recoloured at a time."""
FAINT = 2.0
"""Shades of grey that are as good as none."""
SHARES = (0.1, 0.1, 0.1)
"""Of the laps that choose weights, calibrate and test."""

PROBLEM = FrameProblem(1, 3, frames=FRAMES, stack="racing", size=(SIZE, SIZE))
_TEXT = (
    "Behaviour cloning of a pure-pursuit expert in CarRacing-v3, which knows the track: {frames} grey frames of "
    "84 x 84, {laps} laps (recording {digest}), one every 40 ms, with short steering offsets from which the expert "
    "recovers. Four frames tell the expert's steering (-1 to 1), gas and brake (0 to 1). Whole laps are dealt with the "
    "seed: 70 % train, 10 % choose weights, 10 % calibrate, 10 % test. Training rows come {copies} times, most of them "
    "with the field in other shades of grey, alike for all methods; weights are chosen on rows of both kinds. Scores "
    "are of frames as recorded, over the three actions."
)


def see(frames: Tensor) -> Tensor:
    """(B, S, 84, 84), uint8, as a network sees it, (B, S, 1, 84, 84).

    The field is centred and scaled by its newest frame, so that a faint road is seen as well as a bright one;
    the indicators keep their own scale.
    """
    x = frames.float()
    std, mean = torch.std_mean(x[:, -1, :FIELD], (-2, -1))
    mean, std = (v[:, None, None, None] for v in (mean, std + FAINT))
    return torch.cat([(x[:, :, :FIELD] - mean) / std, x[:, :, FIELD:] / 64], 2).unsqueeze(2)


def random_shades(rows: int, seed: int) -> Tensor:
    """(rows, 3): shades of road, background and grass, as the simulator's own randomisation of colours would give."""
    random = np.random.default_rng(seed)
    road, background = (random.uniform(0, 210, (rows, 3)) @ np.array(GREY) for _ in range(2))
    grass = background + 20 * np.array(GREY)[random.integers(3, size=rows)]
    return torch.from_numpy(np.stack([road, background, grass], 1)).float()


def tone_tables(shades: Tensor) -> Tensor:
    """(rows, 256), uint8: what takes the place of each shade of a recorded field so that it has the given ones."""
    road, background, grass = shades.T
    kept = {i: torch.full_like(road, KNOTS[i]) for i in (0, 1, -1)}
    to = torch.stack([kept[0], kept[1], road - 2, road + 6, background, background, grass, grass, kept[-1]], 1)
    knots, levels = torch.tensor(KNOTS), torch.arange(256.0)
    right = torch.searchsorted(knots, levels).clamp(min=1)
    share = (levels - knots[right - 1]) / (knots[right] - knots[right - 1])
    return torch.lerp(to[:, right - 1], to[:, right], share).round().clamp(0, 255).to(torch.uint8)


def recolour(frames: Tensor, tones: Tensor) -> Tensor:
    """Frames, (B, S, 84, 84), with the shades of the field replaced, by a table, (B, 256), for each row."""
    new = frames.clone()
    for rows in torch.arange(len(frames)).split(CHUNK):  # an index takes eight bytes per pixel
        field = frames[rows, :, :FIELD]
        new[rows, :, :FIELD] = tones[rows].gather(1, field.flatten(1).long()).view_as(field)
    return new


class Sequences:
    """Rows of a recording: the frames up to each, and the action; a part of a task.

    Args:
        recording: of the expert.
        rows: numbers of the frames at which something is to be done.
        shift, scale: mean and deviation of the actions of training.
        copies: how often each row comes; if more than once, most copies have other shades in all their frames. Which
            ones depends on nothing but the row and the seed, so training can be stopped and resumed.
        seed: fixes the shades.
    """

    def __init__(
        self, recording: Recording, rows: Tensor, shift: Tensor, scale: Tensor, copies: int = 1, seed: int = 0
    ):
        self.recording, self.rows, self.shift, self.scale, self.copies = recording, rows, shift, scale, copies
        total = copies * len(rows)
        self._shades = random_shades(total, seed)
        plain = torch.from_numpy(np.random.default_rng((seed, 1)).uniform(size=total) < PLAIN_SHARE)
        self._shaded = ~plain & (copies > 1)
        laps = recording.laps
        change = torch.cat([torch.ones(1, dtype=torch.bool), laps[1:] != laps[:-1]])
        self._start = torch.where(change, torch.arange(len(laps)), 0).cummax(0).values  # of the lap each frame is in

    def __len__(self) -> int:
        return self.copies * len(self.rows)

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """Frames as a network sees them, and standardised actions; before a lap's first frame there is only it."""
        last = self.rows[rows % len(self.rows)]
        back = last[:, None] + torch.arange(1 - FRAMES, 1)
        frames = self.recording.frames[torch.maximum(back, self._start[last][:, None])]
        shaded = self._shaded[rows]
        if shaded.any():
            frames[shaded] = recolour(frames[shaded], tone_tables(self._shades[rows[shaded]]))
        return {"x": see(frames), "y": (self.recording.actions[last] - self.shift) / self.scale}

    def unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """From standardised actions to actions."""
        return self.shift, self.scale


def clone_task(recording: Recording, seed: int, name: str = "carracing") -> Task:
    """The task of cloning the expert, split by laps."""
    parts = split_laps(recording.laps, seed)
    actions = recording.actions[parts["train"]]
    shift, scale = actions.mean(0), actions.std(0).clamp(min=1e-3)
    copies = {"train": COPIES, "validation": 2}
    data = {
        part: Sequences(recording, rows, shift, scale, copies.get(part, 1), 10 * seed + i)
        for i, (part, rows) in enumerate(parts.items())
    }
    text = _TEXT.format(
        frames=len(recording), laps=len(recording.laps.unique()), digest=recording.digest, copies=COPIES
    )
    rows = data["train"], data["validation"], data["calibration"], data["test"]
    return Task(name, "sound", seed, text, "steering, gas and brake", PROBLEM, *rows, baselines=("mean",))


def split_laps(laps: Tensor, seed: int) -> dict[str, Tensor]:
    """Rows of each part; a lap is in one part only."""
    names = laps.unique()
    if len(names) < 4:
        raise ValueError(f"A recording must have at least 4 laps, one for each part. Got {len(names)} instead.")
    order = names[torch.from_numpy(np.random.default_rng(seed).permutation(len(names)))]
    sizes = [max(1, round(share * len(names))) for share in SHARES]
    *others, train = order.split([*sizes, len(names) - sum(sizes)])
    parts = {"train": train, **dict(zip(("validation", "calibration", "test"), others, strict=True))}
    return {name: torch.isin(laps, chosen).nonzero().squeeze(1) for name, chosen in parts.items()}
