"""What the commands share: options, error messages and seeds."""

from typing import Annotated, NoReturn

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def stop(*problems: object) -> NoReturn:
    """One line per problem on stderr, and exit code 2."""
    for problem in problems:
        typer.echo(f"Error: {problem}", err=True)
    raise typer.Exit(2)


def parse_seeds(text: str) -> list[int]:
    """Seeds from a range or a comma-separated list: "0-4", "3" or "0,2,5-7"."""
    seeds = []
    try:
        for entry in text.split(","):
            first, _, last = entry.partition("-")
            seeds += range(int(first), int(last or first) + 1)
    except ValueError:
        stop(f"`--seeds` must be a range or a comma-separated list, for instance 0-4 or 0,2. Got {text!r} instead.")
    if not seeds:
        stop(f"`--seeds` must name at least one seed. Got {text!r} instead. Write the smaller number first.")
    return seeds
