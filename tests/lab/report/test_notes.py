import pytest

from nsac.lab.report.notes import GENERAL, notes_of


@pytest.fixture(scope="module")
def notes(records):
    return "\n".join(notes_of(records))


def test_missing_runs_are_counted(notes):
    assert "60 runs of this grid have no record yet" in notes


def test_means_that_are_not_finite_are_counted(notes):
    assert "4 means are not finite" in notes


def test_tasks_on_which_another_method_has_a_lower_crps_are_named(notes):
    assert "another method has a lower mean than nsac on: boston (ridge: 0.011, nsac: 0.021)" in notes


def test_coverage_that_is_off_is_named(notes):
    assert "more than 2 points off on: boston, paper (0.800)" in notes


def test_baselines_below_the_mse_of_the_paper_are_named(notes):
    assert "boston: baselines with an MSE below the one that the paper prints for NSAC, 0.0301: ridge" in notes


def test_general_notes_are_last(records):
    assert tuple(notes_of(records)[-len(GENERAL) :]) == GENERAL
