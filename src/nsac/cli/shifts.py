"""`nsac bench shifts` and `growth`: epistemic uncertainty under distribution shift, and as the training data grows."""

import json
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import track
from rich.table import Table
from rich.text import Text

from nsac.cli.common import (
    AsJson,
    DryRun,
    Methods,
    check_names,
    console,
    errors,
    note_deprecated,
    one_line_errors,
    parse_seeds,
    print_plan,
    resume_hint,
    stop,
)
from nsac.cli.records import SHIFT_FOLDER, choose_folder

if TYPE_CHECKING:
    from pandas import DataFrame

    from nsac.lab.shifts.growth import GrowthRun

SEED_NOTE = "A single number is one seed; in earlier versions it was a number of seeds."


def register(bench: typer.Typer) -> None:
    """Add the commands."""
    for command in (shifts, growth):
        bench.command()(command)


def shifts(
    method: Methods = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Range or comma-separated list of seeds to run: 0-4, or 0,2. Default: print the tables of the records "
            f"without any run. {SEED_NOTE}",
        ),
    ] = None,
    dry_run: DryRun = False,
    records: Annotated[
        Path, typer.Option("--records", help="Folder of the records. Runs with a record are skipped.")
    ] = SHIFT_FOLDER,
    out: Annotated[Path | None, typer.Option("--out", help="Markdown page (.md) to write all tables to.")] = None,
    as_json: AsJson = False,
    old_markdown: Annotated[Path | None, typer.Option("--markdown", hidden=True)] = None,
) -> None:
    """Measure whether epistemic uncertainty detects distribution shift, for every method and shift of the suite.

    Interrupt it at any time; the same command resumes.
    """
    from nsac.lab.shifts.page import page
    from nsac.lab.shifts.run import COMPARED, read_kept, run_kept
    from nsac.lab.shifts.scenes import REPORTED, scenes

    if out is not None and not out.suffix:  # `--out` was the folder of the records
        records, out = choose_folder(records, out), None
    if old_markdown is not None:
        note_deprecated("--markdown FILE", "--out FILE")
        out = old_markdown
    with one_line_errors(interrupted=resume_hint(records)):
        check_names("method", method, list(COMPARED))
        chosen = [] if seeds is None else parse_seeds(seeds)
        every = [(scene, name, seed) for seed in chosen for name in method or COMPARED for scene in scenes(REPORTED)]
        done = _runs(read_kept(records))
        todo = [run for run in every if run not in done]
        if dry_run:
            print_plan("runs", len(every), [_describe(*run) for run in todo], as_json)
            return
        for run in track(todo, "training", console=errors, disable=not todo):
            run_kept(records, *run)
        results = read_kept(records)
        if results.empty:
            stop(f"{records} has no records. Run them with `--seeds 0`, or name another folder with `--records`.")
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(page(results), encoding="utf-8")
        _print_results(results, as_json)


def growth(
    seeds: Annotated[
        str, typer.Option(help=f"Range or comma-separated list of seeds to average over: 0-2, or 0,2. {SEED_NOTE}")
    ] = "0-2",
    dry_run: DryRun = False,
    out: Annotated[Path, typer.Option("--out", help="Figure to write.")] = Path("growth.png"),
    as_json: AsJson = False,
) -> None:
    """Measure whether epistemic uncertainty shrinks as the training data grows, from an eighth of three sets to all."""
    from nsac.lab.shifts.growth import SHARES, TASKS, growth_figure, run_growth

    with one_line_errors():
        todo = list(product(TASKS, SHARES, parse_seeds(seeds)))
        if dry_run:
            plan = [{"task": task, "share": share, "seed": seed} for task, share, seed in todo]
            print_plan("runs", len(todo), [(f"{p['task']} {p['share']:g} {p['seed']}", p) for p in plan], as_json)
            return
        runs = [run_growth(*run) for run in track(todo, "training", console=errors)]
        out.parent.mkdir(parents=True, exist_ok=True)
        growth_figure(runs).savefig(out)
        rows = [_mean(task, share, runs) for task, share in product(TASKS, SHARES)]
    if as_json:
        print(json.dumps({"rows": rows, "figure": str(out)}))
        return
    caption = "RMSE and standard deviations, in units of the target's standard deviation."
    table = Table("task", "fraction of the data", "RMSE", "aleatoric", "epistemic", caption=caption)
    for row in rows:
        scores = [f"{row[name]:.4f}" for name in ("error", "aleatoric", "epistemic")]
        table.add_row(row["task"], f"{row['share']:g}", *scores)
    console.print(table)
    console.print(f"Figure: {out}", soft_wrap=True)


def _runs(records: "DataFrame") -> set[tuple[str, str, int]]:
    """Scene, method and seed of the runs that have a record."""
    if records.empty:
        return set()
    return set(records[["scene", "method", "seed"]].itertuples(index=False, name=None))


def _describe(scene: str, method: str, seed: int) -> tuple[str, dict[str, Any]]:
    return f"{scene} {method} {seed}", {"scene": scene, "method": method, "seed": seed}


def _mean(task: str, share: float, runs: list["GrowthRun"]) -> dict[str, Any]:
    some = [run for run in runs if (run.task, run.share) == (task, share)]
    means = {name: sum(getattr(run, name) for run in some) / len(some) for name in ("error", "aleatoric", "epistemic")}
    return {"task": task, "share": share, **means}


def _print_results(records: "DataFrame", as_json: bool) -> None:
    from nsac.lab.shifts.page import cost_table, detection_table, has_cost
    from nsac.lab.shifts.run import COMPARED

    detection = detection_table(records)
    comparable = has_cost(records)
    cost = cost_table(records) if comparable else None
    if as_json:
        print(json.dumps({"detection": _rows(detection), "cost": [] if cost is None else _rows(cost)}))
        return
    compared = detection.index.isin(list(COMPARED))
    _print_frame("AUROC of the epistemic standard deviation, by kind of shift", detection[compared].T)
    if not compared.all():
        _print_frame("AUROC of reference detectors, by kind of shift", detection[~compared].T)
    if cost is not None:
        _print_frame("In-distribution cost and out-of-distribution coverage", cost)


def _rows(frame: "DataFrame") -> list[dict[str, Any]]:
    """Rows as plain values, the index under `name`; None where there is no value."""
    return json.loads(frame.rename_axis("name").reset_index().to_json(orient="records", double_precision=15) or "[]")


def _print_frame(title: str, frame: "DataFrame") -> None:
    import pandas as pd

    console.print(Text(title, style="bold"))
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column(str(frame.index.name or ""), no_wrap=True)
    for name in frame.columns:
        heading = str(name).replace("/", "/ ").replace("_", " ")  # a heading wraps at spaces
        table.add_column(heading, justify="right", overflow="fold")
    for name, row in frame.iterrows():
        table.add_row(str(name), *("" if pd.isna(value) else f"{value:.3f}" for value in row))
    console.print(table)
