"""Options, messages and error handling that the commands share."""

import json
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.status import Status
from rich.text import Text

console = Console(markup=False, emoji=False)
"""Results go to stdout. Names, paths and messages are printed literally, so markup is off."""

errors = Console(stderr=True, markup=False, emoji=False)
"""Notes, errors and progress go to stderr, so that stdout can be piped."""

EXPECTED_ERRORS = (ValueError, TypeError, OSError, MemoryError, ImportError)
"""Errors that a wrong argument, file or environment can cause. The library's own error classes are expected too."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of SIGINT."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the planned runs and exit.")]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="Uncertainty method; repeat the option for several. Default: all.")
]
Seeds = Annotated[str, typer.Option("--seeds", help="Range or comma-separated list of seeds: 0-4, or 0,2.")]


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
def one_line_errors(verbose: bool | None = None, interrupted: str = "Interrupted.") -> Iterator[None]:
    """Print errors as one line on stderr and exit with code 2; print warnings as notes.

    Args:
        verbose: whether to print the traceback of an error as well. None: the command has no option `--verbose`, so an
            unexpected error is raised with its traceback.
        interrupted: message after Ctrl-C; the exit code is 130.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_, **__: note(str(message))
            yield
    except (typer.Exit, typer.Abort, BrokenPipeError):  # not errors: typer handles them
        raise
    except KeyboardInterrupt:
        typer.echo(interrupted, err=True)
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
    seeds: list[int] = []
    for entry in text.split(","):
        first, _, last = entry.partition("-")
        try:
            chosen = range(int(first), int(last or first) + 1)
        except ValueError:
            stop(f"`--seeds` must be a range or a comma-separated list, for instance 0-4 or 0,2. Got {text!r} instead.")
        if not chosen:
            stop(f"`--seeds` must name at least one seed. Got {text!r} instead. Write the smaller number first.")
        seeds += chosen
    return list(dict.fromkeys(seeds))


def merge_deprecated(values: list[str] | None, joined: str | None, option: str) -> list[str] | None:
    """Values of a repeatable option and of its deprecated plural, a comma-separated list; None if there are none.

    Args:
        values: of the repeatable option.
        joined: of the deprecated plural.
        option: name of the repeatable option, for instance `--method`.
    """
    if joined is None:
        return values or None
    note_deprecated(f"{option}s A,B", f"{option} A {option} B")
    return [*(values or []), *(name.strip() for name in joined.split(",") if name.strip())] or None


def check_names(kind: str, names: Sequence[str] | None, known: Sequence[str]) -> None:
    """Exit with one line if a name is unknown."""
    for name in names or ():
        if name not in known:
            stop(f"There is no {kind} {name!r}. Available: {', '.join(known)}.")


def print_plan(unit: str, total: int, todo: Sequence[tuple[str, dict[str, Any]]], as_json: bool) -> None:
    """Print the result of a dry run.

    Args:
        unit: what is counted: `runs` or `settings`.
        total: number of runs, with and without a record.
        todo: title and description of each run that has no record.
        as_json: print JSON instead of text.
    """
    done = total - len(todo)
    if as_json:
        print(json.dumps({unit: total, "done": done, "todo": [description for _, description in todo]}))
        return
    console.print(f"{total} {unit}, {done} done, {len(todo)} to do" + (":" if todo else "."))
    for title, _ in todo:
        console.print(f"  {title}", soft_wrap=True)


def print_outcome(unit: str, total: int, done: int, failed: list[dict[str, str]], folder: Path, as_json: bool) -> None:
    """Print how many runs have a record now, and exit with code 1 if some failed."""
    if as_json:
        print(json.dumps({unit: total, "done": done, "failed": failed}))
    else:
        console.print(f"{done} of {total} {unit} have a record in {folder}.", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def resume_hint(folder: Path) -> str:
    """Message after Ctrl-C of a command that keeps records."""
    return f"Interrupted. The records in {folder} are kept; the same command resumes."


def _one_line(text: str) -> str:
    return " ".join(text.split())
