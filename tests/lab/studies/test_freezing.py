from nsac.lab.grid.table import paper_table
from nsac.lab.studies.freezing import LABELS, draw, sheets
from nsac.lab.studies.frozen_gates import REGIMES
from support.studies import tiny_results


def test_every_regime_has_every_number():
    metrics = tiny_results("freezing")[0][1].metrics
    assert set(metrics) == {f"{regime}_{field}" for regime in REGIMES for field in LABELS}


def test_the_numbers_of_the_paper_are_beside_ours():
    sheet = sheets(tiny_results("freezing"))[0]
    assert [row[2] for row in sheet.rows[:5]] == list(paper_table("table_3")["slow"].values())


def test_the_regimes_are_those_of_the_paper():
    assert list(REGIMES) == list(paper_table("table_3"))


def test_the_figure_is_saved_without_a_display(tmp_path):
    draw(tiny_results("freezing")).savefig(tmp_path / "step.png")
    assert (tmp_path / "step.png").read_bytes().startswith(b"\x89PNG")
