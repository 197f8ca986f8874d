import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

from nsac.cli.board import UNKNOWN, Board
from nsac.cli.main import app
from nsac.lab.grid import executor
from nsac.lab.grid.executor import Event, InProcess, Processes
from nsac.lab.grid.store import Store
from support.runs import a_record, tiny


def call(*arguments, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


def pretended(config):
    facts = {name: getattr(config, name) for name in ("task", "protocol", "method", "seed", "key")}
    crps = {"nsac": 0.1, "gmle": 0.2}.get(config.method, 0.3) + 0.01 * config.seed
    return a_record(**facts, config=config.to_dict(), metrics={"mse": crps**2, "crps": crps, "nll": None})


@pytest.fixture
def pretend(monkeypatch):
    monkeypatch.setattr(executor, "run_once", pretended)


def test_the_list_says_what_is_done(tmp_path, pretend):
    call("run", "boston", "--methods", "nsac,ridge", "--protocol", "paper", "--seeds", "0-1", "--out", tmp_path)
    rows = {(row["task"], row["protocol"]): row for row in json.loads(call("list", "--json", "--out", tmp_path))}
    assert rows["boston", "paper"]["done"] == 4 and rows["boston", "paper"]["runs"] == 45
    assert rows["spiral", "sound"]["methods"][-1] == "mean" and ("concrete", "paper") not in rows
    assert "4 of 45" in call("list", "--out", tmp_path)


def test_a_dry_run_says_what_would_run_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(executor, "run_once", lambda config: pytest.fail("it ran"))
    told = call("run", "boston", "--methods", "nsac", "--seeds", "0,3", "--dry-run", "--out", tmp_path / "none")
    assert told.startswith("4 runs, 0 done, 4 to do:") and "boston sound nsac 3" in told
    told = json.loads(call("run", "--dry-run", "--json", "--out", tmp_path / "none"))
    assert told["runs"] == 5 * 2 * 73 == len(told["todo"]) and not (tmp_path / "none").exists()


def test_a_run_goes_on_where_another_stopped(tmp_path, pretend):
    grid = ("run", "boston", "--methods", "nsac,gmle", "--out", tmp_path)
    assert "4 of 4" in call(*grid, "--seeds", "0")
    told = call(*grid, "--seeds", "0-1", "--json")
    assert json.loads(told) == {"runs": 8, "done": 8, "failed": []}
    assert call(*grid, "--seeds", "0-1", "--dry-run").startswith("8 runs, 8 done, 0 to do.")


def test_the_table_is_read_by_people_and_programs(tmp_path, pretend):
    call("run", "boston", "--methods", "nsac,gmle", "--seeds", "0-2", "--out", tmp_path)
    rows = json.loads(call("table", "--protocol", "paper", "--json", "--out", tmp_path))
    row = next(r for r in rows if (r["method"], r["metric"]) == ("nsac", "crps"))
    assert row == {
        "task": "boston", "protocol": "paper", "method": "nsac", "metric": "crps", "mean": pytest.approx(0.11),
        "std": pytest.approx(0.01), "n": 3, "paper": 0.094, "paper_std": 0.0093,
    }  # fmt: skip
    assert {r["protocol"] for r in rows} == {"paper"}
    told = call("table", "boston", "--metrics", "crps,nll", "--out", tmp_path)
    assert (
        "0.11*" in told
        and "+- 0.01" in told
        and "(0.094)" in told
        and "not finite" in told
        and "boston, sound protocol" in told
    )


def test_a_run_that_fails_is_told_the_others_are_kept_and_the_exit_code_is_1(tmp_path, monkeypatch):
    def run_once(config):
        if config.method == "gmle":
            raise FloatingPointError("it [diverged]")
        return pretended(config)

    monkeypatch.setattr(executor, "run_once", run_once)
    told = call("run", "boston", "--methods", "nsac,gmle", "--seeds", "0", "--out", tmp_path, code=1)
    assert "FloatingPointError: it [diverged]" in told and "2 of 4" in told


@pytest.mark.parametrize(("arguments", "told"), [
    (("run", "none"), "`task` must be one of 'spiral'"),
    (("run", "boston", "--methods", "none"), "`method` must be one of"),
    (("run", "--seeds", "a"), "`--seeds` must be"),
    (("run", "--protocol", "none"), "`protocol` must be one of"),
    (("run", "--executor", "none"), "`--executor` must be one of"),
    (("run", "boston", "--workers", "2"), "goes with `--executor processes`"),
    (("run", "boston", "--methods", "mean", "--track", "none"), "`--track` must be mlflow"),
    (("table", "--protocol", "none"), "`--protocol` must be one of"),
    (("table", "none"), "`task` must be one of"),
    (("table",), "has no such records"),
    (("report",), "has no such records"),
])  # fmt: skip
def test_what_is_wrong_is_one_line_and_exit_code_2(tmp_path, arguments, told):
    lines = call(*arguments, "--out", tmp_path / "none", code=2).splitlines()
    assert len(lines) == 1 and told in lines[0]


def test_a_damaged_record_is_one_line(tmp_path, pretend):
    call("run", "boston", "--methods", "nsac", "--seeds", "0", "--out", tmp_path)
    next(tmp_path.glob("*.json")).write_text("{")
    assert "is damaged" in call("table", "--out", tmp_path, code=2)


def test_the_board_knows_the_time_left():
    todo = [tiny(method=method, seed=seed) for method in ("nsac", "gmle") for seed in (0, 1)]
    took = dataclasses.replace(pretended(todo[0]), seconds={"total_wall": 10.0})
    place = Processes(2)
    out = io.StringIO()
    with Board(Console(file=out, width=120), todo, place) as board:
        assert board.seconds_left() == 4 * UNKNOWN / 2
        board(Event("start", todo[0]))
        board(Event("done", todo[0], took))
        assert board.seconds_left() == 3 * 10 / 2  # the same method, else any
        board(Event("start", todo[1]))
        board(Event("failed", todo[1], error="no"))
        shown = Console(file=out, width=120)
        shown.print(board)
    told = out.getvalue()
    assert "1/4 spiral paper nsac 0: CRPS 0.1, 10 s" in told and "failed. no" in told
    assert "1 of 4 runs done, 1 failed, about 10 s left" in told
    known = Board(Console(file=out), todo, InProcess(), [took])
    assert known.seconds_left() == 40


@pytest.mark.slow
@pytest.mark.parametrize("place", ["here", "processes"])
def test_killing_it_loses_at_most_the_runs_under_way(data, tmp_path, place):
    arguments = ["bench", "run", "boston", "--methods", "mean,ridge", "--seeds", "0-3", "--executor", place]
    command = [sys.executable, "-c", "from nsac.cli import main; main()", *arguments, "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    while not Store(tmp_path).names() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = Store(tmp_path).records()  # every one is whole
    assert kept
    until = time.monotonic() + 20
    while _group_lives(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _group_lives(process.pid)  # workers went with it
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert len(Store(tmp_path).names()) == 16 and set(map(repr, kept)) <= set(map(repr, Store(tmp_path).records()))


def _group_lives(group):
    try:
        os.killpg(group, 0)
        return True
    except ProcessLookupError:
        return False
