import dataclasses
import io

import pytest
from rich.console import Console

from nsac.cli.board import DEFAULT_RUN_SECONDS, Board
from nsac.lab.grid.executor import Event, InProcess, Processes
from support.runs import pretended, tiny


@pytest.fixture
def todo():
    return [tiny(method=method, seed=seed) for method in ("nsac", "gmle") for seed in (0, 1)]


@pytest.fixture
def record(todo):
    """Of the first run, which took ten seconds."""
    return dataclasses.replace(pretended(todo[0]), seconds={"total_wall": 10.0})


@pytest.fixture
def output():
    return io.StringIO()


@pytest.fixture
def board(todo, output):
    with Board(Console(file=output, width=120), todo, Processes(2)) as board:
        yield board


def finish_first_and_fail_second(board, todo, record):
    board(Event("start", todo[0]))
    board(Event("done", todo[0], record))
    board(Event("start", todo[1]))
    board(Event("failed", todo[1], error="it [diverged]"))


def test_before_the_first_run_has_finished_a_default_duration_is_used(board):
    assert board.seconds_left() == 4 * DEFAULT_RUN_SECONDS / 2


def test_finished_runs_set_the_estimate_of_the_others(board, todo, record):
    board(Event("start", todo[0]))
    board(Event("done", todo[0], record))
    assert board.seconds_left() == 3 * 10 / 2


def test_records_of_earlier_runs_set_the_estimate(todo, record, output):
    assert Board(Console(file=output), todo, InProcess(), [record]).seconds_left() == 40


def test_a_finished_run_is_a_line_with_its_score(board, todo, record, output):
    finish_first_and_fail_second(board, todo, record)
    assert "1/4 spiral paper nsac 0: CRPS 0.1, 10 s" in output.getvalue()


def test_a_failed_run_is_a_line_with_its_error_printed_literally(board, todo, record, output):
    finish_first_and_fail_second(board, todo, record)
    assert "2/4 spiral paper nsac 1: failed. it [diverged]" in output.getvalue()


def test_the_display_counts_runs_and_estimates_the_time_left(board, todo, record, output):
    finish_first_and_fail_second(board, todo, record)
    Console(file=output, width=120).print(board)
    assert "1 of 4 runs done, 1 failed, about 10 s left" in output.getvalue()
