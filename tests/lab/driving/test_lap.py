import json
from dataclasses import replace

import numpy as np
import pytest

from nsac.lab.driving.film import Film
from nsac.lab.driving.lap import MAX_OFF_ROAD_ACTIONS, Start, drive_lap, drive_laps
from nsac.lab.driving.policy import Decision
from nsac.lab.driving.world import DrivingError, World
from support.roads import made_lap, single, untrained  # noqa: F401

STARTS = [Start(seed) for seed in (0, 3, 4)]


class Straight:
    """Full throttle without steering."""

    lookback = 2

    def __init__(self):
        self.inputs = []

    def decide(self, frames):
        self.inputs.append(frames)
        return [Decision(np.array([0.0, 1.0, 0.0]), np.array([0.01, 0, 0]), np.array([0.03, 0, 0])) for _ in frames]


@pytest.fixture(scope="module")
def world():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    made = World()
    yield made
    made.close()


@pytest.fixture(scope="module")
def other(world):
    made = World()
    yield made
    made.close()


@pytest.fixture(scope="module")
def crash(world):
    """A lap without steering, its policy and its film."""
    policy, film = Straight(), Film(every=10)
    return drive_lap(world, policy, 0, watch=film), policy, film


def test_a_lap_ends_two_seconds_after_the_car_left_the_road(crash):
    lap, _, _ = crash
    assert not lap.finished and len(lap) - lap.on_road == MAX_OFF_ROAD_ACTIONS
    assert (lap.distances[lap.on_road :] > lap.half_width).all()


def test_the_policy_decides_every_action(crash):
    lap, policy, _ = crash
    assert len(lap) == len(policy.inputs)


def test_the_uncertainty_of_a_lap_is_the_total_standard_deviation_of_the_steering(crash):
    assert crash[0].measures()["doubt"] == pytest.approx(0.2)


def test_the_steering_error_is_relative_to_the_expert(crash):
    assert crash[0].measures()["steering_error"] > 0


def test_a_film_has_one_picture_per_so_many_actions(crash):
    lap, _, film = crash
    assert len(film.pictures) == -(-len(lap) // 10)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_action_that_is_not_finite_ends_the_lap_with_an_error(world, monkeypatch, value):
    policy = Straight()
    monkeypatch.setattr(policy, "decide", lambda frames: [Decision(np.array([value, 1, 0]), np.zeros(3), np.zeros(3))])
    with pytest.raises(DrivingError, match=rf"`action` must be finite.*Got \[{value}, 1.0, 0.0\]"):
        drive_lap(world, policy, 0)


def test_a_lap_can_be_written_as_json(crash):
    assert json.loads(json.dumps(crash[0].to_dict()))["seed"] == 0


def test_a_lap_can_be_repeated_to_the_bit(world):
    one = drive_lap(world, untrained("nsac"), 3, limit=15)
    two = drive_lap(world, untrained("nsac"), 3, limit=15)
    np.testing.assert_array_equal(one.positions, two.positions)
    np.testing.assert_array_equal(one.steering_std, two.steering_std)


def test_a_lap_has_at_most_the_given_number_of_actions(world):
    assert len(drive_lap(world, None, 3, limit=15)) == 15


def test_laps_driven_together_are_those_driven_alone(world, other):
    together = drive_laps([world, other], Straight(), STARTS, limit=20)
    for start, lap in zip(STARTS, together, strict=True):
        np.testing.assert_array_equal(lap.positions, drive_lap(world, Straight(), start.seed, limit=20).positions)


def test_laps_come_back_in_the_order_of_their_starts(world, other):
    assert [lap.seed for lap in drive_laps([world, other], Straight(), STARTS, limit=5)] == [0, 3, 4]


def test_a_world_takes_the_next_lap_when_its_own_has_ended(world, other):
    policy = Straight()
    drive_laps([world, other], policy, STARTS, limit=5)
    assert [len(frames) for frames in policy.inputs] == [2] * 5 + [1] * 5


def test_every_lap_is_reported_when_it_ends(world, other):
    ended = []
    drive_laps([world, other], Straight(), STARTS, ended.append, limit=5)
    assert len(ended) == 3


def test_a_lap_without_a_policy_is_the_experts(world):
    lap = drive_lap(world, None, 3, limit=20)
    np.testing.assert_array_equal(lap.actions, lap.expert)


@pytest.mark.slow
def test_the_expert_finishes_its_own_lap(world):
    lap = drive_lap(world, None, 1001)
    assert lap.finished and lap.visited >= 0.95 and lap.measures()["steering_error"] == 0


STD = np.r_[np.full(60, 0.1), np.full(40, 0.9)]
DISTANCES = np.r_[np.ones(20), np.full(10, 9.0), np.ones(30), np.full(40, 9.0)]


def test_uncertainty_after_the_car_left_the_road_for_good_does_not_count():
    assert made_lap(STD, False, DISTANCES).measures()["doubt"] == pytest.approx(0.1)


def test_a_finished_lap_counts_as_a_whole():
    assert made_lap(STD, True, DISTANCES).on_road == 100


def test_a_lap_that_is_never_on_the_road_has_no_action_there():
    assert made_lap(STD, False, np.full(100, 9.0)).on_road == 0


def test_positions_along_the_lap_are_shares_of_its_length():
    np.testing.assert_allclose(made_lap(np.full(40, 0.1)).shares, np.arange(40) / 40, atol=1e-9)


def test_positions_along_the_lap_grow_past_the_first_point_of_the_centreline():
    lap = made_lap(np.full(40, 0.1))
    later = replace(lap, positions=np.roll(lap.positions, 5, 0))  # begins five points before the first
    np.testing.assert_allclose(np.diff(later.shares), 1 / 40, atol=1e-9)
