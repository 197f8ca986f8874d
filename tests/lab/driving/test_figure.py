import numpy as np
import pytest

from nsac.lab.driving.figure import grad_cam, moments_of, steering_saliency
from nsac.lab.driving.world import DrivingError, World
from nsac.lab.tasks.carracing import PROBLEM
from nsac.methods import METHODS
from support.roads import NEURAL, single, untrained  # noqa: F401

pytest.importorskip("captum", reason="saliency needs the extra `drive`")
FRAMES = np.random.default_rng(0).integers(0, 256, (1, 4, 84, 84), dtype=np.uint8)


@pytest.fixture(scope="module")
def moments():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    world = World()
    yield moments_of(world, 3, [1, 6])
    world.close()


def test_a_moment_has_the_four_latest_frames_or_fewer_at_the_start(moments):
    assert [len(frames) for frames in moments] == [2, 4]


def test_the_saliency_of_a_moment_is_as_large_as_its_frame(moments):
    heat = steering_saliency(untrained("gmle"), moments[0])
    assert heat.shape == moments[0][-1].shape and np.isfinite(heat).all()


@pytest.mark.parametrize("method", NEURAL)
def test_a_saliency_map_is_as_large_as_the_frame_and_at_most_one(method):
    policy = untrained(method)
    maps = grad_cam(policy.method, policy.network_input(FRAMES), num_samples=3)
    assert maps.shape == (1, 84, 84) and maps.min() >= 0 and maps.max() == pytest.approx(1)


@pytest.mark.parametrize("method", NEURAL)
def test_equal_inputs_have_equal_maps(method):
    policy = untrained(method)
    maps = grad_cam(policy.method, policy.network_input(FRAMES).expand(2, -1, -1, -1, -1), num_samples=3)
    np.testing.assert_allclose(maps[0], maps[1])


def test_the_last_feature_map_has_at_least_20_rows_and_columns():
    policy = untrained("gmle")
    encoder = next(module for module in policy.method.modules() if hasattr(module, "conv"))
    assert min(encoder.conv(policy.network_input(FRAMES).flatten(0, 1)).shape[-2:]) >= 20


def test_a_method_without_convolutions_has_no_saliency():
    with pytest.raises(DrivingError, match="'mean' has none"):
        grad_cam(METHODS["mean"](PROBLEM), untrained("gmle").network_input(FRAMES))
