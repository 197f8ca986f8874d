import json

import pytest
from typer.testing import CliRunner

from nsac.cli.main import app


def run(*arguments: str):
    return CliRunner().invoke(app, ["data", *arguments])


def test_the_list_has_every_source_with_its_licence():
    listed = json.loads(run("list", "--json").output)
    assert len(listed) == 15 and all(source["licence"] and source["citation"] for source in listed)
    assert "power-plant" in run("list").output


def test_naive_numbers_are_printed_and_readable_by_programs(data):
    told = json.loads(run("info", "boston", "--json").output)
    assert {(row["protocol"], row["method"]) for row in told["naive"]} == {
        (protocol, method) for protocol in ("paper", "sound") for method in ("mean", "ridge", "gbm")
    }
    assert told["files"][0]["path"] == "boston/boston.txt" and len(told["columns"]) == 14
    shown = run("info", "boston").output
    assert "Harrison" in shown and "naive method" in shown and "standard split number 0" in shown.replace("S", "s")


def test_a_name_that_does_not_exist_is_one_line_and_exit_code_2():
    result = run("info", "nothing")
    assert result.exit_code == 2 and result.output.startswith(
        "Error: There is no data set 'nothing'. Known are: spiral"
    )


def test_fetch_says_where_a_file_is_or_what_to_do(data, tmp_path, monkeypatch):
    assert "boston.txt" in run("fetch", "boston").output.replace("\n", "")
    monkeypatch.setenv("NSAC_DATA", str(tmp_path))
    monkeypatch.setenv("NSAC_CACHE", str(tmp_path))
    result = run("fetch", "udacity")
    assert result.exit_code == 2 and result.output.count("Error:") == 4


def test_a_folder_that_does_not_exist_is_one_line(monkeypatch):
    monkeypatch.setenv("NSAC_DATA", "nowhere-at-all")
    result = run("list")
    assert result.exit_code == 2 and "NSAC_DATA must name an existing folder" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ettm1", "jena-2020", "xjtu", "kin8nm"])
def test_every_naive_number_can_be_computed(data, name):
    told = json.loads(run("info", name, "--json").output)
    assert all(row["mse"] >= 0 for row in told["naive"])
