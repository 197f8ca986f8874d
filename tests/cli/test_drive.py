import json
import math
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from nsac.cli.main import app
from nsac.lab.driving import lap as lap_module
from nsac.lab.driving import policy as policy_module
from nsac.lab.driving import records
from nsac.lab.driving.policy import load_policy
from nsac.lab.grid import config as numbers
from nsac.lab.tasks import carracing
from support.roads import made_recording, single, untrained, written_recording  # noqa: F401


def call(*arguments, code=0):
    result = CliRunner().invoke(app, ["drive", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


@pytest.fixture
def policy(tmp_path):
    untrained("nsac").save(tmp_path / "policy")
    return tmp_path / "policy"


@pytest.fixture
def simulator():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")


def test_a_recording_is_made_and_summarised(tmp_path, simulator):
    found = json.loads(call("record", "--frames", 12, "--out", tmp_path / "rec", "--json"))
    assert found["frames"] == 12 and found["laps"] == 4


def test_a_recording_with_another_configuration_is_refused(tmp_path, simulator):
    assert call("record", "--frames", 12, "--out", tmp_path).startswith("12 frames of 4 laps in")
    assert "with frames 12, not 13" in call("record", "--frames", 13, "--out", tmp_path, code=2)


@pytest.fixture
def training(tmp_path, monkeypatch):
    """Arguments of two training steps on a recording of 100 frames."""
    monkeypatch.setattr(carracing, "load_recording", lambda: made_recording(laps=5, each=20))
    monkeypatch.setitem(carracing.RECORDED, "carracing", 100)
    short = numbers.run_config("carracing", "sound", "gmle", 0).to_dict()
    short["train"] |= {"epochs": 1, "max_steps": 2, "batch_size": 8}
    monkeypatch.setattr(policy_module, "run_config", lambda *_: numbers.RunConfig(**short))
    return "carracing", "--method", "gmle", "--out", tmp_path / "p", "--results", tmp_path / "r", "--json"


def test_a_policy_is_trained_and_its_record_written(training, tmp_path):
    found = json.loads(call("train", *training))
    assert found["metrics"]["mse"] > 0 and (tmp_path / "r" / f"{found['record']}.json").is_file()


def test_a_trained_policy_is_not_trained_again(training, monkeypatch):
    found = json.loads(call("train", *training))
    monkeypatch.setattr(policy_module, "run_fitted", lambda *_: pytest.fail("it was trained again"))
    assert json.loads(call("train", *training)) == found


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Arguments of two training steps on a recording of 80 frames in a folder."""
    written_recording(tmp_path / "frames", shards=4, each=20)
    monkeypatch.setattr(policy_module, "MIN_TRY_STEPS", 2)
    folders = ("--recording", tmp_path / "frames", "--out", tmp_path / "p", "--results", tmp_path / "r")
    return "carracing", "--method", "gmle", *folders


def test_a_try_is_trained_on_a_small_recording(small, tmp_path):
    found = json.loads(call("train", *small, "--json"))
    assert found["try"] and math.isfinite(found["metrics"]["mse"])
    assert load_policy(tmp_path / "p").task == "carracing"
    assert found["record"] is None and not list(tmp_path.glob("r/*"))  # nothing for the benchmark


def test_a_try_says_that_it_makes_no_claim_about_laps(small):
    result = CliRunner().invoke(app, ["drive", "train", *map(str, small)])
    assert (
        result.exit_code == 0
        and "80 frames instead of 30000" in result.output
        and "no claim about laps" in result.output
    )


def test_the_help_shows_a_try():
    assert "--recording try/frames" in " ".join(call("--help").split())


def test_udacity_has_no_recording(small):
    assert "`recording` must be None for the task 'udacity'" in call("train", "udacity", *small[1:], code=2)


def test_a_missing_recording_is_one_line(tmp_path):
    out = call("train", "carracing", "--recording", tmp_path / "none", "--out", tmp_path / "p", code=2)
    assert "holds no recording" in out and out.count("\n") == 1


def test_an_unknown_task_is_refused(tmp_path):
    assert "`task` must be one of" in call("train", "boston", "--out", tmp_path / "x", code=2)


def test_a_lap_is_driven_filmed_and_written(policy, tmp_path, simulator):
    arguments = ("--film", tmp_path / "lap.gif", "--out", tmp_path / "lap.json", "--threshold", 9, "--json")
    found = json.loads(call("lap", policy, "--track", 3, *arguments))
    assert found["finished"] == 0 and found["track"] == 3 and (tmp_path / "lap.gif").stat().st_size > 1000
    driven = json.loads((tmp_path / "lap.json").read_text())
    assert len(driven["positions"]) == len(driven["aleatoric"]) and set(driven["modes"]) == {"drive"}


def test_a_lap_is_printed_in_present_words(monkeypatch, simulator):
    driven = SimpleNamespace(measures=lambda: {"doubt": 0.5})
    monkeypatch.setattr(lap_module, "drive_lap", lambda *_: driven)
    assert call("lap", "expert", "--track", 3).splitlines() == ["track: 3", "steering_std: 0.5"]


def test_saliency_is_drawn(policy, tmp_path, simulator):
    pytest.importorskip("captum", reason="saliency needs the extra `drive`")
    found = json.loads(call("saliency", policy, "--track", 3, "--at", "2,5", "--out", tmp_path / "map.png", "--json"))
    assert found["picture"].endswith("map.png") and (tmp_path / "map.png").stat().st_size > 1000


@pytest.fixture
def results(tmp_path):
    for seed in (0, 1):
        config = untrained("nsac", seed=seed).config
        made = records.make_record(config, "trials", {}, {"success": 0.5 + 0.2 * seed}, {}, 1.0)
        records.DriveStore(tmp_path).write(made)
    return tmp_path


def test_the_table_has_means_over_seeds(results):
    (row,) = json.loads(call("table", "--results", results, "--json"))
    assert row["mean"] == pytest.approx(0.6) and row["n"] == 2


def test_the_table_is_printed(results):
    assert "0.6" in call("table", "--results", results)


def test_a_folder_without_records_is_an_error(tmp_path):
    assert "has no records" in call("table", "--results", tmp_path, code=2)


@pytest.mark.parametrize("flag", ["--out", "--results"])
def test_the_folder_of_the_records_of_a_test_has_two_names(policy, tmp_path, flag):
    (tmp_path / "file").write_text("")
    assert "is a file" in call("test", policy, flag, tmp_path / "file", code=2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("lap", "nowhere"), "must be a folder that `save` wrote"),
        (("test", "nowhere"), "must be a folder that `save` wrote"),
        (("test", "{policy}", "--reactions", "stop"), "reaction"),
        (("udacity", "nowhere"), "must be a folder that `save` wrote"),
    ],
)
def test_an_error_is_one_line(arguments, message, policy):
    out = call(*(str(word).format(policy=policy) for word in arguments), code=2)
    assert out.startswith("Error: ") and message in out and out.count("\n") == 1


def test_a_missing_simulator_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "nsac.lab.driving.racing", None)
    out = call("record", "--frames", 5, "--out", tmp_path, code=2)
    assert "pip install 'nsac[drive]'" in out and out.count("\n") == 1


@pytest.mark.slow
def test_a_try_goes_from_the_expert_to_a_tested_policy(tmp_path, simulator):
    """The commands of docs/driving.md. How far such a policy drives is not certain, so nothing is asserted about it."""
    frames, policy, results = tmp_path / "frames", tmp_path / "policy", tmp_path / "results"
    call("record", "--frames", 600, "--out", frames)
    call("train", "carracing", "--recording", frames, "--out", policy)
    driven = json.loads(call("lap", policy, "--json"))
    assert all(math.isfinite(value) for value in driven.values()) and 0 <= driven["visited"] <= 1
    command = ("test", policy, "--tracks", 1, "--trials", 1, "--out", results, "--json")
    measured = json.loads(call(*command))
    assert json.loads(call(*command)) == measured and {"success", "noise_success", "threshold"} <= set(measured)
    assert (results / f"{measured['record']}.json").is_file()
    call("figure", policy, "--results", results, "--out", tmp_path / "loop.png")
    assert (tmp_path / "loop.png").stat().st_size > 10_000
