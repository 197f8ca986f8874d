import pytest
import torch

from nsac.lab.shifts.detectors import described, flat_inputs, references
from nsac.lab.shifts.evaluation import evaluate_detector
from support.scenes import needs_data, scene_of


def test_inputs_of_a_table_are_vectors():
    assert flat_inputs({"x": torch.ones(3, 4), "calendar": torch.ones(3, 2)}).shape == (3, 6)


def test_inputs_of_a_series_are_a_vector_per_query():
    series = {"x": torch.ones(3, 5, 2), "times": torch.ones(3, 5), "mask": torch.zeros(3, 5, dtype=torch.bool)}
    assert flat_inputs({**series, "query_times": torch.ones(3, 4)}).shape == (12, 5 * 2 + 5 + 1)


def test_masked_observations_are_no_inputs():
    series = {"times": torch.ones(1, 2), "query_times": torch.ones(1, 1), "mask": torch.tensor([[False, True]])}
    one, other = torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[1.0], [3.0]]])
    assert torch.equal(flat_inputs({**series, "x": one}), flat_inputs({**series, "x": other}))


@needs_data
def test_only_tables_have_a_gaussian_process():
    assert "gp" in references(scene_of("concrete")) and "gp" not in references(scene_of("spiral"))


@needs_data
@pytest.mark.parametrize("name", ["mahalanobis/inputs", "knn/inputs", "gp"])
def test_rows_of_the_bounding_box_are_far_from_the_training_rows(name):
    scene = scene_of("concrete")
    (record,) = evaluate_detector(name, references(scene)[name], scene, ["box"])
    assert record["auroc"] > 0.9


def test_spirals_of_the_other_direction_are_far_in_the_descriptions():
    scene = scene_of("spiral")
    (record,) = evaluate_detector("knn", described(scene)["knn/described"], scene, ["other_direction"])
    assert record["auroc"] > 0.9
