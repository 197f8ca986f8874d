import numpy as np
import pytest

from nsac.lab.driving.lap import drive_lap
from nsac.lab.driving.pilot import Decision
from nsac.lab.driving.supervisor import (
    PATIENCE,
    SPAN,
    DoubtSupervisor,
    averaged,
    calibrate_threshold,
    slowed,
    would_react,
)
from nsac.lab.driving.trials import TrialConfig, Trials, run_trials, schemes, summary
from nsac.lab.driving.world import World
from support.roads import made_lap, single, untrained  # noqa: F401

EXPERT = np.array([0.5, 0.1, 0.0])


def decide(std):
    return Decision(np.array([-0.2, 0.9, 0.0]), np.array([std**2, 0, 0]), np.zeros(3))


def modes(supervisor, doubts, speed=60.0):
    supervisor.forget()
    return [supervisor.allow(decide(std), speed, EXPERT)[1] for std in doubts]


def test_one_odd_frame_is_no_reason_to_react():
    doubts = [0.05] * 30
    doubts[15] = 0.3
    assert set(modes(DoubtSupervisor(0.1), doubts)) == {"drive"}


def test_lasting_doubt_hands_over_and_lasting_sureness_hands_back():
    told = modes(DoubtSupervisor(0.1), [0.05] * 20 + [0.3] * 20 + [0.05] * 60)
    first, last = told.index("hand over"), len(told) - told[::-1].index("hand over")
    assert 20 <= first < 20 + SPAN and told[first:last] == ["hand over"] * (last - first)
    assert last >= 40 + PATIENCE and told[-1] == "drive"


def test_the_expert_drives_or_the_pilot_does_it_slowly():
    for reaction, steering in (("hand over", 0.5), ("slow", -0.2)):
        supervisor = DoubtSupervisor(0.1, reaction)
        for _ in range(SPAN):
            action, _ = supervisor.allow(decide(0.5), 60.0, EXPERT)
        assert action[0] == steering
    assert slowed(np.array([0.1, 0.9, 0.0]), 60.0).tolist() == [0.1, 0.0, 0.4]
    assert slowed(np.array([0.1, 0.9, 0.0]), 10.0)[1] > 0.5
    with pytest.raises(ValueError, match="reaction"):
        DoubtSupervisor(0.1, "pray")


def test_the_threshold_is_passed_as_rarely_as_promised(seed):
    random = np.random.default_rng(seed)
    laps = [made_lap(random.gamma(4.0, 0.01, 400)) for _ in range(20)]
    threshold = calibrate_threshold(laps[:10], 0.98)
    share = np.mean([(averaged(lap.doubt) > threshold).mean() for lap in laps[10:]])
    assert 0.005 < share < 0.05
    assert would_react(made_lap(np.full(50, 2 * threshold)), threshold)
    assert not would_react(made_lap(np.full(50, threshold / 2)), threshold)


def test_a_supervisor_that_would_not_react_changes_nothing():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    world, pilot = World(), untrained("gmle")
    alone = drive_lap(world, pilot, 7, limit=30)
    beside = drive_lap(world, pilot, 7, supervisor=DoubtSupervisor(averaged(alone.doubt).max() + 1e-9), limit=30)
    np.testing.assert_array_equal(alone.positions, beside.positions)


def lap_row(run, finished, doubt, trial=None, **more):
    zero = dict.fromkeys(("share_slow", "share_hand_over", "steering_error", "steering_change"), 0.0)
    about = {"run": run, "trial": trial, "seed": run, "finished": float(finished), "doubt": doubt, "distance": 0.5}
    return {**zero, **about, "aleatoric": doubt, "epistemic": doubt, "speed": 60.0, **more}


def test_numbers_over_laps_are_what_they_say():
    clean = [lap_row(run, True, 0.02) for run in range(2)]
    noise = [lap_row(0, True, 0.02, 0), lap_row(0, False, 0.3, 1), lap_row(1, True, 0.04, 0), lap_row(1, True, 0.03, 1)]
    rescued = [dict(lap, finished=1.0, reaction="hand over") for lap in (*clean, *noise)]
    rescued[3]["share_hand_over"] = 0.8
    found = summary(Trials(clean, [dict(lap, distance=0.4) for lap in clean], noise, rescued, 0.1))
    assert found["success"] == 1 and found["distance_ratio"] == pytest.approx(1.25)
    assert found["noise_success"] == 0.75 and found["noise_success_std"] == pytest.approx(0.5 / 2**0.5)
    assert found["noise_auroc_doubt"] == 1 and (found["crashes"], found["hand_over_crashes"]) == (1, 0)
    assert found["hand_over_noise_share"] == pytest.approx(0.2) and found["hand_over_needless_share"] == 0


def test_every_method_meets_the_same_colours():
    config = TrialConfig(tracks=2, trials=3)
    assert list(schemes(config)) == list(schemes(config)) and len({c.road for *_, c in schemes(config)}) == 6


@pytest.mark.slow
def test_trials_of_a_pilot_that_learnt_nothing_end():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    config = TrialConfig(tracks=1, trials=1, calibration=(950,), reactions=("hand over",), at_once=2)
    found = run_trials(untrained("gmle"), config)
    assert found.measures["success"] == 0 and len(found.noise) == 1 and len(found.supervised) == 2
