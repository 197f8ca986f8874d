import numpy as np
import pytest

from nsac.lab.driving.lap import drive_lap
from nsac.lab.driving.policy import Decision
from nsac.lab.driving.supervisor import (
    AVERAGED_ACTIONS,
    HAND_BACK_ACTIONS,
    UncertaintySupervisor,
    calibrate_threshold,
    limit_speed,
    moving_average,
    would_react,
)
from nsac.lab.driving.world import World
from support.roads import made_lap, single, untrained  # noqa: F401

EXPERT = np.array([0.5, 0.1, 0.0])


def decision(std):
    return Decision(np.array([-0.2, 0.9, 0.0]), np.array([std**2, 0, 0]), np.zeros(3))


def modes(stds, speed=60.0):
    supervisor = UncertaintySupervisor(0.1)
    return [supervisor.choose_action(decision(std), speed, EXPERT)[1] for std in stds]


def test_a_single_uncertain_frame_causes_no_reaction():
    stds = [0.05] * 30
    stds[15] = 0.3
    assert set(modes(stds)) == {"drive"}


def test_lasting_uncertainty_hands_over():
    assert 20 <= modes([0.05] * 20 + [0.3] * 20).index("hand over") < 20 + AVERAGED_ACTIONS


def test_the_policy_drives_again_after_a_second_below_the_threshold():
    found = modes([0.05] * 20 + [0.3] * 20 + [0.05] * 60)
    first, end = found.index("hand over"), len(found) - found[::-1].index("hand over")
    assert found[first:end] == ["hand over"] * (end - first)
    assert end >= 40 + HAND_BACK_ACTIONS and found[-1] == "drive"


@pytest.mark.parametrize("reaction, steering", [("hand over", 0.5), ("slow", -0.2)])
def test_the_expert_steers_after_a_hand_over_and_the_policy_while_slow(reaction, steering):
    supervisor = UncertaintySupervisor(0.1, reaction)
    for _ in range(AVERAGED_ACTIONS):
        action, _ = supervisor.choose_action(decision(0.5), 60.0, EXPERT)
    assert action[0] == steering


def test_an_unknown_reaction_is_refused():
    with pytest.raises(ValueError, match="reaction"):
        UncertaintySupervisor(0.1, "stop")


def test_a_car_above_the_speed_limit_brakes():
    assert limit_speed(np.array([0.1, 0.9, 0.0]), 60.0).tolist() == [0.1, 0.0, 0.4]


def test_a_car_below_the_speed_limit_accelerates():
    assert limit_speed(np.array([0.1, 0.9, 0.0]), 10.0)[1] > 0.5


def test_the_threshold_is_exceeded_as_rarely_as_its_level(seed):
    generator = np.random.default_rng(seed)
    laps = [made_lap(generator.gamma(4.0, 0.01, 400)) for _ in range(20)]
    threshold = calibrate_threshold(laps[:10], 0.98)
    share = np.mean([(moving_average(lap.steering_std) > threshold).mean() for lap in laps[10:]])
    assert 0.005 < share < 0.05


def test_a_threshold_needs_laps_on_the_road():
    with pytest.raises(ValueError, match="at least 8 actions on the road"):
        calibrate_threshold([made_lap(np.full(5, 0.1))])


@pytest.mark.parametrize("std, reacts", [(0.2, True), (0.05, False)])
def test_a_supervisor_would_react_above_the_threshold(std, reacts):
    assert would_react(made_lap(np.full(50, std)), 0.1) == reacts


def test_a_supervisor_that_would_not_react_changes_nothing():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    world, policy = World(), untrained("gmle")
    alone = drive_lap(world, policy, 7, limit=30)
    supervisor = UncertaintySupervisor(moving_average(alone.steering_std).max() + 1e-9)
    supervised = drive_lap(world, policy, 7, supervisor=supervisor, limit=30)
    np.testing.assert_array_equal(alone.positions, supervised.positions)
