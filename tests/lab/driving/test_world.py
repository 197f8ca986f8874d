import subprocess
import sys

import numpy as np
import pytest

from nsac.lab.driving.errors import SimulatorMissing
from nsac.lab.driving.expert import Expert
from nsac.lab.driving.world import DONE, FIELD, HOLD, PLAIN, SCORE, World, grey_frame, random_colours

box2d = pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")


@pytest.fixture(scope="module")
def world():
    made = World()
    yield made
    made.close()


def test_the_fast_renderer_draws_the_same_pixels():
    from gymnasium.envs.box2d.car_racing import CarRacing

    from nsac.lab.driving.racing import Racing

    slow, fast, action = CarRacing(), Racing(), np.array([0.1, 0.4, 0.0])

    def same(*pictures):
        one, two = (picture.copy() for picture in pictures)
        one[-12:, :12] = two[-12:, :12] = 0  # the score
        np.testing.assert_array_equal(one, two)

    for seed, colours in ((3, PLAIN), (4, random_colours(7))):  # the second one: on another track
        for env in (slow, fast):
            env.road_color, env.bg_color, env.grass_color = map(
                np.array, (colours.road, colours.background, colours.grass)
            )
        same(*(env.reset(seed=seed)[0] for env in (slow, fast)))
        for step in range(150):  # in the first second the picture is zoomed
            fast.blind = step % 5 != 0
            pictures = [env.step(action)[0] for env in (slow, fast)]
            if not fast.blind:
                same(*pictures)


def test_colours_change_the_picture_and_not_the_track(world):
    plain = world.start(5)
    points = world.track.points
    other = world.start(5, random_colours(1))
    np.testing.assert_array_equal(points, world.track.points)
    assert (plain[:FIELD] != other[:FIELD]).mean() > 0.3  # the first frame shows the world beyond the field as well
    np.testing.assert_array_equal(plain[FIELD + 1 :], other[FIELD + 1 :])  # indicators
    np.testing.assert_array_equal(world.start(5, PLAIN), plain)


def test_a_frame_is_grey_small_and_does_not_show_the_score(world):
    world.start(0)
    frame = world.step(np.array([0.0, 1.0, 0.0]))
    assert frame.shape == (84, 84) and frame.dtype == np.uint8
    assert not frame[FIELD + 1 :, :SCORE].any() and frame[FIELD:].any()
    assert (grey_frame(np.full((96, 96, 3), 200, np.uint8))[:FIELD] == 200).all()


def test_pedals_move_the_car(world):
    world.start(0)
    before = world.position
    for _ in range(20):
        world.step(np.array([0.0, 1.0, 0.0]))
    assert world.speed > 10 and (world.position - before) @ world.heading > 1
    assert world.seconds == pytest.approx(HOLD * 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_expert_finishes_every_lap_near_the_centre(world, seed):
    world.start(seed)
    expert, distances = Expert(world), []
    while world.visited < DONE and len(distances) < 600:
        world.step(expert.act())
        distances.append(world.track.project(world.position)[1])
    assert world.visited >= DONE and np.mean(distances) < 0.6


@pytest.mark.slow
def test_the_expert_comes_back_to_the_road(world):
    world.start(1)
    for _ in range(60):
        world.step(np.array([0.3, 0.6, 0.0]))
    assert world.track.project(world.position)[1] > world.track.half_width
    expert = Expert(world)
    for _ in range(250):
        world.step(expert.act())
    assert world.track.project(world.position)[1] < 3


def test_a_missing_simulator_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nsac.lab.driving.racing", None)
    with pytest.raises(SimulatorMissing, match=r"pip install 'nsac\[drive\]'"):
        World()


def test_nothing_greets_on_stdout():
    code = "from nsac.lab.driving.world import World; World()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout
