import pytest

from nsac.lab.grid.sheet import Section
from nsac.lab.report.markdown import report_markdown


@pytest.fixture(scope="module")
def page(records):
    return report_markdown(records)


def test_the_number_of_the_paper_follows_ours(page):
    assert "| nsac | 0.021 ± 0.001 (paper 0.094) |" in page


def test_the_best_mean_is_bold(page):
    assert "| ridge | **0.011 ± 0.001** |" in page


def test_the_page_names_the_test_and_its_level(page):
    assert "not significantly different from it (paired t-test over seeds, level 0.05" in page


def test_notes_are_a_list_at_the_end(page):
    assert "\n- " in page.partition("## Notes")[2]


def test_further_sections_are_on_the_page(records):
    assert "## Driving" in report_markdown(records, further=[Section("driving", "Driving", "In < 9 laps.", [])])
