"""Behaviour cloning in CarRacing: four frames to the expert's action, with training frames in other shades of grey."""

import numpy as np
import torch
from torch import Tensor

from nsac.lab.datasets.carracing import (
    FIELD,
    GREY,
    MIN_LAPS,
    SIZE,
    RecordConfig,
    Recording,
    RecordingError,
    load_recording,
    recordings_folder,
)
from nsac.lab.tasks.base import SPLITS, Task, task
from nsac.methods import FrameProblem

RECORDED = {"carracing": 30_000, "carracing-48102": 48_102}
"""Frames of the recording each task is trained on; the larger one is the paper's number."""
FRAMES = 4  # frames of a sequence
COPIES = 2  # copies of every training and validation row, each in its own shades; one epoch passes over all of them
UNCHANGED_SHARE = 0.3  # share of the copies that keep the recorded shades
SHADE_KNOTS = (0.0, 78.0, 100.0, 108.0, 157.0, 166.0, 173.0, 181.0, 255.0)
"""Shades of a recorded frame: car and kerbs, road with its joints, background, patches of grass, kerbs."""
RECOLOURED_ROWS = 64  # rows that are recoloured at a time
MIN_CONTRAST = 2.0
"""Added to the standard deviation of a field, in shades of grey, so that an even field is not scaled up to noise."""
HELD_OUT_SHARES = (0.1, 0.1, 0.1)  # shares of the laps for validation, calibration and test
PROBLEM = FrameProblem(1, 3, frames=FRAMES, stack="racing", size=(SIZE, SIZE))
_TEXT = (
    "Behaviour cloning of a pure-pursuit expert in CarRacing-v3 that has access to the track: {frames} grey frames of "
    "84 x 84, {laps} laps (recording {digest}), one frame every 40 ms, with short steering offsets from which the "
    "expert recovers. The input is four frames; the targets are the expert's steering (-1 to 1), throttle and brake "
    "(0 to 1). Whole laps are split at random with the seed: 70 % train, 10 % validation, 10 % calibration, 10 % test. "
    f"Each training row has {COPIES} copies, most of them with the field in other shades of grey, the same for all "
    "methods; validation rows are of both kinds. Scores are of frames as recorded, over the three actions."
)


def build(name: str, seed: int) -> Task:
    """Cloning from the recording in `recordings_folder()`, which must have the task's number of frames."""
    recording, frames = load_recording(), RECORDED[name]
    if recording.config != RecordConfig(frames):
        raise RecordingError(
            f"{recordings_folder()} holds {len(recording)} frames, recorded with {recording.config}; task {name!r} "
            f"needs {frames} frames, recorded with the defaults. Name another folder in NSAC_RECORDING, or make one: "
            f"`nsac drive record --frames {frames}`. For a try with fewer: `nsac drive train carracing --recording`."
        )
    return clone_task(recording, seed, name)


def clone_task(recording: Recording, seed: int, name: str = "carracing") -> Task:
    """The task of cloning the expert, split by laps."""
    splits = split_laps(recording.laps, seed)
    actions = recording.actions[splits["train"]]
    shift, scale = actions.mean(0), actions.std(0).clamp(min=1e-3)
    data = {}
    for i, (split, rows) in enumerate(splits.items()):
        copies = COPIES if split in ("train", "validation") else 1
        data[split] = Sequences(recording, rows, shift, scale, copies, 10 * seed + i)
    text = _TEXT.format(frames=len(recording), laps=len(recording.laps.unique()), digest=recording.digest)
    rows = data["train"], data["validation"], data["calibration"], data["test"]
    return Task(name, "sound", seed, text, "steering, gas and brake", PROBLEM, *rows, baselines=("mean",))


def split_laps(laps: Tensor, seed: int) -> dict[str, Tensor]:
    """Rows of each split; a lap is in one split only."""
    names = laps.unique()
    if len(names) < MIN_LAPS:
        raise ValueError(
            f"A recording must have at least {MIN_LAPS} laps, one for each split. Got {len(names)}. Record more."
        )
    order = names[torch.from_numpy(np.random.default_rng(seed).permutation(len(names)))]
    sizes = [max(1, round(share * len(names))) for share in HELD_OUT_SHARES]
    *held_out, train = order.split([*sizes, len(names) - sum(sizes)])
    splits = zip(SPLITS, (train, *held_out), strict=True)
    return {name: torch.isin(laps, chosen).nonzero().squeeze(1) for name, chosen in splits}


