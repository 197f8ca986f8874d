import pytest
import torch

from nsac.lab.shifts.scenes import windows
from support.scenes import needs_data, scene_of


@needs_data
@pytest.mark.parametrize("name", ["ettm1", "jena", "jena/winter"])
def test_no_step_of_a_training_window_is_in_another_set(name):
    scene = scene_of(name)
    steps = [
        {step.tobytes() for step in data.columns["x"].numpy().reshape(-1, scene.problem.input_dim)}
        for data in (scene.train, scene.validation, scene.inside, scene.outside["season"].data)
    ]
    for other in steps[1:]:  # values are rounded: a few hundred of some ten thousand steps are equal by chance
        assert len(steps[0] & other) < 0.02 * len(other)


@needs_data
def test_a_frozen_sensor_is_one_variable_at_most():
    before, after = scene_of("jena").inside.columns["x"], scene_of("jena").outside["frozen_sensor"].data.columns["x"]
    assert ((before != after).any(1).sum(1) <= 1).all()


@needs_data
def test_a_frozen_sensor_is_constant_in_the_second_half_of_the_window():
    before, after = scene_of("jena").inside.columns["x"], scene_of("jena").outside["frozen_sensor"].data.columns["x"]
    late = after[:, -windows.LOOKBACK // 2 :].mT[(before != after).any(1)]
    assert (late == late[:, :1]).all()


@needs_data
@pytest.mark.parametrize("kind", ["level_shift", "drift"])
def test_a_sensor_error_does_not_change_the_future_values(kind):
    near, far = scene_of("ettm1").inside.columns, scene_of("ettm1").outside[kind].data.columns
    target = -1  # oil temperature is the last variable
    offset = far["x"][:, -1, target] - near["x"][:, -1, target]
    moved = near["y"] - far["y"]
    assert (moved[offset == 0] == 0).all()
    torch.testing.assert_close(moved[:, 0].sign(), offset.sign())
