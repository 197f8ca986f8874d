import numpy as np
import pytest

from nsac.lab.driving.expert import BRAKING, MAX_SPEED, MIN_SPEED, Expert, speed_profile
from nsac.lab.driving.world import DONE, Track, World


@pytest.fixture(scope="module")
def world():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    made = World()
    yield made
    made.close()


@pytest.fixture(scope="module")
def ellipse():
    angle = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    return Track(np.stack([150 * np.cos(angle), 30 * np.sin(angle)], 1), 6.0)


def test_target_speeds_are_between_their_limits(ellipse):
    speed = speed_profile(ellipse)
    assert MIN_SPEED <= speed.min() < 60 < speed.max() <= MAX_SPEED


def test_braking_reaches_the_next_target_speed(ellipse):
    speed = speed_profile(ellipse)
    assert (speed**2 <= np.roll(speed, -1) ** 2 + BRAKING * ellipse.lengths + 1e-6).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_expert_finishes_every_lap_near_the_centreline(world, seed):
    world.start(seed)
    expert, distances = Expert(world), []
    while world.visited < DONE and len(distances) < 600:
        world.step(expert.act())
        distances.append(world.track.project(world.position)[1])
    assert world.visited >= DONE and np.mean(distances) < 0.6


@pytest.mark.slow
def test_the_expert_returns_to_the_road(world):
    world.start(1)
    for _ in range(60):
        world.step(np.array([0.3, 0.6, 0.0]))
    assert world.track.project(world.position)[1] > world.track.half_width
    expert = Expert(world)
    for _ in range(250):
        world.step(expert.act())
    assert world.track.project(world.position)[1] < 3
