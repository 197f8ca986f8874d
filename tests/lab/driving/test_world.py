import subprocess
import sys

import numpy as np
import pytest

from nsac.lab.datasets.carracing import FIELD
from nsac.lab.driving.world import (
    HOLD,
    PLAIN,
    SCORE_COLUMNS,
    SimulatorMissing,
    Track,
    World,
    grey_frame,
    random_colours,
)


@pytest.fixture(scope="module")
def world():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
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
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    code = "from nsac.lab.driving.world import World; World()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout


SQUARE = Track(np.array([[0, 0], [10, 0], [10, 10], [0, 10]]), 1.0)


def circle(radius=50.0, n=200):
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return Track(radius * np.stack([np.cos(angle), np.sin(angle)], 1), 6.0)


def test_the_length_of_a_square_is_its_perimeter():
    assert SQUARE.length == 40


@pytest.mark.parametrize(
    "point, expected",
    [([4.0, -3.0], (4.0, 3.0)), ([-2.0, 5.0], (35.0, 2.0))],
    ids=["beside the first piece", "beside the piece that closes the centreline"],
)
def test_a_point_is_projected_on_the_nearest_piece(point, expected):
    assert SQUARE.project(np.array(point)) == expected


def test_positions_are_periodic():
    track = circle()
    np.testing.assert_allclose(track.at(track.length + 7), track.at(7), atol=1e-9)
    np.testing.assert_allclose(track.at(-7), track.at(track.length - 7), atol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.004, 0.99999])
def test_a_point_of_the_centreline_is_projected_on_itself(share):
    track = circle()
    along, distance = track.project(track.at(share * track.length))
    assert along == pytest.approx(share * track.length, abs=1e-6) and distance == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("direction", [1, -1])
def test_the_curvature_of_a_circle_is_one_over_its_radius(direction):
    track = Track(circle().points[::direction], 6.0)
    np.testing.assert_allclose(track.curvature(), direction / 50, rtol=1e-3)  # it is a polygon
