"""`nsac bench list`, `run`, `table` and `report`: the grid of tasks, methods and seeds, and what came out."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from nsac.cli.common import AsJson, parse_seeds, stop
from nsac.cli.studies import STUDIES, FromStudies, study_records

if TYPE_CHECKING:
    from nsac.lab.grid.config import RunConfig
    from nsac.lab.grid.sheet import Section
    from nsac.lab.grid.store import Record, Store

console = Console(markup=False, emoji=False)

FOLDER = Path("results/bench")
NAMES = {
    "mse": "MSE", "nll": "NLL", "crps": "CRPS", "ece_paper": "ECE", "calibration_error": "calib.",
    "coverage_90": "90 %", "coverage_90_calibrated": "90 %, conf.",
}  # fmt: skip
"""Short headings: the paper's ECE, calibration error, coverage, and that of conformal intervals."""
Out = Annotated[Path, typer.Option("--out", help="Folder of the records.")]
Tasks = Annotated[list[str] | None, typer.Argument(help="Names of `nsac bench list`; by default the paper's eight.")]
Methods = Annotated[str | None, typer.Option(help="With commas between: nsac,gmle. By default all of a task.")]
Seeds = Annotated[str, typer.Option(help="A range or numbers: 0-4, or 0,2.")]
OneProtocol = Annotated[str | None, typer.Option(help="paper or sound; by default both.")]


def register(bench: typer.Typer) -> None:
    """Add the commands."""
    for name, command in (("list", list_), ("run", run), ("table", table), ("report", report)):
        bench.command(name)(command)


def list_(out: Out = FOLDER, as_json: AsJson = False) -> None:
    """All tasks, their methods, and how many runs of seeds 0 to 4 have a record."""
    from nsac.lab.grid.config import config_names, grid, methods_of, protocols_of

    store, rows = _store(out), []
    for task in config_names():
        for protocol in protocols_of(task):
            runs = grid([task], protocols=[protocol])
            done = sum(config.name in store for config in runs)
            about = {"task": task, "protocol": protocol, "methods": list(methods_of(task))}
            rows.append({**about, "done": done, "runs": len(runs)})
    if as_json:
        print(json.dumps(rows))
        return
    shown = Table("task", "protocol", "methods", "done")
    for row in rows:
        shown.add_row(row["task"], row["protocol"], " ".join(row["methods"]), f"{row['done']} of {row['runs']}")
    console.print(shown)


