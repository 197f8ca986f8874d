import numpy as np
import pytest

from nsac.lab.driving.world import PLAIN, random_colours

pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")


def assert_same_pixels(one, two):
    one, two = one.copy(), two.copy()
    one[-12:, :12] = two[-12:, :12] = 0  # the score
    np.testing.assert_array_equal(one, two)


def test_the_fast_renderer_draws_the_same_pixels():
    from gymnasium.envs.box2d.car_racing import CarRacing

    from nsac.lab.driving.racing import Racing

    slow, fast, action = CarRacing(), Racing(), np.array([0.1, 0.4, 0.0])
    for seed, colours in ((3, PLAIN), (4, random_colours(7))):  # the second one: on another track
        for env in (slow, fast):
            env.road_color = np.array(colours.road)
            env.bg_color = np.array(colours.background)
            env.grass_color = np.array(colours.grass)
        assert_same_pixels(slow.reset(seed=seed)[0], fast.reset(seed=seed)[0])
        for step in range(150):  # the camera zooms in during the first second
            fast.skip_rendering = step % 5 != 0
            expected, found = slow.step(action)[0], fast.step(action)[0]
            if not fast.skip_rendering:
                assert_same_pixels(expected, found)
