import dataclasses

import pytest
import torch

from nsac.lab.shifts.scenes import bearings, make_scene
from support.scenes import needs_data, scene_of, sets_of


@pytest.fixture
def altered(monkeypatch):
    """The scene, with other features of all bearings that are not trained on."""
    load = bearings.load_bearing

    def worn(rig, name):
        run = load(rig, name)
        return run if name in ("1_1", "1_2", "1_3") else dataclasses.replace(run, features=run.features * 2)

    monkeypatch.setattr(bearings, "load_bearing", worn)
    return make_scene("bearings", seed=1)


@needs_data
def test_shifted_bearings_do_not_influence_the_training_distribution(altered):
    for a, b in zip(sets_of(scene_of("bearings"))[:3], sets_of(altered)[:3], strict=True):
        assert torch.equal(a.columns["x"], b.columns["x"]) and torch.equal(a.columns["y"], b.columns["y"])


@needs_data
def test_shifted_rows_are_of_the_other_bearing(altered):
    before = scene_of("bearings").outside["other_bearing/xjtu-1_4"].data.columns["x"]
    assert not torch.equal(altered.outside["other_bearing/xjtu-1_4"].data.columns["x"], before)
