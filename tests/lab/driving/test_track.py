import numpy as np
import pytest

from nsac.lab.driving.track import Track

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
