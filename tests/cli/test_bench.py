import json
import os
import signal
import subprocess
import sys
import time

import pytest

from nsac.lab.grid import executor
from nsac.lab.grid.store import Store
from support.cli import call
from support.runs import pretended


@pytest.fixture
def pretend(monkeypatch):
    monkeypatch.setattr(executor, "run_once", pretended)


@pytest.fixture
def forbid(monkeypatch):
    monkeypatch.setattr(executor, "run_once", lambda config: pytest.fail("it ran"))


@pytest.fixture
def records(tmp_path, pretend):
    """Records of two methods, three seeds and both protocols."""
    call("bench", "run", "boston", "--method", "nsac", "--method", "gmle", "--seeds", "0-2", "--out", tmp_path)
    return tmp_path


def test_the_list_counts_runs_that_have_a_record(records):
    rows = json.loads(call("bench", "list", "--json", "--records", records).stdout)
    counts = {(row["task"], row["protocol"]): (row["done"], row["runs"]) for row in rows}
    assert counts["boston", "paper"] == (6, 45)


def test_the_list_has_only_the_protocols_of_a_task(tmp_path):
    rows = json.loads(call("bench", "list", "--json", "--records", tmp_path).stdout)
    assert ("concrete", "paper") not in {(row["task"], row["protocol"]) for row in rows}


def test_the_list_is_printed(records):
    assert "6 of 45" in call("bench", "list", "--records", records).stdout


def test_the_status_has_the_seeds_with_and_without_a_record(records):
    rows = json.loads(call("bench", "status", "boston", "--json", "--protocol", "sound", "--records", records).stdout)
    by_method = {row["method"]: row for row in rows}
    assert by_method["nsac"] == {
        "task": "boston", "protocol": "sound", "method": "nsac", "done": [0, 1, 2], "to_do": [3, 4], "stale": 0,
    }  # fmt: skip
    assert by_method["de"]["done"] == []
    assert "0 1 2" in call("bench", "status", "--records", records).stdout


def test_the_status_counts_stale_records(records):
    name = next(records.glob("boston_sound_nsac_1_*.json"))
    name.rename(name.with_name("boston_sound_nsac_1_0000000000000000.json"))
    rows = json.loads(call("bench", "status", "--json", "--protocol", "sound", "--records", records).stdout)
    assert (rows[0]["done"], rows[0]["stale"]) == ([0, 2], 1)


def test_the_status_of_a_folder_without_records_names_the_remedy(tmp_path):
    assert "Name tasks, or run `nsac bench run` first" in call("bench", "status", "--records", tmp_path, code=2).stderr


def test_a_dry_run_prints_the_planned_runs(tmp_path, forbid):
    arguments = ("boston", "--method", "nsac", "--seeds", "0,3", "--dry-run", "--out", tmp_path)
    output = call("bench", "run", *arguments).stdout
    assert output.startswith("4 runs, 0 done, 4 to do:") and "boston sound nsac 3" in output


def test_by_default_the_grid_is_the_papers_with_five_seeds(tmp_path, forbid):
    plan = json.loads(call("bench", "run", "--dry-run", "--json", "--out", tmp_path).stdout)
    assert plan["runs"] == 5 * 2 * 73 == len(plan["todo"])


