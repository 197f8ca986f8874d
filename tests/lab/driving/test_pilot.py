import json

import numpy as np
import pytest

import nsac
from nsac.estimators.files import ModelError
from nsac.lab.driving.cloning import PROBLEM
from nsac.lab.driving.errors import DrivingError
from nsac.lab.driving.pilot import Memory, load_pilot
from nsac.lab.driving.saliency import grad_cam
from nsac.methods import METHODS, FrameProblem
from support.roads import NEURAL, single, untrained  # noqa: F401

FRAMES = np.random.default_rng(0).integers(0, 256, (6, 84, 84), dtype=np.uint8)
SEEN = [FRAMES[None, i : i + 4] for i in range(3)]


@pytest.mark.parametrize("method", NEURAL)
def test_a_saved_pilot_decides_the_same_to_the_bit(method, tmp_path):
    pilot = untrained(method)
    pilot.save(tmp_path / "pilot")
    again = load_pilot(tmp_path / "pilot", "carracing")
    for (one,), (two,) in ((pilot.decide(frames), again.decide(frames)) for frames in SEEN):
        np.testing.assert_array_equal(one.action, two.action)
        assert one.doubt == two.doubt > 0 and one.action.shape == (3,)


def test_the_latest_frames_are_remembered_and_before_the_first_there_is_only_it():
    memory = Memory(4)
    seen = [memory.see(frame) for frame in FRAMES]
    np.testing.assert_array_equal(seen[0], FRAMES[[0, 0, 0, 0]])
    np.testing.assert_array_equal(seen[1], FRAMES[[0, 0, 0, 1]])
    np.testing.assert_array_equal(seen[5], FRAMES[2:])


@pytest.mark.parametrize("method", ["gmle", "de", "der"])
def test_what_is_decided_for_one_drive_does_not_hang_on_others(method):
    pilot = untrained(method)
    together = pilot.decide(np.concatenate(SEEN))
    for frames, one in zip(SEEN, together, strict=True):
        (alone,) = pilot.decide(frames)
        np.testing.assert_allclose(one.action, alone.action, rtol=1e-4, atol=1e-6)
        assert one.doubt == pytest.approx(alone.doubt, rel=1e-4)


def test_calibration_scales_deviations_and_nothing_else():
    pilot = untrained("nsac")
    (before,) = pilot.decide(SEEN[0])
    pilot.calibration = pilot.calibration * 2
    (after,) = pilot.decide(SEEN[0])
    np.testing.assert_allclose(after.action, before.action, rtol=1e-5, atol=1e-6)
    assert after.doubt == pytest.approx(2 * before.doubt, rel=1e-3)


def test_what_is_no_pilot_is_refused(tmp_path):
    untrained("gmle", "udacity").save(tmp_path / "pilot")
    with pytest.raises(DrivingError, match="learnt udacity, not carracing"):
        load_pilot(tmp_path / "pilot", "carracing")
    with pytest.raises(ModelError, match="holds a 'Pilot'"):
        nsac.load(tmp_path / "pilot")
    weights = tmp_path / "pilot" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ModelError, match="damaged"):
        load_pilot(tmp_path / "pilot")


def test_a_size_that_no_machine_has_is_refused(tmp_path, monkeypatch):
    pilot = untrained("gmle")
    problem = json.loads(json.dumps(pilot.method.problem.to_dict()))
    monkeypatch.setattr(FrameProblem, "to_dict", lambda _: problem | {"output_dim": 10**9})
    pilot.save(tmp_path / "pilot")
    monkeypatch.undo()
    with pytest.raises(ModelError, match="Sizes of a problem"):
        load_pilot(tmp_path / "pilot")


@pytest.mark.parametrize("method", NEURAL)
def test_every_method_shows_where_it_looks(method):
    pytest.importorskip("captum", reason="saliency needs the extra `drive`")
    pilot = untrained(method)
    x = pilot.sees(SEEN[1])
    maps = grad_cam(pilot.method, x.expand(2, -1, -1, -1, -1), num_samples=3)
    assert maps.shape == (2, 84, 84) and maps.min() >= 0 and maps.max() == pytest.approx(1)
    np.testing.assert_allclose(maps[0], maps[1])
    encoder = next(part for part in pilot.method.modules() if hasattr(part, "conv"))
    assert min(encoder.conv(x.flatten(0, 1)).shape[-2:]) >= 20


def test_a_method_without_convolutions_has_no_saliency():
    pytest.importorskip("captum", reason="saliency needs the extra `drive`")
    with pytest.raises(DrivingError, match="'mean' has none"):
        grad_cam(METHODS["mean"](PROBLEM), untrained("gmle").sees(SEEN[0]))
