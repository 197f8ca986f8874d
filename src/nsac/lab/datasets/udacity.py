"""Drives of the Udacity simulator: frames of the centre camera and the controls."""

import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from nsac._checks import check_choice
from nsac.lab.datasets.store import locate, read_table, reading, unusable

COLUMNS = ["center", "steering", "throttle", "brake", "speed", "time_s", "segment"]
_FILES = {"lake": ("driving_log.csv", "IMG.tar", 5111), "mountain": ("driving_log_track2.csv", "IMG_track2.tar", 1000)}


@dataclass(frozen=True)
class Drive:
    """One drive; a frame is read from its archive when it is needed."""

    archive: Path
    names: tuple[str, ...]  # of the frames, in time order
    steering: np.ndarray  # -1 to 1; 1 is 25 degrees to the right
    throttle: np.ndarray
    brake: np.ndarray
    speed: np.ndarray  # miles per hour
    time: np.ndarray  # seconds since the first frame
    segment: np.ndarray  # number of the uninterrupted segment each frame belongs to

    def __len__(self) -> int:
        return len(self.names)

    def jpeg(self, row: int) -> bytes:
        """A frame as it was recorded."""
        start, size = self._places[self.names[row]]
        with self.archive.open("rb") as stream:
            stream.seek(start)
            return stream.read(size)

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        with reading(self.archive, "a whole tar archive"), tarfile.open(self.archive) as tar:
            return {member.name: (member.offset_data, member.size) for member in tar}


def load_drive(track: str = "lake") -> Drive:
    """The drive on the `"lake"` track or on the `"mountain"` track; scenery and driver differ."""
    check_choice("track", track, tuple(_FILES))
    log, images, rows = _FILES[track]
    path = locate(f"udacity/{log}")
    frame = read_table(path, COLUMNS, rows)
    with reading(path, "a table of numbers"):
        controls = {name: frame[name].to_numpy(float) for name in ("steering", "throttle", "brake", "speed")}
        controls |= {"time": frame["time_s"].to_numpy(float), "segment": frame["segment"].to_numpy(int)}
    drive = Drive(locate(f"udacity/{images}"), tuple(map(str, frame["center"])), **controls)
    if missing := set(drive.names) - set(drive._places):
        lacks = f"It lacks {len(missing)} of them, for instance {min(missing)}."
        raise unusable(drive.archive, f"must contain the frames of {path}. {lacks}")
    return drive
