import pytest

from nsac.lab.studies.demo import run_demo
from support.studies import tiny_spiral_run


@pytest.fixture
def demo(monkeypatch):
    monkeypatch.setattr("nsac.lab.studies.demo.run_spirals", lambda *_, **__: tiny_spiral_run())
    return run_demo()


def test_both_halves_of_both_methods_are_scored(demo):
    assert [(row["method"], row["half"]) for row in demo.rows] == [
        (method, half) for method in ("nsac", "mean trajectory") for half in ("interpolation", "extrapolation")
    ]


def test_the_baseline_has_no_epistemic_uncertainty(demo):
    assert [row["epistemic"] for row in demo.rows if row["method"] == "mean trajectory"] == [0, 0]
