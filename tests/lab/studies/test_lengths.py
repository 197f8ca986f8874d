from nsac.lab.studies.base import Outcome, settings
from nsac.lab.studies.lengths import draw, sheets


def results(count):
    return [(s, Outcome({"seconds": s.config["length"] / 1e4, "memory": 2.0})) for s in settings("lengths")[:count]]


def test_a_table_has_a_row_per_length_and_a_column_per_k():
    sheet = sheets(results(20))[0]
    assert [row[0] for row in sheet.rows] == [100, 1000, 10000, 50000]
    assert list(sheet.head) == ["tokens", "top-2", "top-4", "top-8", "top-16", "top-32"]


def test_a_setting_without_a_record_is_an_empty_cell():
    assert sheets(results(5))[0].rows[-1] == (50000, 5.0, None)


def test_the_figure_has_a_line_per_k():
    assert [len(axis.lines) for axis in draw(results(8)).axes] == [2, 2]
