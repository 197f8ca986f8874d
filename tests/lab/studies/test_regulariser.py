import pytest

from nsac.lab.studies.base import Outcome, settings
from nsac.lab.studies.regulariser import draw, sheets
from support.studies import tiny_results

NAMES = [f"{h}polation_{m}" for h in ("inter", "extra") for m in ("mse", "mae", "aleatoric", "epistemic")]


@pytest.fixture
def rows():
    return sheets([(settings("regulariser")[0], Outcome(dict.fromkeys(NAMES, 0.1)))])[0].rows


def test_only_settings_with_a_result_have_rows(rows):
    assert [row[:2] for row in rows] == [("interpolation", "yes"), ("extrapolation", "yes")]


def test_the_pairs_of_the_paper_are_beside_our_numbers(rows):
    assert rows[1][-1] == "0.0304/0.0300"


def test_both_halves_have_errors_and_standard_deviations():
    assert list(tiny_results("regulariser")[0][1].metrics) == NAMES


def test_the_figure_has_a_panel_per_kind_of_uncertainty_and_setting():
    titles = [axis.get_title("left") for axis in draw(tiny_results("regulariser")).axes]
    kinds = ("aleatoric, with", "aleatoric, without", "epistemic, with", "epistemic, without")
    assert titles == [f"{kind} the regulariser" for kind in kinds]


def test_a_panel_without_a_result_is_empty():
    with_regulariser, without = draw(tiny_results("regulariser")[:1]).axes[:2]
    assert with_regulariser.lines and not without.lines
