"""Options, messages, error handling and records that the commands share."""

import json
import os
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from nsac._io import check_writable, resolve

if TYPE_CHECKING:
    from nsac.lab.grid.sheet import Sheet
    from nsac.lab.grid.store import Record
    from nsac.lab.studies.base import StudyRecord

console = Console(markup=False, emoji=False)
"""Results go to stdout. Names, paths and messages are printed literally, so markup is off."""
errors = Console(stderr=True, markup=False, emoji=False)
"""Notes, errors and progress go to stderr, so that stdout can be piped."""
EXPECTED_ERRORS = (ValueError, TypeError, OSError, MemoryError, ImportError)
"""Errors that a wrong argument, file or environment can cause. The library's own error classes are expected too."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of SIGINT."""
GRID_FOLDER = Path("results/bench")
STUDY_FOLDER = Path("results/studies")
SHIFT_FOLDER = Path("results/shifts")
DRIVING_FOLDER = Path("results/driving")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the planned runs and exit.")]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="Uncertainty method; repeat the option for several. Default: all.")
]
Seeds = Annotated[str, typer.Option("--seeds", help="Range or comma-separated list of seeds: 0-4, or 0,2.")]
Figure = Annotated[Path, typer.Option("--out", help="Figure to write.")]
GridRecords = Annotated[Path, typer.Option("--records", help="Folder of the records of `nsac bench run`.")]
StudyRecords = Annotated[Path, typer.Option("--studies", help="Folder of the records of `nsac bench study`.")]
ShiftRecords = Annotated[Path, typer.Option("--shifts", help="Folder of the records of `nsac bench shifts`.")]
DrivingRecords = Annotated[Path, typer.Option("--driving", help="Folder of the records of `nsac drive test`.")]
WrittenRecords = Annotated[
    Path, typer.Option("--out", "--records", help="Folder to write the records to. Runs with a record are skipped.")
]
OldRecords = Annotated[Path | None, typer.Option("--out", hidden=True)]
"""Until now `--out` was the folder of the records also where a command only reads them."""


def stop(*problems: object) -> NoReturn:
    """Print one line per problem to stderr and exit with code 2."""
    for problem in problems:
        typer.echo(f"Error: {problem}", err=True)
    raise typer.Exit(2)


def note(text: str) -> None:
    """Print one line to stderr."""
    errors.print(f"Note: {_one_line(text)}", soft_wrap=True, highlight=False)


def note_deprecated(old: str, new: str) -> None:
    """Print the replacement of a spelling that the next release removes."""
    note(f"`{old}` is deprecated and will be removed in the next release. Use `{new}`.")


def status(text: str) -> Status:
    """A spinner on stderr while something takes time."""
    return errors.status(Text(text))  # a plain string would be read as markup