def test_a_dry_run_makes_no_folder(tmp_path, forbid):
    call("bench", "run", "--dry-run", "--out", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_run_resumes_where_another_stopped(records):
    arguments = ("boston", "--method", "nsac", "--method", "gmle", "--seeds", "0-3", "--out", records)
    assert call("bench", "run", *arguments, "--dry-run").stdout.startswith("16 runs, 12 done, 4 to do:")
    assert json.loads(call("bench", "run", *arguments, "--json").stdout) == {"runs": 16, "done": 16, "failed": []}


def test_the_folder_of_the_records_may_also_be_named_by_records(tmp_path, pretend):
    call("bench", "run", "boston", "--method", "nsac", "--seeds", "0", "--records", tmp_path)
    assert len(Store(tmp_path).names()) == 2


def test_comma_separated_methods_are_deprecated(tmp_path, forbid):
    arguments = ("boston", "--methods", "nsac,gmle", "--seeds", "0", "--dry-run", "--out", tmp_path)
    result = call("bench", "run", *arguments)
    assert result.stdout.startswith("4 runs") and "`--methods A,B` is deprecated" in result.stderr


def test_an_interrupted_run_can_be_resumed(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(executor, "execute", interrupt)
    result = call("bench", "run", "boston", "--method", "nsac", "--out", tmp_path, code=130)
    assert result.stderr == f"Interrupted. The records in {tmp_path} are kept; the same command resumes.\n"


@pytest.fixture
def failing(monkeypatch):
    def run_once(config):
        if config.method == "gmle":
            raise FloatingPointError("it [diverged]")
        return pretended(config)

    monkeypatch.setattr(executor, "run_once", run_once)


FAILING = ("bench", "run", "boston", "--method", "nsac", "--method", "gmle", "--seeds", "0", "--out")


def test_a_failed_run_is_printed_with_its_error(tmp_path, failing):
    assert "FloatingPointError: it [diverged]" in call(*FAILING, tmp_path, code=1).output


def test_the_other_runs_are_kept_when_one_fails(tmp_path, failing):
    assert "2 of 4 runs have a record" in call(*FAILING, tmp_path, code=1).output


def test_the_table_is_read_by_programs(records):
    rows = json.loads(call("bench", "table", "--protocol", "paper", "--json", "--records", records).stdout)
    row = next(r for r in rows if (r["method"], r["metric"]) == ("nsac", "crps"))
    assert row == {
        "task": "boston", "protocol": "paper", "method": "nsac", "metric": "crps", "mean": pytest.approx(0.11),
        "std": pytest.approx(0.01), "n": 3, "paper": 0.094, "paper_std": 0.0093,
    }  # fmt: skip


def test_the_table_has_one_protocol_if_one_is_named(records):
    rows = json.loads(call("bench", "table", "--protocol", "paper", "--json", "--records", records).stdout)
    assert {row["protocol"] for row in rows} == {"paper"}


def test_the_table_has_the_named_methods_and_metrics(records):
    arguments = ("--method", "gmle", "--metric", "crps", "--metric", "mse", "--json", "--records", records)
    rows = json.loads(call("bench", "table", *arguments).stdout)
    assert {(row["method"], row["metric"]) for row in rows} == {("gmle", "crps"), ("gmle", "mse")}


@pytest.mark.parametrize("text", ["0.11*", "±0.01", "(0.094)", "not finite", "boston, sound protocol"])
def test_the_table_is_printed(records, text):
    assert text in call("bench", "table", "boston", "--metric", "crps", "--metric", "nll", "--records", records).stdout


@pytest.mark.parametrize("option", [("--methods", "nsac,gmle"), ("--metrics", "crps,nll")])
def test_comma_separated_lists_of_the_table_are_deprecated(records, option):
    result = call("bench", "table", "--json", *option, "--records", records)
    assert json.loads(result.stdout) and f"`{option[0]} A,B` is deprecated" in result.stderr


@pytest.mark.parametrize("command", ["list", "table"])
def test_out_as_the_folder_that_is_read_is_deprecated(records, command):
    result = call("bench", command, "--json", "--out", records)
    assert json.loads(result.stdout) and "Use `--records FOLDER`" in result.stderr


@pytest.mark.parametrize(("arguments", "message"), [
    (("run", "none"), "`task` must be one of 'spiral'"),
    (("run", "boston", "--method", "none"), "`method` must be one of"),
    (("run", "--seeds", "a"), "`--seeds` must be"),
    (("run", "--seeds", "4-0"), "`--seeds` must name at least one seed"),
    (("run", "--protocol", "none"), "`protocol` must be one of"),
    (("run", "--executor", "none"), "`--executor` must be one of"),
    (("run", "boston", "--workers", "2"), "`--workers` needs `--executor processes`"),
    (("run", "boston", "--method", "mean", "--track", "none"), "`--track` must be mlflow"),
    (("table", "--protocol", "none"), "`--protocol` must be one of"),
    (("table", "none"), "`task` must be one of"),
    (("table",), "has no such records"),
])  # fmt: skip
def test_an_error_is_one_line_and_exit_code_2(tmp_path, arguments, message):
    lines = call("bench", *arguments, "--records", tmp_path / "none", code=2).output.splitlines()
    assert len(lines) == 1 and message in lines[0]


def test_an_unknown_metric_lists_the_known_ones(records):
    output = call("bench", "table", "--metric", "none", "--records", records, code=2).output
    assert "There is no metric 'none' in these records. Available: crps" in output


def test_a_damaged_record_is_one_line(records):
    next(records.glob("*.json")).write_text("{")
    assert "is damaged" in call("bench", "table", "--records", records, code=2).output


def kill_after_first_record(command, folder):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    while not Store(folder).names() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return process.pid


def group_lives(group):
    try:
        os.killpg(group, 0)
        return True
    except ProcessLookupError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("place", ["here", "processes"])
def test_a_killed_run_loses_at_most_the_runs_in_progress(data, tmp_path, place):
    arguments = [
        "bench",
        "run",
        "boston",
        "--method",
        "mean",
        "--method",
        "ridge",
        "--seeds",
        "0-3",
        "--executor",
        place,
    ]
    command = [sys.executable, "-c", "from nsac.cli import main; main()", *arguments, "--out", str(tmp_path)]
    group = kill_after_first_record(command, tmp_path)
    kept = Store(tmp_path).records()  # every one is complete
    assert kept
    deadline = time.monotonic() + 20
    while group_lives(group) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not group_lives(group)  # its workers have ended too
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert len(Store(tmp_path).names()) == 16 and set(map(repr, kept)) <= set(map(repr, Store(tmp_path).records()))
