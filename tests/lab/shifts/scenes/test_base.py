import dataclasses

import pytest
import torch

from nsac.lab.shifts.scenes import CHOOSING, CONFIRMING, REPORTED, SCENES, make_scene, scenes
from nsac.methods import METHODS
from support.scenes import needs_data, scene_of, sets_of


def test_no_model_is_chosen_by_a_reported_kind():
    assert not set(REPORTED) & set(CHOOSING)


def test_every_kind_is_reported_or_for_choosing():
    assert set(REPORTED) | set(CHOOSING) == {kind for kinds in SCENES.values() for kind in kinds}


def test_confirmation_scenes_have_only_reported_kinds():
    assert all(set(SCENES[name]) <= set(REPORTED) for name in CONFIRMING)


def test_confirmation_scenes_have_all_reported_kinds():
    assert {kind for name in CONFIRMING for kind in SCENES[name]} == set(REPORTED)


def test_scenes_are_found_by_the_kinds_of_their_shifts():
    assert scenes(["later_times"]) == ["spiral", "spiral/noisy"]


@needs_data
@pytest.mark.parametrize("name", SCENES)
def test_a_scene_has_the_announced_shifts(name):
    assert {shift.kind for shift in scene_of(name).outside.values()} == set(SCENES[name])


@needs_data
@pytest.mark.parametrize("name", ["bearings", "jena", "spiral", "concrete", "concrete/left_out_cluster"])
def test_a_scene_follows_from_name_and_seed(name):
    for a, b in zip(sets_of(scene_of(name)), sets_of(make_scene(name, seed=1)), strict=True):
        assert all(torch.equal(a.columns[key], b.columns[key]) for key in a.columns)


@needs_data
@pytest.mark.parametrize("name", ["bearings", "jena", "spiral", "concrete", "concrete/left_out_cluster"])
def test_another_seed_gives_another_scene(name):
    assert not torch.equal(scene_of(name).train.columns["x"], make_scene(name, seed=2).train.columns["x"])


@needs_data
@pytest.mark.parametrize("name", SCENES)
def test_no_training_row_is_in_another_set(name):
    rows = [
        {row.tobytes() for row in torch.cat([data.columns[k].flatten(1) for k in "xy"], 1).numpy()}
        for data in sets_of(scene_of(name))
    ]
    assert not any(rows[0] & other for other in rows[1:])


@needs_data
@pytest.mark.parametrize("name", SCENES)
def test_inputs_are_standardised_by_the_training_rows(name):
    x = scene_of(name).train.columns["x"].flatten(0, -2)
    zeros = torch.zeros(x.shape[1])
    torch.testing.assert_close(x.mean(0), zeros, atol=1e-6, rtol=0)  # spirals are generated in float32
    torch.testing.assert_close(x.std(0, correction=0), torch.ones(x.shape[1]))


@needs_data
@pytest.mark.parametrize("name", SCENES)
def test_all_values_are_finite(name):
    for data in sets_of(scene_of(name)):
        assert all(torch.isfinite(column).all() for column in data.columns.values())


@needs_data
@pytest.mark.parametrize("name", SCENES)
def test_every_set_fits_the_problem(name):
    scene = scene_of(name)
    network = dataclasses.replace(scene.problem.network, d_model=8, num_heads=2, circuit_units=8, hidden=8)
    method = METHODS["gmle"](dataclasses.replace(scene.problem, network=network), seed=0)
    for data in sets_of(scene):
        batch = data.batch(torch.arange(2))
        assert data.columns.keys() == scene.train.columns.keys()
        assert method.predict(batch).shape == method.target(batch).shape