@contextmanager
def one_line_errors(verbose: bool | None = None, kept: Path | None = None, lost: str = "") -> Iterator[None]:
    """Print errors as one line on stderr and exit with code 2; print warnings as notes.

    `verbose` prints the traceback as well; None: the command has no such option, so an unexpected error is raised. The
    exit code after Ctrl-C is 130. From the records in the folder `kept` the command then resumes; without one, `lost`
    tells what was not written.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.simplefilter("ignore", DeprecationWarning)  # those of other packages are nobody's concern here
            warnings.showwarning = lambda message, *_, **__: note(str(message))
            yield
    except (typer.Exit, typer.Abort, BrokenPipeError):  # not errors: typer handles them
        raise
    except KeyboardInterrupt:
        what_now = lost and f" {lost}"
        if kept is not None:
            what_now = f" The records in {kept} are kept; the same command resumes."
        typer.echo(f"Interrupted.{what_now}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as err:
        expected = isinstance(err, EXPECTED_ERRORS) or type(err).__module__.partition(".")[0] == "nsac"
        if verbose is None and not expected:
            raise
        if verbose:
            traceback.print_exc()
        message = _one_line(str(err)) or type(err).__name__
        stop(message if expected else f"{type(err).__name__}: {message} (unexpected; `--verbose` shows the traceback)")


def parse_seeds(text: str) -> list[int]:
    """Seeds from a range or a comma-separated list: "0-4", "3" or "0,2,5-7"."""
    return parse_numbers(text, "--seeds", "seed")


def parse_numbers(text: str, option: str, unit: str) -> list[int]:
    """Whole numbers from a range or a comma-separated list."""
    numbers: list[int] = []
    for entry in text.split(","):
        first, _, last = entry.partition("-")
        try:
            chosen = range(int(first), int(last or first) + 1)
        except ValueError:
            stop(
                f"`{option}` must be a range or a comma-separated list, for instance 0-4 or 0,2. Got {text!r} instead."
            )
        if not chosen:
            stop(f"`{option}` must name at least one {unit}. Got {text!r} instead. Write the smaller number first.")
        numbers += chosen
    return list(dict.fromkeys(numbers))


def merge_deprecated(values: list[str] | None, joined: str | None, option: str) -> list[str] | None:
    """Values of a repeatable option and of its deprecated plural, a comma-separated list; None if there are none."""
    if joined is None:
        return values or None
    note_deprecated(f"{option}s A,B", f"{option} A {option} B")
    return [*(values or []), *(name.strip() for name in joined.split(",") if name.strip())] or None


def choose_folder(records: Path, old: Path | None) -> Path:
    """The folder of the records, also if it was named with the deprecated option."""
    if old is None:
        return records
    note_deprecated("--out FOLDER", "--records FOLDER")
    return old


def check_names(kind: str, names: Sequence[str] | None, known: Iterable[str]) -> None:
    """Exit with one line if a name is unknown."""
    for name in names or ():
        if name not in known:
            stop(f"There is no {kind} {name!r}. Available: {', '.join(known)}.")


def check_choice(name: str, value: str, known: Iterable[str]) -> None:
    """Exit with one line if the value of an option is not one of those known."""
    if value not in known:
        stop(f"`{name}` must be one of {', '.join(known)}. Got {value!r} instead.")


def check_out(path: Path | None, *inputs: Path, option: str = "--out", folder: bool = False) -> None:
    """Exit with one line, before any work, if the output cannot be written or would replace an input.

    `folder`: the output is a folder, which may exist.
    """
    if path is None:
        return
    try:
        for read in inputs:
            if read.exists() and any(each.exists() and os.path.samefile(each, read) for each in _with_parents(path)):
                stop(f"`{option}` must not replace what the command reads, {read}. Got {path} instead. Name another.")
        if not folder and path.is_dir():
            stop(f"`{option}` must be a file. {path} is a folder. Name a file in it.")
        check_writable(path)
    except OSError as err:
        failed = Path(err.filename or path)
        place = "" if failed == path or failed.suffix == ".tmp" else f" ({failed})"  # a hidden name tells nothing
        stop(f"`{option}` must be a place that can be written. {path}{place}: {err.strerror or err}. Name another.")


def check_records(folder: Path) -> None:
    """Exit with one line, before any work, if no record can be written to the folder."""
    check_out(folder / "record")


def _with_parents(path: Path) -> list[Path]:
    resolved = resolve(path)
    return [resolved, *resolved.parents]


def show(as_json: bool, facts: object, *lines: object) -> None:
    """Print facts as JSON, or else lines and tables."""
    if as_json:
        print(json.dumps(facts))
        return
    for line in lines:
        console.print(line, soft_wrap=isinstance(line, str))


def make_table(head: Iterable[str | Column], rows: Iterable[Iterable[str]], **style: Any) -> Table:
    """A table of texts."""
    table = Table(*head, **style)
    for row in rows:
        table.add_row(*row)
    return table


def sheet_table(sheet: "Sheet") -> Table:
    """A table of the report."""
    from nsac.lab.report.sections import cell_text

    head = [Column(name, justify="right" if i else "left") for i, name in enumerate(sheet.head)]
    rows = [[cell_text(cell, brief=True) for cell in row] for row in sheet.rows]
    return make_table(head, rows, title=sheet.title, caption=sheet.note, box=None, padding=(0, 1, 0, 0))


def print_plan(unit: str, total: int, todo: Sequence[tuple[str, dict[str, Any]]], as_json: bool) -> None:
    """Print the result of a dry run, `todo` being title and description of each run that has no record."""
    done = total - len(todo)
    facts = {unit: total, "done": done, "todo": [description for _, description in todo]}
    head = f"{total} {unit}, {done} done, {len(todo)} to do" + (":" if todo else ".")
    show(as_json, facts, head, *(f"  {title}" for title, _ in todo))


def print_outcome(unit: str, total: int, done: int, failed: list[dict[str, str]], folder: Path, as_json: bool) -> None:
    """Print how many runs have a record now, and exit with code 1 if some failed."""
    facts = {unit: total, "done": done, "failed": failed}
    show(as_json, facts, f"{done} of {total} {unit} have a record in {folder}.")
    if failed:
        raise typer.Exit(1)


def grid_records(folder: Path, tasks: Sequence[str] | None = None, protocol: str | None = None) -> list["Record"]:
    """Current records of the benchmark, by default of all tasks and protocols; stale ones are counted in a note."""
    from nsac.lab.grid.config import PROTOCOLS, config_names
    from nsac.lab.grid.store import Store
    from nsac.lab.grid.table import current_records

    for task in tasks or ():
        check_choice("task", task, config_names())
    if protocol is not None:
        check_choice("--protocol", protocol, PROTOCOLS)
    records, stale = current_records(Store(folder))
    if stale:
        note(f"Ignored {len(stale)} stale records (the configuration or code has changed).")
    chosen = [r for r in records if (not tasks or r.task in tasks) and protocol in (None, r.protocol)]
    if not chosen:
        stop(f"{folder} has no such records. Run `nsac bench run`, or name another folder with `--records`.")
    return chosen


def study_records(folder: Path) -> list["StudyRecord"]:
    """Current records of the studies."""
    from nsac.lab.studies import STUDIES
    from nsac.lab.studies.base import StudyStore, settings

    return StudyStore(folder).records(dict.fromkeys(setting.name for name in STUDIES for setting in settings(name)))


def _one_line(text: str) -> str:
    return " ".join(text.split())
