"""`nsac bench frozen` and `ablation`: earlier names of two studies, to be removed in the next release."""

from pathlib import Path
from typing import Annotated

import typer

from nsac.cli.common import console, note_deprecated, one_line_errors, stop
from nsac.cli.records import STUDY_FOLDER, StudyRecords, study_records
from nsac.cli.studies import study

Figure = Annotated[Path, typer.Option("--out", help="Figure to write.")]


def register(bench: typer.Typer) -> None:
    """Add the commands, hidden from the help."""
    for command in (frozen, ablation):
        bench.command(hidden=True)(command)


def frozen(out: Figure = Path("frozen.png"), studies: StudyRecords = STUDY_FOLDER) -> None:
    """Deprecated: `nsac bench study freezing`, then `nsac bench figure freezing`."""
    note_deprecated("nsac bench frozen", "nsac bench study freezing` and `nsac bench figure freezing")
    _run("freezing", None, studies, out)


def ablation(
    out: Figure = Path("ablation.png"),
    studies: StudyRecords = STUDY_FOLDER,
    seed: Annotated[int | None, typer.Option(min=0, help="Run this seed only.")] = None,
) -> None:
    """Deprecated: `nsac bench study regulariser`, then `nsac bench figure regulariser`."""
    note_deprecated("nsac bench ablation", "nsac bench study regulariser` and `nsac bench figure regulariser")
    _run("regulariser", None if seed is None else str(seed), studies, out)


def _run(name: str, seeds: str | None, folder: Path, out: Path) -> None:
    study([name], seeds=seeds, out=folder)
    from nsac.lab.studies import STUDIES
    from nsac.lab.studies.base import found

    with one_line_errors():
        draw = STUDIES[name].draw
        if draw is None:
            stop(f"The study {name!r} has no figure.")
        out.parent.mkdir(parents=True, exist_ok=True)
        draw(found(name, study_records(folder))).savefig(out)
    console.print(f"Figure: {out}", soft_wrap=True)
