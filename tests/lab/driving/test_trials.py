import pytest

from nsac.lab.driving.trials import TrialConfig, Trials, compare_tracks, run_trials, schemes, summary
from nsac.lab.tasks import udacity
from support.roads import made_drive, single, single_precision, untrained  # noqa: F401


def lap_row(run, finished, std, trial=None, **more):
    zero = dict.fromkeys(("share_slow", "share_hand_over", "steering_error", "steering_change"), 0.0)
    about = {"run": run, "trial": trial, "seed": run, "finished": float(finished), "doubt": std, "distance": 0.5}
    return {**zero, **about, "aleatoric": std, "epistemic": std, "speed": 60.0, **more}


@pytest.fixture(scope="module")
def measures():
    """Of two tracks in two colourings: one of the four laps fails, and the supervisor rescues it."""
    clean = [lap_row(run, True, 0.02) for run in range(2)]
    noise = [lap_row(0, True, 0.02, 0), lap_row(0, False, 0.3, 1), lap_row(1, True, 0.04, 0), lap_row(1, True, 0.03, 1)]
    rescued = [dict(lap, finished=1.0, reaction="hand over") for lap in (*clean, *noise)]
    rescued[3]["share_hand_over"] = 0.8
    return summary(Trials(clean, [dict(lap, distance=0.4) for lap in clean], noise, rescued, 0.1))


def test_success_is_the_share_of_finished_clean_laps(measures):
    assert measures["success"] == 1


def test_the_distance_is_relative_to_the_experts(measures):
    assert measures["distance_ratio"] == pytest.approx(1.25)


def test_success_in_other_colours_is_a_mean_over_runs(measures):
    assert measures["noise_success"] == 0.75
    assert measures["noise_success_std"] == pytest.approx(0.5 / 2**0.5)


def test_uncertainty_that_is_highest_on_failing_laps_has_auroc_one(measures):
    assert measures["noise_auroc_doubt"] == 1


def test_crashes_are_counted_without_and_with_a_supervisor(measures):
    assert (measures["crashes"], measures["hand_over_crashes"]) == (1, 0)


def test_the_share_of_hand_over_is_a_mean_over_laps(measures):
    assert measures["hand_over_noise_share"] == pytest.approx(0.2)


def test_a_hand_over_is_needless_on_laps_that_are_finished_without_it(measures):
    assert measures["hand_over_needless_share"] == 0


def test_all_methods_have_the_same_colours():
    config = TrialConfig(tracks=2, trials=3)
    assert list(schemes(config)) == list(schemes(config))


def test_every_trial_has_its_own_colours():
    assert len({colours.road for *_, colours in schemes(TrialConfig(tracks=2, trials=3))}) == 6


@pytest.mark.slow
def test_trials_of_an_untrained_policy_end():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    config = TrialConfig(tracks=1, trials=1, calibration=(950,), reactions=("hand over",), at_once=2)
    found = run_trials(untrained("gmle"), config)
    assert found.measures["success"] == 0 and len(found.noise) == 1 and len(found.supervised) == 2


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    lake, mountain = made_drive(tmp_path_factory.mktemp("lake")), made_drive(tmp_path_factory.mktemp("mountain"), 30)
    with pytest.MonkeyPatch.context() as patch, single_precision():
        patch.setattr(udacity, "BLOCK_FRAMES", 60)
        return compare_tracks(untrained("nsac", "udacity"), lake, mountain)


def test_the_record_names_the_test_and_the_frames_of_each_track(record):
    assert record.test == "mountain" and record.config["test"]["mountain"] == 30


def test_the_error_of_predicting_zero_is_recorded(record):
    assert record.measures["mountain_zero_mse"] > 0


def test_the_separation_of_the_tracks_is_an_auroc(record):
    assert 0 <= record.measures["auroc_total"] <= 1
