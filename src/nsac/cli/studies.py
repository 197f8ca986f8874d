"""`nsac bench study` and `figure`: the paper's studies beside its main table, and its figures."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from nsac.cli.common import (
    AsJson,
    DryRun,
    check_names,
    console,
    errors,
    one_line_errors,
    parse_seeds,
    print_outcome,
    print_plan,
    resume_hint,
    stop,
)
from nsac.cli.records import (
    GRID_FOLDER,
    STUDY_FOLDER,
    GridRecords,
    StudyRecords,
    WrittenRecords,
    study_records,
)

if TYPE_CHECKING:
    from nsac.lab.grid.sheet import Sheet
    from nsac.lab.studies.base import Setting, StudyRecord, StudyStore

FIGURE_FOLDER = Path("docs/figures")


def register(bench: typer.Typer) -> None:
    """Add the commands."""
    for command in (study, figure):
        bench.command()(command)


def study(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Studies, for instance regulariser or freezing. Default: all.", show_default=False),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="Range or comma-separated list of seeds. Default: all of a study.")
    ] = None,
    dry_run: DryRun = False,
    out: WrittenRecords = STUDY_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Run the paper's studies and print their tables. Interrupt it at any time; the same command resumes.

    Studies: regulariser (Table 2), freezing (Table 3), cost, hyperparameters and lengths. A setting that has a record
    is skipped. `nsac bench figure NAME` draws the figure of a study.
    """
    from nsac.lab.studies import STUDIES
    from nsac.lab.studies.base import StudyStore, settings

    with one_line_errors(interrupted=resume_hint(out)):
        check_names("study", names, list(STUDIES))
        chosen, store = names or list(STUDIES), StudyStore(out)
        wanted = None if seeds is None else parse_seeds(seeds)
        every = {
            setting.name: setting
            for name in chosen
            for setting in settings(name)
            if wanted is None or setting.seed in wanted
        }
        if not every:
            stop(f"No setting of {', '.join(chosen)} has a seed of `--seeds {seeds}`. Leave out `--seeds` to run all.")
        todo = [setting for name, setting in every.items() if name not in store]
        if dry_run:
            print_plan("settings", len(every), [_describe(setting) for setting in todo], as_json)
            return
        failed = _execute(todo, store, as_json)
        if not as_json:
            _print_sheets(chosen, [record for record in study_records(out) if record.name in every])
        done = sum(name in store for name in every)
    print_outcome("settings", len(every), done, failed, out, as_json)


def figure(
    names: Annotated[
        list[str] | None, typer.Argument(help="Figures. Default: all that have records.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the figures to.")] = FIGURE_FOLDER,
    records: GridRecords = GRID_FOLDER,
    studies: StudyRecords = STUDY_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Draw the paper's figures from records, as PNG files."""
    from nsac.lab.grid.store import Store
    from nsac.lab.grid.table import current_records
    from nsac.lab.report.figures import picture_groups, pictures

    with one_line_errors():
        check_names("figure", names, picture_groups())
        drawn = pictures(current_records(Store(records))[0], study_records(studies))
        drawn = [picture for picture in drawn if not names or picture.group in names]
        if not drawn:
            stop(f"{records} and {studies} have no records for it. Run `nsac bench run` or `nsac bench study` first.")
        out.mkdir(parents=True, exist_ok=True)
        rows = []
        for picture in drawn:
            path = out / f"{picture.name}.png"
            path.write_bytes(picture.png())
            rows.append({"name": picture.name, "place": picture.place, "file": str(path)})
            if not as_json:
                console.print(f"{picture.place}: {path}", soft_wrap=True)
    if as_json:
        print(json.dumps(rows))


def print_sheet(sheet: "Sheet") -> None:
    """Print a table."""
    from nsac.lab.report.sections import cell_text

    table = Table(title=sheet.title, caption=sheet.note, box=None, padding=(0, 1, 0, 0))
    for i, name in enumerate(sheet.head):
        table.add_column(name, justify="right" if i else "left")
    for row in sheet.rows:
        table.add_row(*(cell_text(cell, brief=True) for cell in row))
    console.print(table)


def _execute(todo: list["Setting"], store: "StudyStore", as_json: bool) -> list[dict[str, str]]:
    """Run the settings, print a line for each, and return those that failed with their errors."""
    from nsac.lab.studies.run import execute_studies

    failed, shown = [], errors if as_json else console
    for i, event in enumerate(execute_studies(todo, store), start=1):
        seconds = "" if event.record is None else f"{event.record.seconds['wall']:.0f} s"
        shown.print(f"{i}/{len(todo)} {event.setting.title}: {event.error or seconds}", soft_wrap=True)
        if event.kind == "failed":
            failed.append({"name": event.setting.name, "error": event.error})
    return failed


def _print_sheets(names: list[str], records: list["StudyRecord"]) -> None:
    from nsac.lab.studies import STUDIES
    from nsac.lab.studies.base import found

    for name in names:
        answers = found(name, records)
        if answers:
            for sheet in STUDIES[name].sheets(answers):
                print_sheet(sheet)


def _describe(setting: "Setting") -> tuple[str, dict]:
    facts = {"study": setting.study, **setting.point, "seed": setting.seed, "name": setting.name}
    return setting.title, facts
