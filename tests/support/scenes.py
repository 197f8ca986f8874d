"""Scenes of the shift suite, built once for all tests."""

from functools import cache

import pytest

from nsac.lab.datasets.store import present
from nsac.lab.datasets.uci import COLUMNS
from nsac.lab.shifts.scenes import Scene, make_scene
from nsac.training import TensorData

SOURCES = ("xjtu", "pronostia", "hust", "ettm1", "jena-2020", "spiral", *COLUMNS)

needs_data = pytest.mark.skipif(
    not all(present(name) for name in SOURCES), reason="needs the data sets in the folder NSAC_DATA or in the cache"
)


@cache
def scene_of(name: str) -> Scene:
    """The scene of seed 1."""
    return make_scene(name, seed=1)


def sets_of(scene: Scene) -> list[TensorData]:
    """Training, validation, in-distribution test and all shifted test sets."""
    return [scene.train, scene.validation, scene.inside, *(shift.data for shift in scene.outside.values())]
