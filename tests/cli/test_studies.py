import dataclasses
import json

import pytest

from nsac.lab.grid.store import config_key
from nsac.lab.studies import run as running
from support.cli import call
from support.runs import a_study_record
from support.studies import tiny_demo


@pytest.fixture
def pretend(monkeypatch):
    """Settings that take no time; those with a `topk` of 32 fail."""

    def run(setting):
        if setting.config.get("topk") == 32:
            raise MemoryError("too much")
        metrics = {"seconds": setting.config["length"] / 1e4, "seconds_std": 0.0, "passes": 1.0, "memory": 2.0}
        metrics |= {"throughput": 1.0, "parameters": 9.0}
        return a_study_record(setting, metrics)

    monkeypatch.setattr(running, "run_setting", run)


def test_speed_is_the_study_of_cost(tmp_path):
    plans = [call("bench", *name, "--dry-run", "--out", tmp_path).stdout for name in (["speed"], ["study", "cost"])]
    assert plans[0] == plans[1]


def test_a_dry_run_prints_the_planned_settings(tmp_path):
    output = call("bench", "study", "cost", "--dry-run", "--out", tmp_path).stdout
    assert output.startswith("7 settings, 0 done, 7 to do:") and "cost: method torch-nac, seed 0" in output


def test_by_default_all_studies_are_planned(tmp_path):
    plan = json.loads(call("bench", "study", "--dry-run", "--json", "--out", tmp_path).stdout)
    assert plan["settings"] == len(plan["todo"]) and {row["study"] for row in plan["todo"]} == {
        "regulariser", "freezing", "cost", "hyperparameters", "lengths",
    }  # fmt: skip


def test_a_dry_run_makes_no_folder(tmp_path):
    call("bench", "study", "--dry-run", "--out", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_settings_are_chosen_by_seed(tmp_path):
    arguments = ("freezing", "--seeds", "1-2", "--dry-run", "--json", "--out", tmp_path)
    plan = json.loads(call("bench", "study", *arguments).stdout)
    assert [row["seed"] for row in plan["todo"]] == [1, 2]


def test_a_study_prints_its_table(tmp_path, pretend):
    output = call("bench", "study", "cost", "--out", tmp_path).stdout
    assert "37278" in output and "7 of 7 settings have a record" in output


def test_a_study_resumes_where_it_stopped(tmp_path, pretend, monkeypatch):
    call("bench", "study", "cost", "--out", tmp_path)
    monkeypatch.setattr(running, "run_setting", lambda setting: pytest.fail("it ran again"))
    assert "7 of 7 settings have a record" in call("bench", "study", "cost", "--out", tmp_path).stdout


def test_a_failed_setting_is_reported_and_the_others_are_kept(tmp_path, pretend):
    outcome = json.loads(call("bench", "study", "lengths", "--json", "--out", tmp_path, code=1).stdout)
    assert outcome["settings"] == 20 and outcome["done"] == 16
    assert "MemoryError: too much" in outcome["failed"][0]["error"]


def test_figures_are_png_files(tmp_path, pretend):
    call("bench", "study", "lengths", "--out", tmp_path / "studies", code=1)
    places = ("--records", tmp_path / "bench", "--studies", tmp_path / "studies")
    (row,) = json.loads(call("bench", "figure", "--out", tmp_path / "figures", "--json", *places).stdout)
    assert row["name"] == "lengths" and (tmp_path / "figures" / "lengths.png").exists()


@pytest.mark.parametrize(("arguments", "message"), [
    (("study", "none"), "There is no study 'none'. Available: regulariser"),
    (("study", "cost", "--seeds", "9"), "No setting of cost has a seed of `--seeds 9`"),
    (("figure", "none"), "There is no figure 'none'. Available: spiral"),
    (("figure", "spiral", "--records", "none", "--studies", "none"), "have no records for it"),
])  # fmt: skip
def test_an_error_is_one_line_and_exit_code_2(arguments, message):
    lines = call("bench", *arguments, code=2).output.splitlines()
    assert len(lines) == 1 and message in lines[0]


# nsac demo


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "folder" / "demo.png"


@pytest.fixture(scope="module")
def output(figure):
    result = tiny_demo()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nsac.lab.studies.demo.run_demo", lambda *_: result)
        return call("demo", "--out", figure).output


@pytest.mark.parametrize("word", ["later times", "other direction", "aleat.", "epist.", "RMSE/total", "90 % PI"])
def test_the_demo_prints_scores(output, word):
    assert word in output


def test_the_demo_draws_a_figure_in_a_folder_that_it_makes(output, figure):
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_scores_are_read_by_programs(tmp_path, monkeypatch):
    result = tiny_demo()
    monkeypatch.setattr("nsac.lab.studies.demo.run_demo", lambda *_: result)
    found = json.loads(call("demo", "--out", tmp_path / "demo.png", "--json").stdout)
    assert found == {"rows": result.rows(), "figure": str(tmp_path / "demo.png")}


def test_no_steps_are_refused():
    call("demo", "--steps", 0, code=2)


# Deprecated commands

STEPS = 3
"""Training steps of the deprecated commands."""


@pytest.fixture(scope="module")
def quick():
    """Settings are trained for a few steps and recorded as if they had been trained in full."""
    run_setting = running.run_setting

    def run(setting):
        record = run_setting(dataclasses.replace(setting, config={**setting.config, "steps": STEPS}))
        return dataclasses.replace(record, key=config_key(setting.config), config=setting.config)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "run_setting", run)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("studies")


@pytest.fixture(scope="module")
def ablation(folder, quick):
    return call("bench", "ablation", "--seed", 0, "--studies", folder, "--out", folder / "ablation.png")


@pytest.mark.parametrize("text", ["interpolation", "extrapolation", "yes", "no", "0.0143", "0.0237"])
def test_the_ablation_prints_the_papers_numbers_beside_ours(ablation, text):
    assert text in ablation.stdout


def test_the_ablation_draws_its_figure(ablation, folder):
    assert (folder / "ablation.png").read_bytes().startswith(b"\x89PNG")


def test_the_ablation_names_its_replacement(ablation):
    assert "Use `nsac bench study regulariser` and `nsac bench figure regulariser`" in ablation.stderr


def test_frozen_runs_the_study_of_freezing(tmp_path, quick):
    result = call("bench", "frozen", "--studies", tmp_path, "--out", tmp_path / "frozen.png")
    assert "5 of 5 settings have a record" in result.stdout and "bench study freezing" in result.stderr
