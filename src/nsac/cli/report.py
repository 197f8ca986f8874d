"""`nsac bench report`: all results on one page."""

from pathlib import Path
from typing import Annotated

import typer

from nsac.cli import common

PAGE = Path("bench-report.html")


def report(
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "--out", help=f"Page to write: .html, or .md for Markdown; repeat the option for both. Default: {PAGE}."
        ),
    ] = None,
    records: common.GridRecords = common.GRID_FOLDER,
    studies: common.StudyRecords = common.STUDY_FOLDER,
    shifts: common.ShiftRecords = common.SHIFT_FOLDER,
    driving: common.DrivingRecords = common.DRIVING_FOLDER,
    as_json: common.AsJson = False,
    old_page: Annotated[Path | None, typer.Option("--page", hidden=True)] = None,
    old_markdown: Annotated[Path | None, typer.Option("--markdown", hidden=True)] = None,
) -> None:
    """Write one page with all tables, studies and figures, and the paper's numbers beside ours.

    An HTML page needs no other file. The figures of a Markdown page are written to the folder `figures` beside it.
    """
    from nsac.lab.driving import records as drives
    from nsac.lab.report.figures import pictures
    from nsac.lab.report.page import report_markdown, report_page
    from nsac.lab.shifts.page import section
    from nsac.lab.shifts.run import read_kept

    with common.one_line_errors():
        for folder in [path for path in out or () if not path.suffix]:  # `--out` was the folder of the records
            records = common.choose_folder(records, folder)
        pages = [path for path in out or () if path.suffix]
        for option, path in (("--page", old_page), ("--markdown", old_markdown)):
            if path is not None:
                common.note_deprecated(f"{option} FILE", "--out FILE")
                pages.append(path)
        pages = pages or [PAGE]
        for path in pages:
            common.check_out(path)
        runs, answers, sections = common.grid_records(records), common.study_records(studies), []
        if not (shifted := read_kept(shifts)).empty:
            sections.append(section(shifted))
        if driven := drives.DriveStore(driving).records():
            sections.append(drives.section(driven, driving))
        for path in pages:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix != ".md":
                path.write_text(report_page(runs, answers, sections), encoding="utf-8")
                continue
            images = {picture.name: picture.png() for picture in pictures(runs, answers)}
            images |= {image.name: image.content for each in sections for image in each.images}
            (path.parent / "figures").mkdir(exist_ok=True)
            for name, content in images.items():
                (path.parent / "figures" / f"{name}.png").write_bytes(content)
            path.write_text(report_markdown(runs, answers, "figures", sections), encoding="utf-8")
    facts = {"run_records": len(runs), "study_records": len(answers), "files": [str(path) for path in pages]}
    common.show(as_json, facts, *(f"{len(runs)} run records, {len(answers)} study records: {path}" for path in pages))
