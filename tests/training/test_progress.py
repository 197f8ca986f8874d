import io
import json
import math
import re

from rich.console import Console

from nsac.training import Progress, ProgressBar, log_jsonl, together


def steps(n):
    return [Progress(i, n, {"nll": 1.5, "loss": 2.25}, None if i == 1 else 0.125, 3e-3) for i in range(1, n + 1)]


def test_the_bar_shows_loss_validation_score_learning_rate_and_remaining_time():
    out = io.StringIO()
    with ProgressBar(Console(file=out, force_terminal=True, width=120)) as report:
        for progress in steps(3):
            report(progress)
    for word in ("training", "3/3", "loss 2.250", "validation 0.125", "lr 3.0e-03", "0:00:0"):
        assert word in out.getvalue()


def test_one_bar_shows_the_member_and_the_progress_over_all_members():
    out = io.StringIO()
    with ProgressBar(Console(file=out, force_terminal=True, width=120), "nsac", runs=2) as bar:
        for _ in range(2):
            report = bar.next_run()
            for progress in steps(3):
                report(progress)
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).splitlines()[-1]
    assert "nsac, member 2 of 2" in last and "6/6" in last and "0:00:00" in last


def test_a_line_is_printed_at_most_every_ten_seconds_if_the_output_is_not_a_terminal():
    out, seconds = io.StringIO(), iter(range(0, 10_000, 2))
    with ProgressBar(Console(file=out, width=40), "nsac", runs=2, clock=lambda: next(seconds)) as bar:
        for _ in range(2):
            report = bar.next_run()
            for progress in steps(10):
                report(progress)
    lines = out.getvalue().splitlines()
    assert lines[0] == "nsac, member 1 of 2: 25% done, 0:00:30 left  loss 2.250  validation 0.125  lr 3.0e-03"
    assert len(lines) == 4 and lines[2].startswith("nsac, member 2 of 2: 75% done")


def test_runs_of_other_processes_are_shown_when_they_end():
    out, seconds = io.StringIO(), iter(range(0, 10_000, 20))
    with ProgressBar(Console(file=out), "nsac", runs=2, clock=lambda: next(seconds)) as bar:
        bar.next_run().finish_run()
        bar.next_run().finish_run()
    assert [line.split(",")[1] for line in out.getvalue().splitlines()] == [
        " member 1 of 2: 50% done", " member 2 of 2: 100% done",
    ]  # fmt: skip


def test_the_bar_has_room_for_runs_that_were_not_planned():
    bar = ProgressBar(runs=3)
    bar.expect(2)
    assert bar.runs == 3
    bar.next_run().next_run().expect(2)
    assert bar.runs == 4


def test_a_bar_that_is_not_enabled_is_silent():
    out, seconds = io.StringIO(), iter(range(0, 10_000, 20))
    with ProgressBar(Console(file=out), enabled=False, clock=lambda: next(seconds)) as report:
        for progress in steps(3):
            report(progress)
    assert out.getvalue() == ""


def test_a_short_run_is_silent_if_the_output_is_not_a_terminal(capfd):
    out = io.StringIO()
    with ProgressBar(Console(file=out)) as report:
        for progress in steps(3):
            report(progress)
    with ProgressBar() as report:
        report(steps(1)[0])
    assert out.getvalue() == "" and capfd.readouterr() == ("", "")


def test_the_log_appends_one_json_object_per_step(tmp_path):
    path = tmp_path / "new" / "log.jsonl"
    for progress in steps(2):
        log_jsonl(path)(progress)
    log_jsonl(path)(Progress(3, 3, {"nll": math.inf}, math.nan, 0.0))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert set(lines[0]) == {"step", "steps", "parts", "validation", "learning_rate", "time"}
    assert lines[1]["parts"]["nll"] == 1.5 and lines[2]["parts"]["nll"] is lines[2]["validation"] is None


def test_several_callbacks_are_combined():
    first, second = [], []
    together(first.append, second.append)(steps(1)[0])
    assert first == second == steps(1)
