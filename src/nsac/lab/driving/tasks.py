"""The driving tasks of the benchmark; what they need is read when one is built."""

from nsac.lab.driving.errors import RecordingError
from nsac.lab.tasks.base import Task, task

RECORDED = {"carracing": 30_000, "carracing-48102": 48_102}
"""Frames of the recording each task is learnt from; the larger one is the paper's number."""


def build(name: str, seed: int) -> Task:
    """Cloning the expert from the recording in `recordings_folder()`, which must have the task's number of frames."""
    from nsac.lab.driving import recording
    from nsac.lab.driving.cloning import clone_task

    found, frames = recording.load_recording(), RECORDED[name]
    if found.config != recording.RecordConfig(frames):
        raise RecordingError(
            f"{recording.recordings_folder()} holds {len(found)} frames, recorded with {found.config}; task {name!r} "
            f"is learnt from {frames}, recorded as usual. Name another folder in NSAC_RECORDING, or make one: "
            f"`nsac drive record --frames {frames}`."
        )
    return clone_task(found, seed, name)


for _name in RECORDED:
    task(_name, "sound")(lambda seed, name=_name: build(name, seed))


@task("udacity", "sound")
def udacity(seed: int) -> Task:
    """Steering round the lake."""
    from nsac.lab.driving.road import road_task

    return road_task(seed)
