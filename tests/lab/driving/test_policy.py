import json
from dataclasses import replace

import numpy as np
import pytest

import nsac
from nsac.estimators.files import ModelError
from nsac.lab.datasets.carracing import load_recording
from nsac.lab.driving import policy as policy_module
from nsac.lab.driving.policy import FrameHistory, load_policy, train_policy
from nsac.lab.driving.world import DrivingError
from nsac.lab.grid import config as numbers
from nsac.lab.grid.store import Store
from nsac.lab.tasks import carracing
from nsac.methods import FrameProblem
from support.roads import NEURAL, made_recording, single, untrained, written_recording  # noqa: F401

FRAMES = np.random.default_rng(0).integers(0, 256, (6, 84, 84), dtype=np.uint8)
SEQUENCES = [FRAMES[None, i : i + 4] for i in range(3)]


def assert_same_decisions(one, two):
    for frames in SEQUENCES:
        for first, second in zip(one.decide(frames), two.decide(frames), strict=True):
            np.testing.assert_array_equal(first.action, second.action)
            assert first.steering_std == second.steering_std > 0


@pytest.mark.parametrize("method", NEURAL)
def test_a_saved_policy_decides_the_same_to_the_bit(method, tmp_path):
    policy = untrained(method)
    policy.save(tmp_path / "policy")
    assert_same_decisions(policy, load_policy(tmp_path / "policy", "carracing"))


def test_a_folder_of_an_earlier_version_is_read(tmp_path, monkeypatch):
    policy = untrained("gmle")
    monkeypatch.setattr(policy_module, "CLASS_NAMES", ("Pilot",))
    policy.save(tmp_path / "policy")
    monkeypatch.undo()
    assert json.loads((tmp_path / "policy" / "config.json").read_text())["class"] == "Pilot"
    assert_same_decisions(policy, load_policy(tmp_path / "policy"))


def test_a_history_repeats_the_first_frame():
    history = FrameHistory(4)
    latest = [history.add(frame) for frame in FRAMES[:2]]
    np.testing.assert_array_equal(latest[0], FRAMES[[0, 0, 0, 0]])
    np.testing.assert_array_equal(latest[1], FRAMES[[0, 0, 0, 1]])


def test_a_history_keeps_the_latest_frames():
    history = FrameHistory(4)
    latest = [history.add(frame) for frame in FRAMES]
    np.testing.assert_array_equal(latest[5], FRAMES[2:])


@pytest.mark.parametrize("method", ["gmle", "de", "der"])
def test_a_decision_does_not_depend_on_the_other_drives_of_the_batch(method):
    policy = untrained(method)
    together = policy.decide(np.concatenate(SEQUENCES))
    for frames, one in zip(SEQUENCES, together, strict=True):
        (alone,) = policy.decide(frames)
        # batches of another size are summed in another order
        np.testing.assert_allclose(one.action, alone.action, rtol=1e-4, atol=1e-6)
        assert one.steering_std == pytest.approx(alone.steering_std, rel=1e-4)


def decisions_with_and_without_calibration():
    policy = untrained("nsac")
    (before,) = policy.decide(SEQUENCES[0])
    policy.calibration = policy.calibration * 2
    (after,) = policy.decide(SEQUENCES[0])
    return before, after


def test_calibration_scales_standard_deviations():
    before, after = decisions_with_and_without_calibration()
    assert after.steering_std == pytest.approx(2 * before.steering_std, rel=1e-3)  # single precision


def test_calibration_does_not_change_actions():
    before, after = decisions_with_and_without_calibration()
    np.testing.assert_allclose(after.action, before.action, rtol=1e-5, atol=1e-6)


def test_a_policy_of_another_task_is_refused(tmp_path):
    untrained("gmle", "udacity").save(tmp_path / "policy")
    with pytest.raises(DrivingError, match="trained on udacity, not carracing"):
        load_policy(tmp_path / "policy", "carracing")


def test_a_policy_is_not_an_estimator(tmp_path):
    untrained("gmle").save(tmp_path / "policy")
    with pytest.raises(ModelError, match="'DrivingPolicy'"):
        nsac.load(tmp_path / "policy")


def test_a_damaged_policy_is_refused(tmp_path):
    untrained("gmle").save(tmp_path / "policy")
    weights = tmp_path / "policy" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ModelError, match="damaged"):
        load_policy(tmp_path / "policy")


