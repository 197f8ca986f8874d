import json
import sys

import pytest
from typer.testing import CliRunner

from nsac.cli.main import app
from nsac.lab.driving import records, tasks
from nsac.lab.grid import config as numbers
from support.roads import made_recording, single, untrained  # noqa: F401


def call(*arguments, code=0):
    result = CliRunner().invoke(app, ["drive", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


@pytest.fixture
def pilot(tmp_path):
    untrained("nsac").save(tmp_path / "pilot")
    return tmp_path / "pilot"


@pytest.fixture
def simulator():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")


def test_a_recording_is_made_and_told(tmp_path, simulator):
    told = json.loads(call("record", "--frames", 12, "--out", tmp_path / "rec", "--json"))
    assert told["frames"] == 12 and told["laps"] == 1
    assert call("record", "--frames", 12, "--out", tmp_path / "rec").startswith("12 frames of 1 laps in")
    assert "with frames 12, not 13" in call("record", "--frames", 13, "--out", tmp_path / "rec", code=2)


def test_a_pilot_is_trained_kept_and_not_trained_again(tmp_path, monkeypatch):
    monkeypatch.setattr("nsac.lab.driving.recording.load_recording", lambda: made_recording(laps=5, each=20))
    monkeypatch.setitem(tasks.RECORDED, "carracing", 100)
    short = numbers.run_config("carracing", "sound", "gmle", 0).to_dict()
    short["train"] |= {"epochs": 1, "max_steps": 2, "batch_size": 8}
    monkeypatch.setattr("nsac.lab.driving.school.run_config", lambda *_: numbers.RunConfig(**short))
    command = ("train", "carracing", "--method", "gmle", "--out", tmp_path / "p", "--results", tmp_path / "r", "--json")
    told = json.loads(call(*command))
    assert told["metrics"]["mse"] > 0 and (tmp_path / "r" / f"{told['record']}.json").is_file()
    monkeypatch.setattr("nsac.lab.driving.school.run_fitted", lambda *_: pytest.fail("it trained again"))
    assert json.loads(call(*command)) == told
    assert "`task` must be one of" in call("train", "boston", "--out", tmp_path / "x", code=2)


def test_a_lap_is_driven_filmed_and_written(pilot, tmp_path, simulator):
    arguments = ("--film", tmp_path / "lap.gif", "--out", tmp_path / "lap.json", "--threshold", 9, "--json")
    told = json.loads(call("lap", pilot, "--track", 3, *arguments))
    assert told["finished"] == 0 and told["track"] == 3 and (tmp_path / "lap.gif").stat().st_size > 1000
    driven = json.loads((tmp_path / "lap.json").read_text())
    assert len(driven["positions"]) == len(driven["aleatoric"]) and set(driven["modes"]) == {"drive"}


def test_where_pilots_look_is_drawn(pilot, tmp_path, simulator):
    pytest.importorskip("captum", reason="saliency needs the extra `drive`")
    told = call("saliency", pilot, "--track", 3, "--at", "2,5", "--out", tmp_path / "look.png")
    assert "look.png" in told.replace("\n", "") and (tmp_path / "look.png").stat().st_size > 1000


def test_records_are_tabled(tmp_path):
    assert "has no records" in call("table", "--results", tmp_path, code=2)
    for seed in (0, 1):
        config = untrained("nsac", seed=seed).config
        made = records.make_record(config, "trials", {}, {"success": 0.5 + 0.2 * seed}, {}, 1.0)
        records.DriveStore(tmp_path).write(made)
    (row,) = json.loads(call("table", "--results", tmp_path, "--json"))
    assert row["mean"] == pytest.approx(0.6) and row["n"] == 2
    assert "0.6" in call("table", "--results", tmp_path)


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("lap", "nowhere"), "must be a folder that `save` wrote"),
        (("test", "nowhere"), "must be a folder that `save` wrote"),
        (("test", "{pilot}", "--reactions", "pray"), "reaction"),
        (("udacity", "nowhere"), "must be a folder that `save` wrote"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments, told, pilot):
    out = call(*(str(word).format(pilot=pilot) for word in arguments), code=2)
    assert out.startswith("Error: ") and told in out and out.count("\n") == 1


def test_a_missing_simulator_is_said_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "nsac.lab.driving.racing", None)
    out = call("record", "--frames", 5, "--out", tmp_path, code=2)
    assert "pip install 'nsac[drive]'" in out and out.count("\n") == 1


@pytest.mark.slow
def test_from_the_expert_to_a_pilot_that_drives(tmp_path, monkeypatch, simulator):
    monkeypatch.setenv("NSAC_RECORDING", str(tmp_path / "rec"))
    monkeypatch.setitem(tasks.RECORDED, "carracing", 3000)
    call("record", "--frames", 3000)
    call("train", "carracing", "--out", tmp_path / "pilot", "--results", tmp_path / "bench")
    told = json.loads(call("lap", tmp_path / "pilot", "--track", 900, "--json"))
    assert told["visited"] > 0.2
    measured = json.loads(
        call("test", tmp_path / "pilot", "--tracks", 1, "--trials", 1, "--results", tmp_path / "r", "--json")
    )
    again = call("test", tmp_path / "pilot", "--tracks", 1, "--trials", 1, "--results", tmp_path / "r", "--json")
    call("figure", tmp_path / "pilot", "--results", tmp_path / "r", "--out", tmp_path / "loop.png")
    assert (tmp_path / "loop.png").stat().st_size > 10_000
    assert json.loads(again) == measured and {"success", "noise_success", "threshold"} <= set(measured)
