import io
import json
import math

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


def test_the_bar_is_silent_if_the_output_is_not_a_terminal(capfd):
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
