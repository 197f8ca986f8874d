import dataclasses

import numpy as np
import pytest
import torch

from nsac.lab.datasets.store import present
from nsac.lab.datasets.uci import COLUMNS
from nsac.lab.shifts.scenes import bearings, windows
from nsac.lab.shifts.suite import (
    CHOOSING,
    CONFIRMING,
    REPORTED,
    SCENES,
    detection,
    evaluate,
    evaluate_detector,
    make_scene,
    references,
)
from nsac.methods import METHODS, TableProblem

SOURCES = ("xjtu", "pronostia", "hust", "ettm1", "jena-2020", "spiral", *COLUMNS)

needs_data = pytest.mark.skipif(
    not all(present(name) for name in SOURCES), reason="needs the data sets in the folder NSAC_DATA or in the cache"
)


@pytest.fixture(scope="module")
def scenes():
    return {name: make_scene(name, seed=1) for name in SCENES}


def sets(scene):
    return [scene.train, scene.validation, scene.inside, *(shift.data for shift in scene.outside.values())]


def test_what_is_reported_is_never_chosen_by():
    assert not set(REPORTED) & set(CHOOSING)
    assert set(REPORTED) | set(CHOOSING) == {kind for kinds in SCENES.values() for kind in kinds}


def test_scenes_that_confirm_have_reported_kinds_alone():
    assert all(set(SCENES[name]) <= set(REPORTED) for name in CONFIRMING)
    assert {kind for name in CONFIRMING for kind in SCENES[name]} == set(REPORTED)


@needs_data
@pytest.mark.parametrize("name", SCENES)
def test_a_scene_has_the_shifts_it_announces(scenes, name):
    assert {shift.kind for shift in scenes[name].outside.values()} == set(SCENES[name])


@needs_data
@pytest.mark.parametrize("name", ["bearings", "jena", "spiral", "concrete", "concrete/left_out_cluster"])
def test_a_scene_follows_from_name_and_seed(scenes, name):
    for a, b in zip(sets(scenes[name]), sets(make_scene(name, seed=1)), strict=True):
        assert all(torch.equal(a.columns[key], b.columns[key]) for key in a.columns)
    assert not torch.equal(scenes[name].train.columns["x"], make_scene(name, seed=2).train.columns["x"])


@needs_data
@pytest.mark.parametrize("name", SCENES)
def test_no_training_row_comes_back(scenes, name):
    trained, *others = (
        {row.tobytes() for row in torch.cat([d.columns[k].flatten(1) for k in "xy"], 1).numpy()}
        for d in sets(scenes[name])
    )
    assert not any(trained & other for other in others)


@needs_data
@pytest.mark.parametrize("name", ["ettm1", "jena", "jena/winter"])
def test_no_part_of_a_training_window_is_in_another_set(scenes, name):
    scene = scenes[name]
    trained, *others = (
        {step.tobytes() for step in d.columns["x"].numpy().reshape(-1, scene.problem.input_dim)}
        for d in (scene.train, scene.validation, scene.inside, scene.outside["season"].data)
    )
    for other in others:  # records are rounded: a few hundred of some ten thousand steps have equals by chance
        assert len(trained & other) < 0.02 * len(other)


@needs_data
@pytest.mark.parametrize("name", SCENES)
def test_inputs_are_standardised_by_the_training_rows_alone(scenes, name):
    x = scenes[name].train.columns["x"].flatten(0, -2)
    torch.testing.assert_close(x.mean(0), torch.zeros(x.shape[1]), atol=1e-6, rtol=0)  # spirals are made in float32
    torch.testing.assert_close(x.std(0, correction=0), torch.ones(x.shape[1]))


@needs_data
def test_other_rows_elsewhere_leave_training_as_it_is(scenes, monkeypatch):
    load = bearings.load_bearing

    def worn(rig, name):
        run = load(rig, name)
        return run if name in ("1_1", "1_2", "1_3") else dataclasses.replace(run, features=run.features * 2)

    monkeypatch.setattr(bearings, "load_bearing", worn)
    changed = make_scene("bearings", seed=1)
    for a, b in zip(sets(scenes["bearings"])[:3], sets(changed)[:3], strict=True):
        assert torch.equal(a.columns["x"], b.columns["x"]) and torch.equal(a.columns["y"], b.columns["y"])
    label = "other_bearing/xjtu-1_4"
    assert not torch.equal(
        changed.outside[label].data.columns["x"], scenes["bearings"].outside[label].data.columns["x"]
    )


@needs_data
@pytest.mark.parametrize("name", SCENES)
def test_every_set_fits_the_problem(scenes, name):
    scene = scenes[name]
    network = dataclasses.replace(scene.problem.network, d_model=8, num_heads=2, circuit_units=8, hidden=8)
    method = METHODS["gmle"](dataclasses.replace(scene.problem, network=network), seed=0)
    for data in sets(scene):
        batch = data.batch(torch.arange(2))
        assert data.columns.keys() == scene.train.columns.keys()
        assert all(torch.isfinite(column).all() for column in data.columns.values())
        assert method.predict(batch).shape == method.target(batch).shape


@needs_data
def test_a_frozen_sensor_holds_one_value_for_half_the_window_or_more(scenes):
    before, after = (d.columns["x"] for d in (scenes["jena"].inside, scenes["jena"].outside["frozen_sensor"].data))
    altered = (before != after).any(1)
    assert (altered.sum(1) <= 1).all()
    late = after[:, -windows.LOOKBACK // 2 :].mT[altered]
    assert (late == late[:, :1]).all()


@needs_data
def test_a_missing_quarter_is_asked_where_nothing_is_seen(scenes):
    batch = scenes["spiral"].outside["missing_quarter"].data.columns
    times = batch["times"].masked_fill(batch["mask"], torch.inf)
    apart = (batch["query_times"][:, :, None] - times[:, None]).abs().amin(-1)
    assert (apart > 0.006).all()  # the points of a spiral are 1/149 apart
    assert batch["mask"].sum(1).min() >= 5


@needs_data
def test_a_sensor_that_is_off_does_not_change_what_comes(scenes):
    scene = scenes["ettm1"]
    target = -1  # oil temperature is the last variable
    for shift in ("level_shift", "drift"):
        near, far = scene.inside.columns, scene.outside[shift].data.columns
        offset = far["x"][:, -1, target] - near["x"][:, -1, target]
        moved = near["y"] - far["y"]
        assert (moved[offset == 0] == 0).all()
        torch.testing.assert_close(moved[:, 0].sign(), offset.sign())


@needs_data
def test_every_shift_is_scored_once_and_chance_is_half(scenes):
    scene = scenes["concrete"]
    small = TableProblem(8, 1, network=dataclasses.replace(scene.problem.network, d_model=16, num_heads=2))
    records = evaluate(METHODS["mcd"](small, seed=0), scene, REPORTED + CHOOSING, num_samples=5)
    assert [r["kind"] for r in records] == list(scene.outside[label].kind for label in scene.outside)
    assert all(np.isfinite(value) for r in records for value in r.values() if isinstance(value, float))
    chance = references(scenes["spiral"])["noise"]
    for record in evaluate_detector("noise", chance, scenes["spiral"]):
        assert record["auroc"] == pytest.approx(0.5, abs=0.1)  # 640 rows on each side: deviation 0.016


def test_a_score_that_tells_all_is_perfect():
    assert detection(torch.zeros(4), torch.ones(3)) == {"auroc": 1, "aupr": 1, "fpr95": 0}
