import json
from types import SimpleNamespace

import pytest

from support.cli import call


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "folder" / "demo.png"


@pytest.fixture(scope="module")
def output(figure):
    return call("demo", "--steps", 3, "--out", figure).output


@pytest.mark.parametrize("word", ["nsac, interpolation", "nsac, extrapolation", "MSE", "NLL", "CRPS", "90 % PI"])
def test_the_demo_prints_scores(output, word):
    assert word in output


def test_the_demo_prints_a_baseline_beside_them(output):
    assert "mean trajectory" in output


def test_the_demo_draws_a_figure_in_a_folder_that_it_makes(output, figure):
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_scores_are_read_by_programs(tmp_path, monkeypatch):
    rows = [{"method": "nsac", "part": "interpolation", "mse": 0.1}]
    monkeypatch.setattr("nsac.lab.studies.demo.run_demo", lambda *_: SimpleNamespace(run=None, rows=rows))
    monkeypatch.setattr("nsac.lab.studies.figure.spiral_figure", lambda *_: None)
    found = json.loads(call("demo", "--out", tmp_path / "demo.png", "--json").stdout)
    assert found == {"rows": rows, "figure": str(tmp_path / "demo.png")}


def test_no_steps_are_refused():
    call("demo", "--steps", 0, code=2)
