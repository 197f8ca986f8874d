import numpy as np
import pytest

from nsac.lab.driving.figure import moments_of, steering_saliency
from nsac.lab.driving.world import World
from support.roads import single, untrained  # noqa: F401

pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")


@pytest.fixture(scope="module")
def moments():
    world = World()
    yield moments_of(world, 3, [1, 6])
    world.close()


def test_a_moment_has_the_four_latest_frames_or_fewer_at_the_start(moments):
    assert [len(frames) for frames in moments] == [2, 4]


def test_the_saliency_of_a_moment_is_as_large_as_its_frame(moments):
    pytest.importorskip("captum", reason="saliency needs the extra `drive`")
    heat = steering_saliency(untrained("gmle"), moments[0])
    assert heat.shape == moments[0][-1].shape and np.isfinite(heat).all()