class Sequences:
    """Some rows of a recording: the frames up to each, and the action; a split of a task.

    `shift` and `scale` standardise actions. With several copies of each row, most of them have other shades in all
    their frames, which depend only on the row and the seed, so that training can be interrupted and resumed.
    """

    def __init__(
        self, recording: Recording, rows: Tensor, shift: Tensor, scale: Tensor, copies: int = 1, seed: int = 0
    ):
        self.recording, self.rows, self.shift, self.scale, self.copies = recording, rows, shift, scale, copies
        total = copies * len(rows)
        self._shades = random_shades(total, seed)
        unchanged = torch.from_numpy(np.random.default_rng((seed, 1)).uniform(size=total) < UNCHANGED_SHARE)
        self._recoloured = ~unchanged & (copies > 1)
        laps = recording.laps
        first = torch.cat([torch.ones(1, dtype=torch.bool), laps[1:] != laps[:-1]])
        self._start = torch.where(first, torch.arange(len(laps)), 0).cummax(0).values  # of the lap of each frame

    def __len__(self) -> int:
        return self.copies * len(self.rows)

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        """Network inputs and standardised actions; sequences at the start of a lap repeat its first frame."""
        last = self.rows[rows % len(self.rows)]
        sequence = last[:, None] + torch.arange(1 - FRAMES, 1)
        frames = self.recording.frames[torch.maximum(sequence, self._start[last][:, None])]
        recoloured = self._recoloured[rows]
        if recoloured.any():
            frames[recoloured] = recolour(frames[recoloured], tone_tables(self._shades[rows[recoloured]]))
        return {"x": network_input(frames), "y": (self.recording.actions[last] - self.shift) / self.scale}

    def unit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """From standardised actions to actions."""
        return self.shift, self.scale


def network_input(frames: Tensor) -> Tensor:
    """Frames, (B, S, 84, 84), uint8, as input of a network, (B, S, 1, 84, 84).

    The field is centred and scaled by its newest frame, so that the contrast of road and background does not matter;
    the indicators keep their own scale.
    """
    x = frames.float()
    std, mean = torch.std_mean(x[:, -1, :FIELD], (-2, -1))
    mean = mean[:, None, None, None]
    std = (std + MIN_CONTRAST)[:, None, None, None]
    return torch.cat([(x[:, :, :FIELD] - mean) / std, x[:, :, FIELD:] / 64], 2).unsqueeze(2)


def random_shades(rows: int, seed: int) -> Tensor:
    """(rows, 3): shades of road, background and grass, with the distribution of the simulator's random colours."""
    generator = np.random.default_rng(seed)
    road = generator.uniform(0, 210, (rows, 3)) @ np.array(GREY)
    background = generator.uniform(0, 210, (rows, 3)) @ np.array(GREY)
    grass = background + 20 * np.array(GREY)[generator.integers(3, size=rows)]
    return torch.from_numpy(np.stack([road, background, grass], 1)).float()


def tone_tables(shades: Tensor) -> Tensor:
    """(rows, 256), uint8: the new shade for each shade of a recorded field, given road, background and grass."""
    road, background, grass = shades.T
    kept = {i: torch.full_like(road, SHADE_KNOTS[i]) for i in (0, 1, -1)}
    new = torch.stack([kept[0], kept[1], road - 2, road + 6, background, background, grass, grass, kept[-1]], 1)
    knots, recorded = torch.tensor(SHADE_KNOTS), torch.arange(256.0)
    right = torch.searchsorted(knots, recorded).clamp(min=1)
    weight = (recorded - knots[right - 1]) / (knots[right] - knots[right - 1])
    return torch.lerp(new[:, right - 1], new[:, right], weight).round().clamp(0, 255).to(torch.uint8)


def recolour(frames: Tensor, tones: Tensor) -> Tensor:
    """Frames, (B, S, 84, 84), with the shades of the field replaced by a table, (B, 256), for each row."""
    recoloured = frames.clone()
    for rows in torch.arange(len(frames)).split(RECOLOURED_ROWS):  # an index takes eight bytes per pixel
        field = frames[rows, :, :FIELD]
        recoloured[rows, :, :FIELD] = tones[rows].gather(1, field.flatten(1).long()).view_as(field)
    return recoloured


for _name in RECORDED:
    task(_name, "sound")(lambda seed, name=_name: build(name, seed))
