import dataclasses

import numpy as np
import pytest
import torch

from nsac.lab.shifts.scenes import make_scene, tables
from nsac.lab.shifts.scenes.tables import LEAVE_OUT, TABLE_CHANGES, add_noise, cross_over
from support.scenes import needs_data, scene_of, sets_of


@pytest.fixture
def x(seed):
    return np.random.default_rng(seed).normal(size=(400, 6))


def test_shuffled_features_keep_their_values(x, seed):
    changed = TABLE_CHANGES["shuffled_features"](x, x, np.random.default_rng(seed))
    np.testing.assert_array_equal(np.sort(changed, 0), np.sort(x, 0))


def test_noise_is_between_a_tenth_and_three_standard_deviations(x, seed):
    wide = np.tile(x, (1, 100))
    size = (add_noise(wide, wide, np.random.default_rng(seed)) - wide).std(1)
    assert size.min() > 0.08 and size.max() < 3.5  # 600 draws per row: their standard deviation is within 10 %


def test_a_crossed_over_row_has_half_of_its_features(x, seed):
    changed = cross_over(x, x + 10, np.random.default_rng(seed))
    assert ((changed == x).sum(1) == 3).all()


@pytest.mark.parametrize("kind", ["left_out_side", "left_out_target"])
def test_a_region_left_out_has_about_15_percent_of_the_rows(x, kind, seed):
    assert LEAVE_OUT[kind](x, np.random.default_rng(seed)).mean() == pytest.approx(0.15, abs=0.05)


def test_a_table_of_ties_has_no_side_to_leave_out(seed):
    with pytest.raises(ValueError, match="must have a feature with a limit that leaves out 10 to 20 %"):
        LEAVE_OUT["left_out_side"](np.zeros((50, 3)), np.random.default_rng(seed))


@needs_data
def test_targets_left_out_are_larger_than_those_of_training():
    scene = scene_of("concrete/left_out_target")
    assert scene.outside["left_out_target"].data.columns["y"].min() >= scene.train.columns["y"].max()


@pytest.fixture
def altered(monkeypatch):
    """The scene, with other features of all bearings that are not trained on."""
    scene_of("bearings")  # the scene to compare with is made before anything is altered
    load = tables.load_bearing

    def worn(rig, name):
        run = load(rig, name)
        return run if name in ("1_1", "1_2", "1_3") else dataclasses.replace(run, features=run.features * 2)

    monkeypatch.setattr(tables, "load_bearing", worn)
    return make_scene("bearings", seed=1)


@needs_data
def test_shifted_bearings_do_not_influence_the_training_distribution(altered):
    for a, b in zip(sets_of(scene_of("bearings"))[:3], sets_of(altered)[:3], strict=True):
        assert torch.equal(a.columns["x"], b.columns["x"]) and torch.equal(a.columns["y"], b.columns["y"])


@needs_data
def test_shifted_rows_are_of_the_other_bearing(altered):
    before = scene_of("bearings").outside["other_bearing/xjtu-1_4"].data.columns["x"]
    assert not torch.equal(altered.outside["other_bearing/xjtu-1_4"].data.columns["x"], before)
