import dataclasses

import numpy as np
import pytest
import torch

from nsac.lab.shifts.detectors import references
from nsac.lab.shifts.evaluation import detection, evaluate, evaluate_detector
from nsac.lab.shifts.scenes import CHOOSING, REPORTED
from nsac.methods import METHODS, TableProblem
from support.scenes import needs_data, scene_of


@pytest.fixture
def records():
    scene = scene_of("concrete")
    small = TableProblem(8, 1, network=dataclasses.replace(scene.problem.network, d_model=16, num_heads=2))
    return evaluate(METHODS["mcd"](small, seed=0), scene, REPORTED + CHOOSING, num_samples=5)


@needs_data
def test_every_shift_has_one_record(records):
    assert [record["shift"] for record in records] == list(scene_of("concrete").outside)


@needs_data
def test_all_scores_are_finite(records):
    assert all(np.isfinite(value) for record in records for value in record.values() if isinstance(value, float))


@needs_data
def test_other_kinds_are_not_evaluated():
    found = evaluate_detector("size", lambda data: data.columns["x"].norm(dim=1), scene_of("concrete"), ["box"])
    assert [record["kind"] for record in found] == ["box"]


def test_random_noise_detects_nothing():
    scene = scene_of("spiral")
    for record in evaluate_detector("noise", references(scene)["noise"], scene):
        # 640 rows on each side: the standard deviation of the AUROC is 0.016
        assert record["auroc"] == pytest.approx(0.5, abs=0.1)


def test_a_score_that_separates_all_rows_is_perfect():
    assert detection(torch.zeros(4), torch.ones(3)) == {"auroc": 1, "aupr": 1, "fpr95": 0}
