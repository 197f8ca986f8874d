import numpy as np
import pytest

from nsac.lab.driving.expert import BRAKING, FASTEST, SLOWEST, speed_profile
from nsac.lab.driving.track import Track


def circle(radius=50.0, n=200):
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return Track(radius * np.stack([np.cos(angle), np.sin(angle)], 1), 6.0)


def test_a_point_beside_the_line_is_as_far_as_it_is():
    square = Track(np.array([[0, 0], [10, 0], [10, 10], [0, 10]]), 1.0)
    assert square.length == 40
    assert square.project(np.array([4.0, -3.0])) == (4.0, 3.0)
    along, distance = square.project(np.array([-2.0, 5.0]))  # beside the piece that closes the line
    assert (along, distance) == (35.0, 2.0)


def test_going_round_comes_back():
    track = circle()
    np.testing.assert_allclose(track.at(track.length + 7), track.at(7), atol=1e-9)
    np.testing.assert_allclose(track.at(-7), track.at(track.length - 7), atol=1e-9)
    for along in (0.0, 1.234, track.length - 0.001):
        found, distance = track.project(track.at(along))
        assert found == pytest.approx(along, abs=1e-6) and distance == pytest.approx(0, abs=1e-9)


def test_a_circle_bends_by_one_over_its_radius_everywhere():
    np.testing.assert_allclose(circle().curvature(), 1 / 50, rtol=1e-3)  # it is a polygon
    np.testing.assert_allclose(Track(circle().points[::-1], 6.0).curvature(), -1 / 50, rtol=1e-3)


def test_speeds_can_be_braked_for():
    angle = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    track = Track(np.stack([150 * np.cos(angle), 30 * np.sin(angle)], 1), 6.0)
    speed = speed_profile(track)
    assert SLOWEST <= speed.min() < 60 < speed.max() <= FASTEST
    assert (speed**2 <= np.roll(speed, -1) ** 2 + BRAKING * track.lengths + 1e-6).all()
