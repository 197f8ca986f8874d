import json

import pytest
from typer.testing import CliRunner

from nsac.cli.main import app
from nsac.lab.grid.config import run_config
from nsac.lab.grid.store import Store
from nsac.lab.studies import run as running
from support.runs import a_record, a_study_record


def call(*arguments, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


@pytest.fixture
def pretend(monkeypatch):
    def run(setting):
        if setting.config.get("topk") == 32:
            raise MemoryError("too much")
        metrics = {"seconds": setting.config["length"] / 1e4, "seconds_std": 0.0, "passes": 1.0, "memory": 2.0}
        metrics |= {"throughput": 1.0, "parameters": 9.0}
        return a_study_record(setting, metrics)

    monkeypatch.setattr(running, "run_setting", run)


def test_a_dry_run_says_what_would_run(tmp_path):
    told = call("study", "cost", "--dry-run", "--out", tmp_path / "none")
    assert told.startswith("7 settings, 0 done, 7 to do:") and "cost: method torch-nac, seed 0" in told
    told = json.loads(call("study", "--dry-run", "--json", "--out", tmp_path / "none"))
    assert told["settings"] == len(told["todo"]) and {row["study"] for row in told["todo"]} == {
        "regulariser", "freezing", "cost", "hyperparameters", "lengths",
    }  # fmt: skip
    assert not (tmp_path / "none").exists()


def test_a_study_prints_its_tables_and_goes_on_where_it_stopped(tmp_path, pretend):
    told = call("study", "cost", "--out", tmp_path)
    assert "37278" in told and "7 of 7 settings have a record" in told
    told = call("study", "cost", "lengths", "--json", "--out", tmp_path, code=1)
    told = json.loads(told.splitlines()[-1])
    assert told["settings"] == 27 and told["done"] == 23 and "MemoryError: too much" in told["failed"][0]["error"]


def test_figures_are_files_and_the_report_has_the_studies(tmp_path, pretend):
    call("study", "lengths", "--out", tmp_path / "studies", code=1)
    places = ("--records", tmp_path / "bench", "--studies", tmp_path / "studies")
    rows = json.loads(call("figure", "--out", tmp_path / "figures", "--json", *places))
    assert [row["name"] for row in rows] == ["lengths"] and (tmp_path / "figures" / "lengths.png").exists()
    config = run_config("boston", "paper", "nsac", 0)
    Store(tmp_path / "bench").write(a_record(
        key=config.key, config=config.to_dict(), metrics={"mse": 0.1, "crps": 0.1}, versions={"torch": "2"},
        pit={"raw": [1], "calibrated": [1]},
    ))  # fmt: skip
    page, text = tmp_path / "page.html", tmp_path / "docs" / "results.md"
    call("report", "--out", tmp_path / "bench", "--studies", tmp_path / "studies", "--page", page, "--markdown", text)
    assert "Cost of long sequences" in page.read_text() and "data:image/png" in page.read_text()
    assert "](figures/lengths.png)" in text.read_text() and (text.parent / "figures" / "lengths.png").exists()


@pytest.mark.parametrize(("arguments", "told"), [
    (("study", "none"), "There is no study 'none'. Known are: regulariser"),
    (("figure", "none"), "There is no figure 'none'. Known are: spiral"),
    (("figure", "spiral", "--records", "none", "--studies", "none"), "have no records for it"),
])  # fmt: skip
def test_what_is_wrong_is_one_line_and_exit_code_2(arguments, told):
    lines = call(*arguments, code=2).splitlines()
    assert len(lines) == 1 and told in lines[0]
