"""The driving tasks of the benchmark; what they need is read when one is built."""

from nsac.bench.task import Task, task


@task("carracing", "sound")
def carracing(seed: int) -> Task:
    """Cloning the expert from the recording in `recordings_folder()`."""
    from nsac.driving.cloning import clone_task
    from nsac.driving.recording import load_recording

    return clone_task(load_recording(), seed)


@task("udacity", "sound")
def udacity(seed: int) -> Task:
    """Steering round the lake."""
    from nsac.driving.road import road_task

    return road_task(seed)