def test_an_oversized_problem_is_refused(tmp_path, monkeypatch):
    policy = untrained("gmle")
    problem = json.loads(json.dumps(policy.method.problem.to_dict()))
    monkeypatch.setattr(FrameProblem, "to_dict", lambda _: problem | {"output_dim": 10**9})
    policy.save(tmp_path / "policy")
    monkeypatch.undo()
    with pytest.raises(ModelError, match="does not describe a driving policy"):
        load_policy(tmp_path / "policy")


@pytest.fixture
def short(monkeypatch):
    """Two training steps on a recording of 100 frames."""
    monkeypatch.setattr(carracing, "load_recording", lambda: made_recording(laps=5, each=20))
    monkeypatch.setitem(carracing.RECORDED, "carracing", 100)
    config = numbers.run_config("carracing", "sound", "gmle", 0).to_dict()
    config["train"] |= {"epochs": 1, "max_steps": 2, "batch_size": 8}
    monkeypatch.setattr(policy_module, "run_config", lambda *_: numbers.RunConfig(**config))


def test_a_policy_is_saved_with_the_record_of_its_scores(short, tmp_path):
    _, record = train_policy("carracing", "gmle", 0, tmp_path / "policy", tmp_path / "results")
    assert (tmp_path / "policy").is_dir() and Store(tmp_path / "results").read(record.name).metrics["mse"] > 0


def test_a_policy_with_the_same_configuration_is_not_trained_again(short, tmp_path, monkeypatch):
    _, first = train_policy("carracing", "gmle", 0, tmp_path / "policy", tmp_path / "results")
    monkeypatch.setattr(policy_module, "run_fitted", lambda *_: pytest.fail("it was trained again"))
    _, second = train_policy("carracing", "gmle", 0, tmp_path / "policy", tmp_path / "results")
    assert first == second


def test_a_policy_of_the_larger_recording_is_not_trained_again(short, tmp_path, monkeypatch):
    larger = {**policy_module.run_config().to_dict(), "task": "carracing-48102"}
    monkeypatch.setattr(policy_module, "run_config", lambda *_: numbers.RunConfig(**larger))
    monkeypatch.setitem(carracing.RECORDED, "carracing-48102", 100)
    _, first = train_policy("carracing-48102", "gmle", 0, tmp_path / "policy", tmp_path / "results")
    monkeypatch.setattr(policy_module, "run_fitted", lambda *_: pytest.fail("it was trained again"))
    _, second = train_policy("carracing-48102", "gmle", 0, tmp_path / "policy", tmp_path / "results")
    assert first == second


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The folder of a recording of 80 frames, on which a policy is trained for two steps."""
    written_recording(tmp_path / "frames", shards=4, each=20)
    monkeypatch.setattr(policy_module, "MIN_TRY_STEPS", 2)
    return tmp_path / "frames"


def test_a_try_has_a_task_of_its_own(small, tmp_path):
    with pytest.warns(UserWarning, match="80 frames instead of 30000. It makes no claim about laps"):
        policy, record = train_policy("carracing", "gmle", 0, tmp_path / "policy", recording=small)
    assert policy.task == "carracing" and record.task == f"carracing-try-{load_recording(small).digest}"


def test_the_recording_of_a_task_in_another_folder_is_no_try(small, tmp_path, monkeypatch):
    monkeypatch.setitem(carracing.RECORDED, "carracing", 80)
    config = {**numbers.run_config("carracing", "sound", "gmle", 0).to_dict(), "train": {"max_steps": 2}}
    monkeypatch.setattr(policy_module, "run_config", lambda *_: numbers.RunConfig(**config))
    _, record = train_policy("carracing", "gmle", 0, tmp_path / "policy", tmp_path / "results", recording=small)
    assert record.task == "carracing" and Store(tmp_path / "results").names() == [record.name]


def test_a_policy_of_a_variant_of_a_method_is_loaded(tmp_path):
    policy = untrained("nsac")
    policy.config = replace(policy.config, method="nsac-paper", arguments={"objective": "paper"})
    policy.method = policy.config.build(policy.method.problem)
    policy.save(tmp_path / "policy")
    assert load_policy(tmp_path / "policy").name == "nsac-paper"
