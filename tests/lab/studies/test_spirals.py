import pytest
import torch

from nsac.lab.datasets import make_spirals
from nsac.lab.studies.spirals import TEST, TRAIN, VALIDATION, mean_trajectory, run_spirals
from support.studies import tiny_spiral_run


@pytest.fixture
def spirals():
    return make_spirals(generator=torch.Generator().manual_seed(0))


def test_the_splits_are_disjoint_and_complete():
    rows = [row for split in (TRAIN, VALIDATION, TEST) for row in range(split.start, split.stop)]
    assert rows == list(range(300))


def test_a_run_predicts_all_test_spirals_at_all_times():
    assert tiny_spiral_run().prediction.mean.shape == (50, 150, 2)


@pytest.mark.slow
def test_a_run_follows_from_its_seed():
    assert torch.equal(run_spirals(2, seed=1).prediction.mean, run_spirals(2, seed=1).prediction.mean)


def test_prediction_and_observations_are_selected_together():
    prediction, y = tiny_spiral_run().at(slice(0, 75))
    assert prediction.mean.shape == y.shape == (50, 75, 2)


def test_the_baseline_is_the_mean_of_the_training_spirals(spirals):
    torch.testing.assert_close(mean_trajectory(spirals).mean[0], spirals.y[TRAIN].mean(0))
