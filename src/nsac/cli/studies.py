"""`nsac bench study` and `figure`: the paper's questions beside its main table, and its pictures."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from nsac.cli.common import AsJson, stop

if TYPE_CHECKING:
    from nsac.lab.grid.sheet import Sheet
    from nsac.lab.studies.base import Setting, StudyRecord

console = Console(markup=False, emoji=False)

RECORDS, STUDIES, FIGURES = Path("results/bench"), Path("results/studies"), Path("docs/figures")
FromGrid = Annotated[Path, typer.Option("--records", help="Folder of the grid's records.")]
FromStudies = Annotated[Path, typer.Option("--studies", help="Folder of the studies' records.")]


def register(bench: typer.Typer) -> None:
    """Add the commands."""
    for command in (study, figure):
        bench.command()(command)


def study(
    names: Annotated[list[str] | None, typer.Argument(help="Which; by default all.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder of the records.")] = STUDIES,
    as_json: AsJson = False,
) -> None:
    """Run settings that have no record yet, and print the tables. Stop it at any time: the next call goes on."""
    from nsac.lab.studies import STUDIES as known
    from nsac.lab.studies.base import settings
    from nsac.lab.studies.run import execute_studies

    chosen = names or list(known)
    if unknown := [name for name in chosen if name not in known]:
        stop(f"There is no study {unknown[0]!r}. Known are: {', '.join(known)}.")
    store = _store(out)
    every = {setting.name: setting for name in chosen for setting in settings(name)}
    todo = [setting for name, setting in every.items() if name not in store]
    if dry_run:
        _dry(len(every), todo, as_json)
        return
    told, failed = Console(stderr=True) if as_json else console, []
    try:
        for i, event in enumerate(execute_studies(todo, store), start=1):
            seconds = "" if event.record is None else f"{event.record.seconds['wall']:.0f} s"
            told.print(f"{i}/{len(todo)} {event.setting.title}: {event.error or seconds}", soft_wrap=True, markup=False)
            if event.kind == "failed":
                failed.append({"name": event.setting.name, "error": event.error})
    except KeyboardInterrupt:
        typer.echo(f"Stopped. The records in {out} stay; the same command goes on.", err=True)
        raise typer.Exit(130) from None
    done = sum(name in store for name in every)
    if as_json:
        print(json.dumps({"settings": len(every), "done": done, "failed": failed}))
    else:
        _sheets(chosen, out)
        console.print(f"{done} of {len(every)} settings have a record in {out}.", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def figure(
    names: Annotated[list[str] | None, typer.Argument(help="Which; by default all that have records.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the pictures.")] = FIGURES,
    records: FromGrid = RECORDS,
    studies: FromStudies = STUDIES,
    as_json: AsJson = False,
) -> None:
    """Draw the paper's figures from records, as PNG files."""
    from nsac.lab.grid.store import RecordError, Store
    from nsac.lab.grid.table import current_records
    from nsac.lab.report.gallery import picture_groups, pictures

    if unknown := [name for name in names or () if name not in picture_groups()]:
        stop(f"There is no figure {unknown[0]!r}. Known are: {', '.join(picture_groups())}.")
    try:
        drawn = pictures(current_records(Store(records))[0], study_records(studies))
    except RecordError as err:
        stop(err)
    drawn = [picture for picture in drawn if not names or picture.group in names]
    if not drawn:
        stop(f"{records} and {studies} have no records for it. Make some with `nsac bench run` and `nsac bench study`.")
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


def study_records(folder: Path) -> list["StudyRecord"]:
    """Records of studies that were made with the numbers that hold now."""
    from nsac.lab.grid.store import RecordError
    from nsac.lab.studies import STUDIES as known
    from nsac.lab.studies.base import settings

    try:
        return _store(folder).records(dict.fromkeys(setting.name for name in known for setting in settings(name)))
    except RecordError as err:
        stop(err)


def print_sheet(sheet: "Sheet") -> None:
    """A table for people."""
    from nsac.lab.report.sections import cell_text

    table = Table(title=sheet.title, caption=sheet.note, box=None, padding=(0, 1, 0, 0))
    for i, name in enumerate(sheet.head):
        table.add_column(name, justify="right" if i else "left")
    for row in sheet.rows:
        table.add_row(*(cell_text(cell, brief=True) for cell in row))
    console.print(table)


def _sheets(names: list[str], folder: Path) -> None:
    from nsac.lab.studies import STUDIES as known
    from nsac.lab.studies.base import found

    records = study_records(folder)
    for name in names:
        if some := found(name, records):
            for sheet in known[name].sheets(some):
                print_sheet(sheet)


def _store(folder: Path):
    from nsac.lab.grid.store import RecordError
    from nsac.lab.studies.base import StudyStore

    try:
        return StudyStore(folder)
    except RecordError as err:
        stop(err)


def _dry(total: int, todo: list["Setting"], as_json: bool) -> None:
    if as_json:
        rows = [{"study": s.study, **s.point, "seed": s.seed, "name": s.name} for s in todo]
        print(json.dumps({"settings": total, "done": total - len(todo), "todo": rows}))
        return
    console.print(f"{total} settings, {total - len(todo)} done, {len(todo)} to do" + (":" if todo else "."))
    for setting in todo:
        console.print(f"  {setting.title}", soft_wrap=True)
