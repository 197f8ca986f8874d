"""Scenes: scenarios of distribution shift.

A scene has a training distribution, test rows from the same distribution, and test rows under one or more shifts. The
kinds of shift that are reported and the kinds that may be used to choose between models are two lists without a common
name. The confirmation scenes were fixed before the last change of the model and first evaluated after it.
"""

from nsac._checks import check_choice
from nsac.lab.shifts.scenes.base import CHOOSING as CHOOSING
from nsac.lab.shifts.scenes.base import CONFIRMING as CONFIRMING
from nsac.lab.shifts.scenes.base import REPORTED as REPORTED
from nsac.lab.shifts.scenes.base import SCENES, Scene
from nsac.lab.shifts.scenes.base import scenes as scenes
from nsac.lab.shifts.scenes.spirals import make_spiral
from nsac.lab.shifts.scenes.tables import RUNS, make_bearings, make_table
from nsac.lab.shifts.scenes.windows import make_windows


def make_scene(name: str, seed: int = 0) -> Scene:
    """A scene of `SCENES`; the seed determines the split, the region left out and everything else that is random."""
    check_choice("name", name, tuple(SCENES))
    if name in RUNS:
        return make_bearings(name, seed)
    data = name.partition("/")[0]
    if data in ("ettm1", "jena"):
        return make_windows(name, data, seed)
    return make_spiral(name, seed) if data == "spiral" else make_table(name, seed)
