import pandas as pd
import pytest

from nsac.lab.shifts.tables import cost_table, detection_table, has_cost, score_table
from support.shifts import shift_records

BOTH = ("nsac", "nsac, likelihood")


@pytest.fixture
def uneven():
    """Two shifts of one kind and one of another."""
    rows = [("a", "x", 0, 1.0), ("a", "x", 0, 0.0), ("a", "y", 0, 1.0), ("b", "x", 0, 1.0)]
    return detection_table(pd.DataFrame(rows, columns=["method", "kind", "seed", "auroc"]))


def test_all_kinds_have_the_same_weight(uneven):
    assert uneven.loc["a", "mean"] == 0.75


def test_the_lowest_score_is_over_kinds(uneven):
    assert uneven.loc["a", "lowest"] == 0.5


def test_a_method_that_lacks_a_kind_has_no_mean(uneven):
    assert pd.isna(uneven.loc["b", "mean"])


def test_a_detector_without_predictions_has_only_detection_scores():
    detector = shift_records("knn")[["method", "kind", "scene", "shift", "seed", "auroc", "aupr", "fpr95"]]
    table = score_table(pd.concat([shift_records("nsac"), detector]))
    assert table.loc["knn", "AUROC"] == pytest.approx(0.9) and pd.isna(table.loc["knn", "NLL"])


def test_the_cost_needs_both_methods():
    assert has_cost(shift_records(*BOTH)) and not has_cost(shift_records("nsac"))


def test_equal_errors_have_ratio_one():
    assert cost_table(shift_records(*BOTH)).loc["concrete", "RMSE ratio"] == 1


def test_squared_error_is_divided_by_the_variance():
    assert cost_table(shift_records(*BOTH)).loc["concrete", "squared error / variance, nsac"] == 1


def test_full_coverage_leaves_no_shortfall():
    assert cost_table(shift_records(*BOTH)).loc["season", "shortfall ratio"] == 0


def test_runs_without_a_partner_are_left_out():
    unpaired = shift_records("nsac, likelihood", seeds=(2,)).assign(rmse_inside=100.0, coverage_90=0.0)
    records = shift_records(*BOTH)
    pd.testing.assert_frame_equal(cost_table(pd.concat([records, unpaired])), cost_table(records))
