import pytest

from nsac.lab.report.summary import GENERAL, group_records, lead, notes_of, origin


def test_records_are_grouped_by_task_and_protocol(records):
    groups = group_records(records)
    assert list(groups) == [(task, kind) for task in ("boston", "kin8nm") for kind in ("paper", "sound")]


def test_records_of_a_group_are_in_the_order_of_the_tables(records):
    first = group_records(reversed(records))["boston", "paper"]
    assert [(r.method, r.seed) for r in first[:4]] == [("nsac", 0), ("nsac", 1), ("nsac", 2), ("gmle", 0)]


def test_the_lead_counts_runs_tasks_methods_and_seeds(records):
    assert lead(records).startswith("48 runs: 2 tasks, 4 methods, 3 seeds, 0.0 hours of one core.")


def test_the_origin_has_dates_and_versions(records):
    assert origin(records).startswith("Records of 2024-01-01 to 2024-01-01 on unknown; torch 2; commits unknown ")


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
