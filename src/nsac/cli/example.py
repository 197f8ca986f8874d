"""`nsac example`: small real data sets, to try the other commands on."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from nsac._io import write_once
from nsac.cli.common import AsJson, check_choice, check_out, one_line_errors, show, stop

NEXT = {
    "tables": (
        "nsac fit {diabetes-train.csv} --target progression --out {model}",
        "nsac predict {model} {diabetes-new.csv}",
        "nsac evaluate {model} {diabetes-new.csv}",
    ),
    "series": (
        "nsac fit {co2.csv} --target co2 --time date --horizon 12 --out {forecaster}",
        "nsac predict {forecaster} {co2.csv} --plot {forecast.png}",
    ),
}
"""Commands to type next, paths in braces."""


def example(
    name: Annotated[str, typer.Argument(metavar="tables|series", help="Kind of data.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write the files to.")] = Path("."),
    as_json: AsJson = False,
) -> None:
    """Write a small real data set as CSV files: a table (diabetes), or a series with missing weeks (CO2)."""
    with one_line_errors():
        check_choice("name", name, NEXT)
        from nsac.lab.datasets.examples import example_files

        contents = {out / file: content for file, content in example_files(name).items()}
        for path, content in contents.items():
            if path.exists() and not (path.is_file() and path.read_bytes() == content):
                stop(f"{path} exists and has other content. Rename it, or name another folder with `--out`.")
        check_out(out / "file", folder=True)
        for path, content in contents.items():
            write_once(path, content)
        rows = {str(path): content.count(b"\n") - 1 for path, content in contents.items()}
    commands = [_with_paths(command, out) for command in NEXT[name]]
    lines = [f"{path}: {count} rows" for path, count in rows.items()]
    lines += ["Next:", *(f"  {command}" for command in commands)]
    show(as_json, {"files": rows, "next": commands}, *lines)


def _with_paths(command: str, folder: Path) -> str:
    words = (shlex.quote(str(folder / word[1:-1])) if word[0] == "{" else word for word in command.split())
    return " ".join(words)
