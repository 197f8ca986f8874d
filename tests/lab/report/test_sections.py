import dataclasses
import re

import pytest

from nsac._torch import single_threaded
from nsac.lab.grid.sheet import Image, Section, Sheet, Spread
from nsac.lab.report.sections import cell_text, links_html, report_sections, sections_html, sections_markdown
from nsac.lab.studies import STUDIES
from nsac.lab.studies.base import settings
from support.runs import a_study_record

LAPS = Sheet("Laps", ["method", "laps"], [["nsac", Spread(0.75, 0.25)], ["gmle", None]], "Of ten.")
DRIVING = Section("driving", "Driving", "In < 9 laps.", [LAPS], [Image("loop", "A lap.", b"not a picture")])


@pytest.fixture(scope="module")
def cost_records():
    metrics = {"seconds": 0.5, "seconds_std": 0.1, "throughput": 2.0, "memory": 9.0, "parameters": 7.0}
    return [a_study_record(setting, metrics) for setting in settings("cost")[:2]]


@pytest.fixture(scope="module")
def freezing_record():
    with single_threaded():
        outcome = STUDIES["freezing"].run({"seed": 0, "steps": 1, "updates": 3})
    record = a_study_record(settings("freezing")[0], outcome.metrics)
    return dataclasses.replace(record, series=outcome.series)


def as_html(studies, further=()):
    return sections_html(report_sections([], studies, further))


def markdown(studies, further=()):
    return "\n".join(sections_markdown(report_sections([], studies, further), "figures"))


def test_without_records_there_are_no_sections():
    assert not report_sections([], [], [])


def test_every_section_is_linked(cost_records):
    blocks = report_sections([], cost_records, [DRIVING])
    assert links_html(blocks) == '<a href="#studies">studies</a><a href="#driving">driving</a>'


def test_the_text_of_a_section_is_escaped():
    assert "In &lt; 9 laps." in as_html([], [DRIVING])


def test_cells_can_be_sorted_by_their_mean():
    row = '<tr class="ours"><td>nsac</td><td data-value="0.75">0.75 ± 0.25</td></tr>'
    assert row in as_html([], [DRIVING])


def test_the_same_section_is_markdown():
    text = markdown([], [DRIVING])
    assert "## Driving" in text and "| nsac | 0.75 ± 0.25 |" in text and "![A lap.](figures/loop.png)" in text


def test_missing_records_of_a_study_are_counted(cost_records):
    missing = "5 of 7 settings have no record"
    assert missing in as_html(cost_records) and missing in markdown(cost_records)


def test_a_study_has_the_numbers_of_the_paper_beside_ours(cost_records):
    assert "| nsac | 0.5 ± 0.1 | 1 | 2 | 9 | 7 | 14.14 ± 0.46 | 0.07 | 75.94 | 37278 |" in markdown(cost_records)


def test_figures_are_inside_the_html(freezing_record):
    assert re.search(r'<img alt="[^"]+" src="data:image/png;base64,iVBOR', as_html([freezing_record]))


def test_figures_of_markdown_are_files(freezing_record):
    assert "](figures/freezing.png)" in markdown([freezing_record])


@pytest.mark.parametrize(("cell", "text"), [
    ("a", "a"), (None, ""), (3, "3"), (30985.0, "30985"), (0.12345, "0.1235"), (Spread(0.5, 0.01), "0.5 ± 0.01"),
    (Spread(None, None), "not finite"), (Spread(1.0, None), "1"),
])  # fmt: skip
def test_a_cell_is_readable_text(cell, text):
    assert cell_text(cell) == text


def test_a_brief_cell_has_no_standard_deviation():
    assert cell_text(Spread(0.5, 0.01), brief=True) == "0.5"
