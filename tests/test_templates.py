"""The templates of docs/extending.md run as they are."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nsac.lab.datasets import DataError
from nsac.lab.datasets.examples import example_files
from nsac.lab.tasks.base import TASKS, load_task
from nsac.methods import METHODS, fit
from nsac.uncertainty import Prediction

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "templates"


@pytest.fixture
def template(monkeypatch):
    """A function that imports a template; what it has registered is removed after the test."""
    monkeypatch.syspath_prepend(str(FOLDER))
    registered = dict(TASKS)
    yield importlib.import_module
    for name in ("dataset", "task", "score"):
        sys.modules.pop(name, None)
    TASKS.clear()
    TASKS.update(registered)


@pytest.fixture
def table(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("NSAC_DATA", str(tmp_path))
    path = tmp_path / "diabetes.csv"
    path.write_bytes(example_files("tables")["diabetes.csv"])
    return path


def test_the_template_of_a_data_set_reads_the_file(template, table: Path):
    data = template("dataset").load_diabetes(table)
    assert data.x.shape == (442, 10) and data.y.shape == (442,)


def test_the_template_of_a_data_set_refuses_another_file(template, table: Path):
    table.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match="must have 442 rows and a column 'progression'. Got 1 rows"):
        template("dataset").load_diabetes(table)


def test_the_template_of_a_task_makes_a_task_whose_baselines_have_skill(template, table: Path):
    template("task")
    task = load_task("diabetes", "sound", 0)
    scores = {}
    for name in ("mean", "ridge"):
        method = METHODS[name](task.problem)
        fit(method, task.train, task.validation)
        scores[name] = task.score_method(method)["crps"]
    assert scores["ridge"] < 0.85 * scores["mean"]


def test_the_template_of_a_score_is_proper(template, generator):
    y = torch.randn(20_000, 1, generator=generator)
    pinball, zero = template("score").pinball, torch.zeros_like(y)
    loss = {std: pinball(Prediction.gaussian(zero, torch.full_like(y, std)), y) for std in (0.7, 1.0, 1.4)}
    assert loss[1.0] < min(loss[0.7], loss[1.4])


@pytest.mark.slow  # a run of pytest
def test_the_template_of_a_method_passes_the_contract_suite():
    paths = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-p", "method", "-p", "no:cacheprovider", "-k", "neighbours", "-m", ""]
    result = subprocess.run(
        [*command, "tests/contract"], cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout
