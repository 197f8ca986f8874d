import json
import shutil

import pytest

from nsac.lab.datasets import catalog
from support.cli import call


@pytest.fixture(scope="module")
def boston(data):
    return json.loads(call("data", "info", "boston", "--json").stdout)


@pytest.fixture(scope="module")
def description(data):
    return call("data", "info", "boston").stdout


def test_every_data_set_has_a_licence_and_a_citation():
    listed = json.loads(call("data", "list", "--json").stdout)
    assert len(listed) == 22 and all(source["licence"] and source["citation"] for source in listed)


def test_the_list_is_printed():
    assert "power-plant" in call("data", "list").stdout


def test_baselines_are_scored_on_every_protocol(boston):
    assert {(row["protocol"], row["method"]) for row in boston["baselines"]} == {
        (protocol, method) for protocol in ("paper", "sound") for method in ("mean", "ridge", "gbm")
    }


def test_baselines_are_also_under_the_key_of_earlier_versions(boston):
    assert boston["naive"] == boston["baselines"]


def test_a_data_set_has_files_and_columns(boston):
    assert boston["files"][0]["path"] == "boston/boston.txt" and len(boston["columns"]) == 14


@pytest.mark.parametrize("text", ["Harrison", "baseline", "homepage", "tandard split number 0"])
def test_a_data_set_is_described(description, text):
    assert text in description


@pytest.mark.parametrize("command", ["info", "fetch"])
def test_an_unknown_name_is_one_line_and_exit_code_2(command):
    output = call("data", command, "nothing", code=2).output
    assert output.startswith("Error: There is no data set 'nothing'. Available: spiral") and output.count("\n") == 1


def test_only_one_data_set_is_described():
    assert "There is no data set 'all'" in call("data", "info", "all", code=2).output


def test_a_negative_seed_is_refused():
    output = call("data", "info", "spiral", "--seed", "-1", code=2).output
    assert "--seed" in output and "Traceback" not in output


def test_scores_of_interpolation_and_extrapolation_are_printed_separately():
    output = call("data", "info", "spiral").stdout
    assert output.count("mean, interpolation") == output.count("mean, extrapolation") == 2  # paper and sound


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


def test_a_path_with_brackets_is_printed_literally(only):
    folder = only("boston")
    assert f"boston: {folder}/boston/boston.txt" in call("data", "fetch", "boston").stdout


def test_a_table_is_present_without_its_splits(only):
    only("boston")
    here = {source["name"]: source["here"] for source in json.loads(call("data", "list", "--json").stdout)}
    assert here["boston"] and here["spiral"] and not here["kin8nm"]


def test_fetch_refuses_splits_that_are_not_the_standard_ones(only):
    (only("boston") / "boston/splits.npz").write_bytes(b"")
    assert "splits.npz" in call("data", "fetch", "boston", code=2).output


def test_a_task_that_needs_other_data_is_not_scored(only):
    only("hust")
    output = call("data", "info", "hust").stdout
    assert output.count("protocol: not scored, it needs xjtu as well. Run `nsac data fetch xjtu`.") == 2


def test_tasks_that_are_not_scored_are_listed_for_programs(only):
    only("hust")
    found = json.loads(call("data", "info", "hust", "--json").stdout)
    assert found["baselines"] == [] and found["skipped"] == [
        {"task": "hust", "protocol": protocol, "needs": ["xjtu"]} for protocol in ("paper", "sound")
    ]


def test_fetch_prints_the_path_of_every_file(data):
    assert "boston.txt" in call("data", "fetch", "boston").stdout


def test_fetch_prints_an_error_for_every_missing_file(tmp_path, monkeypatch):
    monkeypatch.setenv("NSAC_DATA", str(tmp_path))
    monkeypatch.setenv("NSAC_CACHE", str(tmp_path))
    assert call("data", "fetch", "udacity", code=2).output.count("Error:") == 4


def test_a_missing_data_folder_is_one_line(monkeypatch):
    monkeypatch.setenv("NSAC_DATA", "nowhere-at-all")
    assert "NSAC_DATA must name an existing folder" in call("data", "list", code=2).output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ettm1", "jena-2020", "xjtu", "kin8nm"])
def test_every_baseline_can_be_scored(data, name):
    found = json.loads(call("data", "info", name, "--json").stdout)
    assert all(row["mse"] >= 0 for row in found["baselines"])
