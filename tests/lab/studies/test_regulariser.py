import pytest
import torch

from nsac.lab.studies.base import Outcome, settings
from nsac.lab.studies.regulariser import TEST, TRAIN, VALIDATION, draw, run_spirals, sheets
from nsac.uncertainty import mse
from support.studies import tiny_results, tiny_spiral_run

NAMES = [f"{h}polation_{m}" for h in ("inter", "extra") for m in ("mse", "mae", "aleatoric", "epistemic")]


@pytest.fixture
def rows():
    return sheets([(settings("regulariser")[0], Outcome(dict.fromkeys(NAMES, 0.1)))])[0].rows


def test_only_settings_with_a_result_have_rows(rows):
    assert [row[:2] for row in rows] == [("interpolation", "yes"), ("extrapolation", "yes")]


def test_the_pairs_of_the_paper_are_beside_our_numbers(rows):
    assert rows[1][-1] == "0.0304/0.0300"


def test_both_halves_have_errors_and_standard_deviations():
    assert list(tiny_results("regulariser")[0][1].metrics) == NAMES


def test_the_figure_has_a_panel_per_kind_of_uncertainty_and_setting():
    titles = [axis.get_title("left") for axis in draw(tiny_results("regulariser")).axes]
    kinds = ("aleatoric, with", "aleatoric, without", "epistemic, with", "epistemic, without")
    assert titles == [f"{kind} the regulariser" for kind in kinds]


def test_a_panel_without_a_result_is_empty():
    with_regulariser, without = draw(tiny_results("regulariser")[:1]).axes[:2]
    assert with_regulariser.lines and not without.lines


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
