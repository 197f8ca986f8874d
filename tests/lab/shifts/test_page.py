import pandas as pd

from nsac.lab.shifts.page import markdown, page, section
from support.shifts import shift_records

BOTH = ("nsac", "nsac, likelihood")


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
