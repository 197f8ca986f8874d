import subprocess
import sys

import numpy as np
import pytest

from nsac.lab.datasets.carracing import FIELD
from nsac.lab.driving.errors import SimulatorMissing
from nsac.lab.driving.world import HOLD, PLAIN, SCORE_COLUMNS, World, grey_frame, random_colours

pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")


@pytest.fixture(scope="module")
def world():
    made = World()
    yield made
    made.close()


@pytest.fixture(scope="module")
def coloured(world):
    """First frame and track in plain colours, and in others."""
    plain = world.start(5), world.track.points
    other = world.start(5, random_colours(1)), world.track.points
    return plain, other


def test_colours_do_not_change_the_track(coloured):
    (_, plain), (_, other) = coloured
    np.testing.assert_array_equal(plain, other)


def test_colours_change_the_field(coloured):
    (plain, _), (other, _) = coloured
    assert (plain[:FIELD] != other[:FIELD]).mean() > 0.3  # the first frame also shows the area outside the field


def test_colours_do_not_change_the_indicators(coloured):
    (plain, _), (other, _) = coloured
    np.testing.assert_array_equal(plain[FIELD + 1 :], other[FIELD + 1 :])


def test_plain_colours_are_restored(world, coloured):
    np.testing.assert_array_equal(world.start(5, PLAIN), coloured[0][0])


def test_a_frame_is_84_by_84_and_grey(world):
    world.start(0)
    frame = world.step(np.array([0.0, 1.0, 0.0]))
    assert frame.shape == (84, 84) and frame.dtype == np.uint8


def test_a_frame_has_the_indicators_without_the_score(world):
    world.start(0)
    frame = world.step(np.array([0.0, 1.0, 0.0]))
    assert not frame[FIELD + 1 :, :SCORE_COLUMNS].any() and frame[FIELD:].any()


def test_a_picture_of_one_grey_keeps_its_shade():
    assert (grey_frame(np.full((96, 96, 3), 200, np.uint8))[:FIELD] == 200).all()


def test_throttle_moves_the_car_forwards(world):
    world.start(0)
    before = world.position
    for _ in range(20):
        world.step(np.array([0.0, 1.0, 0.0]))
    assert world.speed > 10 and (world.position - before) @ world.heading > 1


def test_an_action_lasts_two_steps_of_physics(world):
    assert world.seconds == pytest.approx(HOLD * 0.02)


def test_a_missing_simulator_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nsac.lab.driving.racing", None)
    with pytest.raises(SimulatorMissing, match=r"pip install 'nsac\[drive\]'"):
        World()


def test_the_simulator_prints_nothing_on_stdout():
    code = "from nsac.lab.driving.world import World; World()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout
