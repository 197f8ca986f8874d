import json
import warnings
from pathlib import Path

import pytest
import typer

from nsac.cli import common
from nsac.cli.common import (
    check_names,
    check_out,
    choose_folder,
    grid_records,
    merge_deprecated,
    note,
    one_line_errors,
    parse_seeds,
    print_outcome,
    print_plan,
    status,
    study_records,
)
from nsac.lab.datasets import DataError
from nsac.lab.grid.config import run_config
from nsac.lab.grid.store import Store
from nsac.lab.studies.base import StudyStore, settings
from support.runs import a_record, a_study_record, pretended


def exit_code(action):
    with pytest.raises(typer.Exit) as stopped:
        action()
    return stopped.value.exit_code


def exit_code_of_error(error, **options):
    def fail():
        with one_line_errors(**options):
            raise error

    return exit_code(fail)


@pytest.mark.parametrize(("text", "seeds"), [("0-4", [0, 1, 2, 3, 4]), ("3", [3]), ("0,2,5-7", [0, 2, 5, 6, 7])])
def test_seeds_are_ranges_and_lists(text, seeds):
    assert parse_seeds(text) == seeds


def test_a_repeated_seed_counts_once():
    assert parse_seeds("0-2,1") == [0, 1, 2]


@pytest.mark.parametrize("text", ["a", "", "-1", "0-4-5", "1.5", "0,"])
def test_malformed_seeds_exit_with_code_2(text, capsys):
    assert exit_code(lambda: parse_seeds(text)) == 2
    assert "`--seeds` must be a range or a comma-separated list" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["4-0", "1,4-0"])
def test_a_descending_range_of_seeds_exits_with_code_2(text, capsys):
    assert exit_code(lambda: parse_seeds(text)) == 2
    assert "Write the smaller number first" in capsys.readouterr().err


def test_a_repeatable_option_needs_no_note(capsys):
    assert merge_deprecated(["nsac", "de"], None, "--method") == ["nsac", "de"]
    assert capsys.readouterr().err == ""


def test_a_deprecated_plural_is_split_at_commas():
    assert merge_deprecated(["nsac"], "de, gmle", "--method") == ["nsac", "de", "gmle"]


def test_a_deprecated_plural_prints_its_replacement(capsys):
    merge_deprecated(None, "de", "--method")
    assert "`--methods A,B` is deprecated" in (text := capsys.readouterr().err) and "--method A --method B" in text


def test_without_values_an_option_is_none():
    assert merge_deprecated([], None, "--method") is None


def test_an_unknown_name_lists_the_known_ones(capsys):
    assert exit_code(lambda: check_names("study", ["x"], ["cost", "lengths"])) == 2
    assert capsys.readouterr().err == "Error: There is no study 'x'. Available: cost, lengths.\n"


@pytest.mark.parametrize("error", [ValueError("no"), OSError("no"), ImportError("no"), DataError("no")])
def test_an_expected_error_is_one_line_and_exit_code_2(error, capsys):
    assert exit_code_of_error(error) == 2
    assert capsys.readouterr().err == "Error: no\n"


def test_a_message_of_several_lines_becomes_one_line(capsys):
    exit_code_of_error(ValueError("one\n  two"))
    assert capsys.readouterr().err == "Error: one two\n"


def test_an_error_without_a_message_is_named_by_its_class(capsys):
    exit_code_of_error(MemoryError())
    assert capsys.readouterr().err == "Error: MemoryError\n"


def test_an_unexpected_error_keeps_its_traceback_where_there_is_no_option_verbose():
    with pytest.raises(KeyError), one_line_errors():
        raise KeyError("x")


def test_an_unexpected_error_is_one_line_where_there_is_an_option_verbose(capsys):
    assert exit_code_of_error(KeyError("x"), verbose=False) == 2
    assert capsys.readouterr().err == "Error: KeyError: 'x' (unexpected; `--verbose` shows the traceback)\n"


