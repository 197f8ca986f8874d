import pytest
import torch

from nsac.lab.datasets import make_spirals
from nsac.lab.studies.demo import TEST, TRAIN, VALIDATION, mean_trajectory, run_demo, run_spirals
from nsac.uncertainty import mse
from support.studies import tiny_spiral_run


@pytest.fixture
def demo(monkeypatch):
    monkeypatch.setattr("nsac.lab.studies.demo.run_spirals", lambda *_, **__: tiny_spiral_run())
    return run_demo()


def test_both_halves_of_both_methods_are_scored(demo):
    assert [(row["method"], row["half"]) for row in demo.rows] == [
        (method, half) for method in ("nsac", "mean trajectory") for half in ("interpolation", "extrapolation")
    ]


def test_the_baseline_has_no_epistemic_uncertainty(demo):
    assert [row["epistemic"] for row in demo.rows if row["method"] == "mean trajectory"] == [0, 0]


def test_the_splits_are_disjoint_and_complete():
    rows = [row for split in (TRAIN, VALIDATION, TEST) for row in range(split.start, split.stop)]
    assert rows == list(range(300))


def test_a_run_predicts_all_test_spirals_at_all_times():
    assert tiny_spiral_run().prediction.mean.shape == (50, 150, 2)


@pytest.mark.slow
def test_a_run_follows_from_its_seed():
    assert torch.equal(run_spirals(2, seed=1).prediction.mean, run_spirals(2, seed=1).prediction.mean)


def test_each_half_is_scored_against_its_own_observations():
    run = tiny_spiral_run()
    error = (run.prediction.mean - run.spirals.y[TEST])[:, 75:].square().mean().item()
    assert run.score(mse)["extrapolation"]["mse"] == pytest.approx(error)


def test_the_baseline_is_the_mean_of_the_training_spirals():
    spirals = make_spirals(generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(mean_trajectory(spirals).mean[0], spirals.y[TRAIN].mean(0))
