import pytest
import torch

from nsac.lab.shifts.scenes.spirals import MIN_LATER_TIME, THINNED_OBSERVATIONS, make_spiral
from support.scenes import scene_of


@pytest.fixture
def scene():
    return scene_of("spiral")


def columns(scene, kind):
    return scene.outside[kind].data.columns


def test_a_missing_quarter_is_queried_where_nothing_is_observed(scene):
    batch = columns(scene, "missing_quarter")
    times = batch["times"].masked_fill(batch["mask"], torch.inf)
    distance = (batch["query_times"][:, :, None] - times[:, None]).abs().amin(-1)
    assert (distance > 0.006).all()  # the points of a spiral are 1/149 apart


def test_a_missing_quarter_has_missing_observations(scene):
    assert columns(scene, "missing_quarter")["mask"].sum(1).min() >= 5


def test_later_times_are_beyond_all_observations(scene):
    batch = columns(scene, "later_times")
    assert batch["query_times"].min() >= MIN_LATER_TIME > batch["times"].max()


def test_the_other_direction_has_the_same_first_coordinate(scene):
    same = columns(scene, "other_direction")["x"][..., 0] == scene.inside.columns["x"][..., 0]
    assert same.all()


def test_thinned_spirals_keep_few_observations(scene):
    assert ((~columns(scene, "thinned")["mask"]).sum(1) == THINNED_OBSERVATIONS).all()


def test_the_noisy_scene_has_more_noise(scene):
    noisy = make_spiral("spiral/noisy", seed=1).train.columns["x"]
    rough = (noisy.diff(dim=1).diff(dim=1)).std()
    assert rough > (scene.train.columns["x"].diff(dim=1).diff(dim=1)).std()
