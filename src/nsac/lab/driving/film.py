"""A film of a lap, with a bar that shows the uncertainty of the policy."""

import os
from pathlib import Path

import numpy as np

from nsac._checks import check_choice
from nsac.lab.driving.policy import Decision
from nsac.lab.driving.world import INSTALL, DrivingError, World

ZOOM, BAR_WIDTH = 4, 40
"""Pixels per pixel of the simulator, and width of the bar in pixels."""
FULL_BAR_STD = 0.25
"""Standard deviation of the steering that fills the bar."""
ALEATORIC, EPISTEMIC, EMPTY, MARK = (70, 130, 200), (230, 130, 40), (30, 30, 30), (255, 255, 255)
BORDERS = {"slow": (240, 220, 60), "hand over": (220, 50, 50)}
"""Colour of the border while a supervisor acts."""


class CodecMissing(DrivingError):
    """A picture or film cannot be written."""


class Film:
    """Collects a picture per `every` actions of a lap, with a supervisor's threshold on the bar; pass it as `watch`."""

    def __init__(self, threshold: float | None = None, every: int = 2):
        self.threshold, self.every = threshold, every
        self.pictures: list[np.ndarray] = []
        self._count, self._seconds = 0, 0.04

    def __call__(self, world: World, decision: Decision, mode: str) -> None:
        """Add a picture before an action."""
        self._seconds = world.seconds
        if self._count % self.every == 0:
            self.pictures.append(picture(world.colour, decision, mode, self.threshold))
        self._count += 1

    def save(self, path: str | os.PathLike) -> None:
        """Write a GIF or an MP4, by the suffix of the name."""
        path, writers = Path(path), {".gif": _write_gif, ".mp4": _write_mp4}
        check_choice("suffix of a film", path.suffix.lower(), tuple(writers))
        path.parent.mkdir(parents=True, exist_ok=True)
        writers[path.suffix.lower()](path, self.pictures, self._seconds * self.every)


def picture(colour: np.ndarray, decision: Decision, mode: str, threshold: float | None) -> np.ndarray:
    """The simulator's picture, with the bar at its right: the aleatoric share below, the epistemic share above it."""
    view = colour.repeat(ZOOM, 0).repeat(ZOOM, 1)
    if mode in BORDERS:
        for edge in (np.s_[:ZOOM], np.s_[-ZOOM:], np.s_[:, :ZOOM], np.s_[:, -ZOOM:]):
            view[edge] = BORDERS[mode]
    height = len(view)
    bar = np.full((height, BAR_WIDTH, 3), EMPTY, np.uint8)
    total = min(decision.steering_std / FULL_BAR_STD, 1.0) * height
    share = decision.aleatoric[0] / max(decision.aleatoric[0] + decision.epistemic[0], 1e-12)
    middle, top = round(height - share * total), round(height - total)
    bar[middle:, BAR_WIDTH // 4 :] = ALEATORIC
    bar[top:middle, BAR_WIDTH // 4 :] = EPISTEMIC
    if threshold is not None:
        bar[max(round(height - min(threshold / FULL_BAR_STD, 1.0) * height) - 1, 0) :][:2] = MARK
    return np.concatenate([view, bar], 1)


def _write_gif(path: Path, pictures: list[np.ndarray], seconds: float) -> None:
    try:
        from PIL import Image
    except ImportError as err:
        raise CodecMissing(f"A GIF needs pillow ({err}). {INSTALL}") from None
    first, *others = [Image.fromarray(each).quantize(64) for each in pictures]
    first.save(path, save_all=True, append_images=others, duration=round(1000 * seconds), loop=0)


def _write_mp4(path: Path, pictures: list[np.ndarray], seconds: float) -> None:
    try:
        from imageio_ffmpeg import get_ffmpeg_exe, write_frames

        get_ffmpeg_exe()
    except (ImportError, RuntimeError) as err:
        raise CodecMissing(f"An MP4 needs ffmpeg ({err}). {INSTALL} Or write a .gif.") from None
    height, width, _ = pictures[0].shape
    fps = round(1 / seconds)
    writer = write_frames(str(path), (width, height), fps=fps, macro_block_size=8, ffmpeg_log_level="error")
    try:
        writer.send(None)
        for each in pictures:
            writer.send(np.ascontiguousarray(each))
    except OSError as err:  # ffmpeg has ended with a message
        raise CodecMissing(f"ffmpeg could not write {path} ({err}). Write a .gif instead.") from None
    finally:
        writer.close()
