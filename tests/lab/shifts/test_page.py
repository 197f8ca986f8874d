import pandas as pd
import pytest

from nsac.lab.shifts.page import cost_table, detection_table, has_cost, markdown, page, score_table, section
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


def test_missing_values_are_empty_cells():
    frame = pd.DataFrame({"a": [1.0, None]}, index=pd.Index(["x", "y"], name="row"))
    assert markdown(frame) == "| row | a |\n| --- | --- |\n| x | 1.000 |\n| y |  |\n"


def test_the_page_counts_runs_and_seeds():
    assert "2 seeds, 4 runs" in page(shift_records(*BOTH))


def test_reference_detectors_are_no_runs():
    assert "2 seeds, 2 runs" in page(shift_records("nsac", "knn/inputs"))


def test_tables_without_records_are_marked():
    assert page(shift_records("nsac")).count("Not run.") == 2  # confirmation scenes, and the comparison


def test_confirmation_scenes_have_their_own_table():
    records = pd.concat([shift_records("nsac"), shift_records("nsac", seeds=(0,), scene="pronostia")])
    assert "Seeds: `nsac` 1." in page(records) and page(records).count("| nsac | 0.900 | 0.900 | 0.900 |") == 2


def test_the_cost_is_on_the_page():
    assert "| concrete | 1.000 | 1.000 |" in page(shift_records(*BOTH))


def test_the_section_has_a_row_per_method():
    assert [row[0] for row in section(shift_records(*BOTH, "knn/inputs")).sheets[0].rows] == list(BOTH)


def test_the_rows_of_a_section_fit_its_heads():
    for sheet in section(shift_records(*BOTH)).sheets:
        assert all(len(row) == len(sheet.head) for row in sheet.rows)


def test_the_section_compares_only_if_both_methods_have_records():
    assert len(section(shift_records(*BOTH)).sheets) == 3 and len(section(shift_records("nsac")).sheets) == 2