def test_verbose_prints_the_traceback(capsys):
    exit_code_of_error(ValueError("no"), verbose=True)
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupted_command_exits_with_code_130(capsys):
    assert exit_code_of_error(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_an_interrupted_command_tells_what_was_not_written(capsys):
    exit_code_of_error(KeyboardInterrupt(), lost="Nothing was written.")
    assert capsys.readouterr().err == "Interrupted. Nothing was written.\n"


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """A table and a model that a command reads, in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("x\n1\n")
    Path("model").mkdir()
    Path("model/config.json").write_text("{}")
    Path("link.csv").symlink_to("x.csv")
    Path("link").symlink_to("model")
    Path("circle").symlink_to("circle")
    Path("dangling").symlink_to("x.csv/b")
    return Path("x.csv"), Path("model")


@pytest.mark.parametrize("out", ["x.csv", "./model/../x.csv", "link.csv", "model/config.json", "link/new.csv", "model"])
def test_an_output_that_would_replace_an_input_is_refused(inputs, out, capsys):
    assert exit_code(lambda: check_out(Path(out), *inputs)) == 2
    assert "`--out` must not replace what the command reads" in capsys.readouterr().err
    assert exit_code(lambda: check_out(Path(out).absolute(), *(path.absolute() for path in inputs))) == 2


@pytest.mark.parametrize("out", ["x.csv/new", "circle", "dangling", "/proc/nsac/new", "n" * 300, "/dev/null"])
@pytest.mark.parametrize("folder", [False, True])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(inputs, out, folder, capsys):
    assert exit_code(lambda: check_out(Path(out), folder=folder)) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: `--out` must be a place that can be written. " + out) and error.count("\n") == 1


def test_a_folder_where_a_file_is_written_is_refused(inputs, capsys):
    assert exit_code(lambda: check_out(Path("model"))) == 2
    assert capsys.readouterr().err == "Error: `--out` must be a file. model is a folder. Name a file in it.\n"


@pytest.mark.parametrize("out", ["new.csv", "a/b/new.csv", "y.csv", None])
def test_an_output_that_can_be_written_leaves_no_trace(inputs, out):
    Path("y.csv").write_text("y")
    before = sorted(Path().rglob("*"))
    check_out(None if out is None else Path(out), *inputs)
    assert sorted(Path().rglob("*")) == before and Path("y.csv").read_text() == "y"


def test_an_interrupted_command_names_the_records_it_keeps(capsys, tmp_path):
    exit_code_of_error(KeyboardInterrupt(), kept=tmp_path)
    message = f"Interrupted. The records in {tmp_path} are kept; the same command resumes.\n"
    assert capsys.readouterr().err == message


def test_an_exit_code_passes_through():
    assert exit_code_of_error(typer.Exit(1)) == 1


def test_a_deprecation_in_another_package_is_no_note(capsys):
    with one_line_errors():
        warnings.warn("the builtin type has no module", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == ""


def test_a_warning_becomes_a_note(capsys):
    with one_line_errors():
        warnings.warn("too\n few", stacklevel=1)
    assert capsys.readouterr().err == "Note: too few\n"


def test_a_note_is_printed_literally(capsys):
    note("file [bold]x[/bold] :smile:")
    assert capsys.readouterr().err == "Note: file [bold]x[/bold] :smile:\n"


def test_a_status_text_is_not_read_as_markup():
    with status("reading [/x].csv"):
        pass


def test_a_plan_counts_and_lists_the_runs_to_do(capsys):
    print_plan("runs", 3, [("a 0", {"task": "a"})], as_json=False)
    assert capsys.readouterr().out == "3 runs, 2 done, 1 to do:\n  a 0\n"


def test_a_plan_with_nothing_to_do_is_one_line(capsys):
    print_plan("runs", 3, [], as_json=False)
    assert capsys.readouterr().out == "3 runs, 3 done, 0 to do.\n"


def test_a_plan_is_read_by_programs(capsys):
    print_plan("runs", 3, [("a 0", {"task": "a"})], as_json=True)
    assert json.loads(capsys.readouterr().out) == {"runs": 3, "done": 2, "todo": [{"task": "a"}]}


def test_failed_runs_make_the_exit_code_1(tmp_path):
    failed = [{"name": "a", "error": "no"}]
    assert exit_code(lambda: print_outcome("runs", 2, 1, failed, tmp_path, as_json=True)) == 1


def test_consoles_do_not_read_markup():
    assert not common.console._markup and not common.errors._markup


@pytest.fixture
def folder(tmp_path):
    for protocol in ("paper", "sound"):
        Store(tmp_path).write(pretended(run_config("boston", protocol, "nsac", 0)))
    return tmp_path


def test_all_current_records_are_read_by_default(folder):
    assert len(grid_records(folder)) == 2


def test_records_are_chosen_by_protocol(folder):
    assert [record.protocol for record in grid_records(folder, protocol="sound")] == ["sound"]


def test_records_are_chosen_by_task(folder):
    with pytest.raises(typer.Exit):
        grid_records(folder, ["spiral"])


def test_stale_records_are_counted_in_a_note(folder, capsys):
    Store(folder).write(a_record())
    assert len(grid_records(folder)) == 2
    expected = "Note: Ignored 1 stale records (the configuration or code has changed).\n"
    assert capsys.readouterr().err == expected


def test_stale_records_of_studies_are_ignored(tmp_path):
    setting, *_ = settings("cost")
    StudyStore(tmp_path).write(a_study_record(setting, {"seconds": 1.0}))
    assert [record.name for record in study_records(tmp_path)] == [setting.name]


def test_the_deprecated_option_names_the_folder_too(tmp_path, capsys):
    assert choose_folder(tmp_path / "default", tmp_path / "old") == tmp_path / "old"
    assert "`--out FOLDER` is deprecated" in capsys.readouterr().err
