import json
import shutil

import pytest
from typer.testing import CliRunner

from nsac.cli.main import app
from nsac.lab.datasets import catalog


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


@pytest.mark.parametrize("name", ["nothing", "all"])
def test_a_name_that_does_not_exist_is_one_line_and_exit_code_2(name):
    result = run("info", name)
    assert result.exit_code == 2 and result.output.startswith(
        f"Error: There is no data set {name!r}. Known are: spiral"
    )


def test_a_seed_below_0_is_refused():
    result = run("info", "spiral", "--seed", "-1")
    assert result.exit_code == 2 and "--seed" in result.output and "Traceback" not in result.output


def test_scores_of_the_halves_of_a_spiral_are_printed_apart():
    shown = run("info", "spiral").output
    assert shown.count("mean, interpolation") == shown.count("mean, extrapolation") == 2  # paper and sound


@pytest.fixture
def only(data, tmp_path, monkeypatch):
    """A folder with brackets in its name, to which files can be copied."""
    folder = tmp_path / "[bold]data"
    monkeypatch.setenv("NSAC_DATA", str(folder))
    monkeypatch.setenv("NSAC_CACHE", str(tmp_path / "cache"))

    def copy(*sources):
        for file in (file for source in sources for file in catalog()[source].files if not file.generated):
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(data / file.path, folder / file.path)
        return folder

    return copy


def test_a_path_with_brackets_is_printed_as_it_is(only):
    folder = only("boston")
    assert f"boston: {folder}/boston/boston.txt" in run("fetch", "boston").output


def test_a_table_without_its_splits_is_here(only):
    only("boston")
    here = {source["name"]: source["here"] for source in json.loads(run("list", "--json").output)}
    assert here["boston"] and here["spiral"] and not here["kin8nm"]


def test_fetch_refuses_splits_that_are_not_the_standard_ones(only):
    folder = only("boston")
    (folder / "boston/splits.npz").write_bytes(b"")
    result = run("fetch", "boston")
    assert result.exit_code == 2 and "splits.npz is not a whole archive" in result.output


def test_a_task_that_needs_other_data_is_left_out_and_said_so(only):
    only("hust")
    shown = run("info", "hust")
    assert shown.exit_code == 0 and "Bearing1_features.csv.gz" in shown.output
    assert shown.output.count("protocol: not scored, it needs xjtu as well. Run `nsac data fetch xjtu`.") == 2
    told = json.loads(run("info", "hust", "--json").output)
    assert told["naive"] == [] and told["skipped"] == [
        {"task": "hust", "protocol": protocol, "needs": ["xjtu"]} for protocol in ("paper", "sound")
    ]


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
