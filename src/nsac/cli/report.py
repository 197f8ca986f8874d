"""`nsac bench report`: all results on one page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsac.cli.common import AsJson, console, note_deprecated, one_line_errors
from nsac.cli.records import (
    DRIVING_FOLDER,
    GRID_FOLDER,
    SHIFT_FOLDER,
    STUDY_FOLDER,
    DrivingRecords,
    GridRecords,
    ShiftRecords,
    StudyRecords,
    choose_folder,
    grid_records,
    study_records,
)

if TYPE_CHECKING:
    from nsac.lab.grid.sheet import Section
    from nsac.lab.grid.store import Record
    from nsac.lab.studies.base import StudyRecord

PAGE = Path("bench-report.html")


def register(bench: typer.Typer) -> None:
    """Add the command."""
    bench.command()(report)


def report(
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "--out", help=f"Page to write: .html, or .md for Markdown; repeat the option for both. Default: {PAGE}."
        ),
    ] = None,
    records: GridRecords = GRID_FOLDER,
    studies: StudyRecords = STUDY_FOLDER,
    shifts: ShiftRecords = SHIFT_FOLDER,
    driving: DrivingRecords = DRIVING_FOLDER,
    as_json: AsJson = False,
    old_page: Annotated[Path | None, typer.Option("--page", hidden=True)] = None,
    old_markdown: Annotated[Path | None, typer.Option("--markdown", hidden=True)] = None,
) -> None:
    """Write one page with all tables, studies and figures, and the paper's numbers beside ours.

    An HTML page needs no other file. The figures of a Markdown page are written to the folder `figures` beside it.
    """
    with one_line_errors():
        for folder in [path for path in out or () if not path.suffix]:  # `--out` was the folder of the records
            records = choose_folder(records, folder)
        pages = [path for path in out or () if path.suffix]
        for option, path in (("--page", old_page), ("--markdown", old_markdown)):
            if path is not None:
                note_deprecated(f"{option} FILE", "--out FILE")
                pages.append(path)
        pages = pages or [PAGE]
        runs, answers, sections = grid_records(records), study_records(studies), _sections(shifts, driving)
        for path in pages:
            path.parent.mkdir(parents=True, exist_ok=True)
            write = _write_markdown if path.suffix == ".md" else _write_html
            write(path, runs, answers, sections)
    if as_json:
        files = [str(path) for path in pages]
        print(json.dumps({"run_records": len(runs), "study_records": len(answers), "files": files}))
        return
    for path in pages:
        console.print(f"{len(runs)} run records, {len(answers)} study records: {path}", soft_wrap=True)


def _write_html(path: Path, runs: list["Record"], answers: list["StudyRecord"], sections: list["Section"]) -> None:
    from nsac.lab.report.page import report_page

    path.write_text(report_page(runs, answers, sections), encoding="utf-8")


def _write_markdown(path: Path, runs: list["Record"], answers: list["StudyRecord"], sections: list["Section"]) -> None:
    from nsac.lab.report.figures import pictures
    from nsac.lab.report.page import report_markdown

    folder = path.parent / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for picture in pictures(runs, answers):
        (folder / f"{picture.name}.png").write_bytes(picture.png())
    for image in (image for section in sections for image in section.images):
        (folder / f"{image.name}.png").write_bytes(image.content)
    path.write_text(report_markdown(runs, answers, folder.name, sections), encoding="utf-8")


def _sections(shifts: Path, driving: Path) -> list["Section"]:
    """Sections on the shift suite and on closed-loop driving, if they have records."""
    from nsac.lab.driving import records as drives
    from nsac.lab.shifts.page import section
    from nsac.lab.shifts.run import read_kept

    sections = []
    shifted = read_kept(shifts)
    if not shifted.empty:
        sections.append(section(shifted))
    driven = drives.DriveStore(driving).records()
    if driven:
        sections.append(drives.section(driven, driving))
    return sections