def run(
    tasks: Tasks = None,
    methods: Methods = None,
    seeds: Seeds = "0-4",
    protocol: OneProtocol = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run.")] = False,
    executor: Annotated[str, typer.Option(help="here, processes or ray.")] = "here",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; by default one per core.")] = None,
    address: Annotated[str | None, typer.Option(help="Of the head of a Ray cluster.")] = None,
    track: Annotated[str | None, typer.Option(help="mlflow: tell it every record.")] = None,
    out: Out = FOLDER,
    as_json: AsJson = False,
) -> None:
    """Run what has no record yet. Stop it at any time: the records stay, and the next call goes on."""
    from nsac.cli.board import Board
    from nsac.lab.grid.executor import EXECUTORS, execute

    configs, store = _grid(tasks, methods, seeds, protocol), _store(out)
    todo = [config for config in configs if config.name not in store]
    if executor not in EXECUTORS:
        stop(f"`--executor` must be one of {', '.join(EXECUTORS)}. Got {executor!r} instead.")
    if dry_run:
        _dry(configs, todo, as_json)
        return
    options = {"workers": workers} if executor == "processes" else {"address": address} if executor == "ray" else {}
    for name, value, owner in (("--workers", workers, "processes"), ("--address", address, "ray")):
        if value is not None and executor != owner:
            stop(f"`{name}` goes with `--executor {owner}`. Got `--executor {executor}` instead.")
    told, place = Console(stderr=True) if as_json else console, EXECUTORS[executor](**options)
    failed: list[dict[str, str]] = []
    try:
        tell = _tracker(track)
        known = _records(store, configs)
        if tell is not None:
            for record in known:
                tell(record)
        with Board(told, todo, place, known) as board:
            for event in execute(todo, store, place):
                board(event)
                if event.record is not None and tell is not None:
                    tell(event.record)
                if event.kind == "failed":
                    failed.append({"name": event.config.name, "error": event.error})
    except (ImportError, ConnectionError) as err:
        stop(err)
    except KeyboardInterrupt:
        typer.echo(f"Stopped. The records in {out} stay; the same command goes on.", err=True)
        raise typer.Exit(130) from None
    done = sum(config.name in store for config in configs)
    if as_json:
        print(json.dumps({"runs": len(configs), "done": done, "failed": failed}))
    else:
        console.print(f"{done} of {len(configs)} runs have a record in {out}.", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def table(
    tasks: Tasks = None,
    methods: Methods = None,
    protocol: OneProtocol = None,
    metrics: Annotated[str | None, typer.Option(help="With commas between; by default the main ones.")] = None,
    out: Out = FOLDER,
    as_json: AsJson = False,
) -> None:
    """Mean and deviation over seeds, with the paper's number in brackets. The best of a task has a star."""
    from nsac.lab.grid.table import LEVEL, SHOWN, against_best, table_rows

    records = _current(out, tasks, protocol)
    records = [record for record in records if methods is None or record.method in methods.split(",")]
    rows = table_rows(records)
    if as_json:
        wanted = metrics.split(",") if metrics else None
        print(json.dumps([row for row in rows if wanted is None or row["metric"] in wanted]))
        return
    names = metrics.split(",") if metrics else list(SHOWN)
    known = {row["metric"] for row in rows}
    if unknown := [name for name in names if name not in known]:
        stop(f"There is no metric {unknown[0]!r} in these records. Known are: {', '.join(sorted(known))}.")
    for task, kind in dict.fromkeys((row["task"], row["protocol"]) for row in rows):
        some = [record for record in records if (record.task, record.protocol) == (task, kind)]
        cells = {(r["method"], r["metric"]): r for r in rows if (r["task"], r["protocol"]) == (task, kind)}
        marks = {name: against_best(some, name) for name in names}
        shown = Table(title=f"{task}, {kind} protocol, unit: {some[0].unit}", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for name in ("method", "n", *(NAMES.get(name, name) for name in names)):
            shown.add_column(name, overflow="fold")
        for method in dict.fromkeys(method for method, _ in cells):
            texts = [_cell(cells.get((method, name)), marks[name], method, LEVEL) for name in names]
            shown.add_row(method, str(max(r["n"] for (m, _), r in cells.items() if m == method)), *texts)
        console.print(shown)
    console.print(
        f"* best mean; ~ not told from it by a paired t-test over seeds (p >= {LEVEL}); in brackets the paper's mean.",
        soft_wrap=True,
    )


def report(
    out: Out = FOLDER,
    page: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("bench-report.html"),
    markdown: Annotated[Path | None, typer.Option(help="Write the main tables to this page as well.")] = None,
    studies: FromStudies = STUDIES,
    shifts: Annotated[Path, typer.Option(help="Folder of records of `nsac bench shifts`.")] = Path("results/shifts"),
    driving: Annotated[Path, typer.Option(help="Folder of records of `nsac drive test`.")] = Path("results/driving"),
) -> None:
    """One HTML page with everything in it: tables, studies, figures, and the paper's numbers beside ours.

    Pictures of the Markdown page are written to the folder `figures` beside it.
    """
    from nsac.lab.report.gallery import pictures
    from nsac.lab.report.markdown import report_markdown
    from nsac.lab.report.page import report_page

    records, answers, parts = _current(out, None, None), study_records(studies), _sections(shifts, driving)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(report_page(records, answers, parts), encoding="utf-8")
    if markdown is not None:
        folder = markdown.parent / "figures"
        folder.mkdir(parents=True, exist_ok=True)
        for picture in pictures(records, answers):
            (folder / f"{picture.name}.png").write_bytes(picture.png())
        for image in (image for part in parts for image in part.images):
            (folder / f"{image.name}.png").write_bytes(image.content)
        markdown.write_text(report_markdown(records, answers, folder.name, parts), encoding="utf-8")
    console.print(f"{len(records)} records, {len(answers)} of studies: {page}", soft_wrap=True)


def _sections(shifts: Path, driving: Path) -> list["Section"]:
    """Sections of what else has records."""
    from nsac.lab.driving import records as road
    from nsac.lab.grid.store import RecordError
    from nsac.lab.shifts.page import section
    from nsac.lab.shifts.run import read_kept

    made = []
    if not (kept := read_kept(shifts)).empty:
        made.append(section(kept))
    try:
        driven = road.DriveStore(driving).records()
    except RecordError as err:
        stop(err)
    return made + [road.section(driven, driving)] * bool(driven)


def _cell(row: dict | None, marks: dict[str, float | None], method: str, level: float) -> str:
    if row is None or row["mean"] is None:
        return "" if row is None else "not finite"
    std = "" if row["std"] is None else f"\n+- {row['std']:.2g}"
    paper = "" if row["paper"] is None else f"\n({row['paper']:g})"
    p = marks.get(method, 0.0)
    mark = "*" if p is None else "~" if p >= level else ""
    return f"{row['mean']:.4g}{mark}{std}{paper}"


def _dry(configs: list["RunConfig"], todo: list["RunConfig"], as_json: bool) -> None:
    if as_json:
        about = ("task", "protocol", "method", "seed")
        runs = [{**{name: getattr(config, name) for name in about}, "name": config.name} for config in todo]
        print(json.dumps({"runs": len(configs), "done": len(configs) - len(todo), "todo": runs}))
        return
    console.print(f"{len(configs)} runs, {len(configs) - len(todo)} done, {len(todo)} to do" + (":" if todo else "."))
    for config in todo:
        console.print(f"  {config.task} {config.protocol} {config.method} {config.seed}")


def _grid(tasks: list[str] | None, methods: str | None, seeds: str, protocol: str | None) -> list["RunConfig"]:
    from nsac.lab.grid.config import PAPER_TASKS, PROTOCOLS, grid

    try:
        protocols = [protocol] if protocol else list(PROTOCOLS)
        return grid(tasks or PAPER_TASKS, methods.split(",") if methods else None, parse_seeds(seeds), protocols)
    except ValueError as err:
        stop(err)


def _store(out: Path) -> "Store":
    from nsac.lab.grid.store import RecordError, Store

    try:
        return Store(out)
    except RecordError as err:
        stop(err)


def _records(store: "Store", configs: list["RunConfig"]) -> list["Record"]:
    from nsac.lab.grid.store import RecordError

    try:
        return store.records(config.name for config in configs)
    except RecordError as err:
        stop(err)


def _current(out: Path, tasks: list[str] | None, protocol: str | None) -> list["Record"]:
    from nsac.lab.grid.config import PROTOCOLS, config_names
    from nsac.lab.grid.store import RecordError
    from nsac.lab.grid.table import current_records

    for name, value, known in [("task", t, config_names()) for t in tasks or ()] + [
        ("--protocol", protocol, PROTOCOLS)
    ]:
        if value is not None and value not in known:
            stop(f"`{name}` must be one of {', '.join(known)}. Got {value!r} instead.")
    try:
        records, stale = current_records(_store(out))
    except RecordError as err:
        stop(err)
    if stale:
        typer.echo(f"Left out {len(stale)} records of other numbers than those that hold now.", err=True)
    chosen = [r for r in records if (not tasks or r.task in tasks) and protocol in (None, r.protocol)]
    if not chosen:
        stop(f"{out} has no such records. Make some with `nsac bench run`, or name another folder with --out.")
    return chosen


def _tracker(track: str | None):
    if track is None:
        return None
    if track != "mlflow":
        stop(f"`--track` must be mlflow. Got {track!r} instead.")
    from nsac.lab.grid.mlflow import MLflow

    return MLflow()
