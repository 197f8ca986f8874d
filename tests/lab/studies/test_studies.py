"""All studies keep the same contract."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from nsac.lab.report.sections import cell_text
from nsac.lab.studies import STUDIES
from support.studies import tiny_results


@pytest.mark.parametrize("name", STUDIES)
def test_metrics_are_numbers(name):
    assert all(isinstance(value, float) for _, outcome in tiny_results(name) for value in outcome.metrics.values())


@pytest.mark.parametrize("name", STUDIES)
def test_the_rows_of_a_table_fit_its_head(name):
    for sheet in STUDIES[name].sheets(tiny_results(name)):
        assert sheet.rows and all(len(row) == len(sheet.head) for row in sheet.rows)


@pytest.mark.parametrize("name", STUDIES)
def test_every_table_has_a_note(name):
    assert all(sheet.note for sheet in STUDIES[name].sheets(tiny_results(name)))


@pytest.mark.parametrize("name", STUDIES)
def test_tables_fit_80_columns(name):
    for sheet in STUDIES[name].sheets(tiny_results(name)):
        table = Table(*sheet.head, box=None, padding=(0, 1, 0, 0))
        for row in sheet.rows:
            table.add_row(*(cell_text(cell, brief=True) for cell in row))
        console = Console(width=80, file=io.StringIO())
        console.print(table)
        assert "…" not in console.file.getvalue()


@pytest.mark.parametrize("name", STUDIES)
def test_tables_need_only_one_result(name):
    assert STUDIES[name].sheets(tiny_results(name)[:1])


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if study.draw is not None])
def test_a_figure_is_drawn_from_the_tiny_results(name):
    assert STUDIES[name].draw(tiny_results(name)).axes
