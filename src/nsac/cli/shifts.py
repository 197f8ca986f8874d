"""`nsac bench shifts` and `growth`: epistemic uncertainty under distribution shift, and as the training data grows."""

import json
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import track
from rich.table import Column, Table
from rich.text import Text

from nsac.cli import common
from nsac.cli.common import AsJson, DryRun, errors, one_line_errors, parse_seeds, print_plan, show, stop

if TYPE_CHECKING:
    from pandas import DataFrame

SEED_NOTE = "A single number is one seed; in earlier versions it was a number of seeds."


def shifts(
    method: common.Methods = None,
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
    ] = common.SHIFT_FOLDER,
    out: Annotated[Path | None, typer.Option("--out", help="Markdown page (.md) to write all tables to.")] = None,
    as_json: AsJson = False,
    old_markdown: Annotated[Path | None, typer.Option("--markdown", hidden=True)] = None,
) -> None:
    """Measure whether epistemic uncertainty detects distribution shift, for every method and shift of the suite.

    Interrupt it at any time; the same command resumes.
    """
    from nsac.lab.shifts.page import cost_table, detection_table, has_cost, page
    from nsac.lab.shifts.run import COMPARED, read_kept, run_kept
    from nsac.lab.shifts.scenes import REPORTED, scenes

    if out is not None and not out.suffix:  # `--out` was the folder of the records
        records, out = common.choose_folder(records, out), None
    if old_markdown is not None:
        common.note_deprecated("--markdown FILE", "--out FILE")
        out = old_markdown
    with one_line_errors(kept=records):
        common.check_names("method", method, COMPARED)
        chosen = [] if seeds is None else parse_seeds(seeds)
        every = [(scene, name, seed) for seed in chosen for name in method or COMPARED for scene in scenes(REPORTED)]
        kept = read_kept(records)
        done = set() if kept.empty else set(kept[["scene", "method", "seed"]].itertuples(index=False, name=None))
        todo = [run for run in every if run not in done]
        if dry_run:
            facts = [{"scene": scene, "method": name, "seed": seed} for scene, name, seed in todo]
            plan = [(" ".join(map(str, about.values())), about) for about in facts]
            print_plan("runs", len(every), plan, as_json)
            return
        common.check_out(out)
        if todo:
            common.check_records(records)
        for run in track(todo, "training", console=errors, disable=not todo):
            run_kept(records, *run)
        results = read_kept(records)
        if results.empty:
            stop(f"{records} has no records. Run them with `--seeds 0`, or name another folder with `--records`.")
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(page(results), encoding="utf-8")
        detection = detection_table(results)
        compared = detection.index.isin(list(COMPARED))
        facts = {"detection": _rows(detection), "cost": []}
        lines = _titled("AUROC of the epistemic standard deviation, by kind of shift", detection[compared].T)
        if not compared.all():
            lines += _titled("AUROC of reference detectors, by kind of shift", detection[~compared].T)
        if has_cost(results):
            cost = cost_table(results)
            facts["cost"] = _rows(cost)
            lines += _titled("In-distribution cost and out-of-distribution coverage", cost)
        show(as_json, facts, *lines)


def growth(
    seeds: Annotated[
        str, typer.Option(help=f"Range or comma-separated list of seeds to average over: 0-2, or 0,2. {SEED_NOTE}")
    ] = "0-2",
    dry_run: DryRun = False,
    out: common.Figure = Path("growth.png"),
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
        common.check_out(out)
        runs = [run_growth(*run) for run in track(todo, "training", console=errors)]
        out.parent.mkdir(parents=True, exist_ok=True)
        growth_figure(runs).savefig(out)
        rows, scores = [], ("error", "aleatoric", "epistemic")
        for task, share in product(TASKS, SHARES):
            some = [run for run in runs if (run.task, run.share) == (task, share)]
            means = {name: sum(getattr(run, name) for run in some) / len(some) for name in scores}
            rows.append({"task": task, "share": share, **means})
    caption = "RMSE and standard deviations, in units of the target's standard deviation."
    head = ("task", "fraction of the data", "RMSE", "aleatoric", "epistemic")
    texts = [(row["task"], f"{row['share']:g}", *(f"{row[name]:.4f}" for name in scores)) for row in rows]
    table = common.make_table(head, texts, caption=caption)
    show(as_json, {"rows": rows, "figure": str(out)}, table, f"Figure: {out}")


def _rows(frame: "DataFrame") -> list[dict[str, Any]]:
    """Rows as plain values, the index under `name`; None where there is no value."""
    return json.loads(frame.rename_axis("name").reset_index().to_json(orient="records", double_precision=15) or "[]")


def _titled(title: str, frame: "DataFrame") -> list[Text | Table]:
    import pandas as pd

    names = [str(name).replace("/", "/ ").replace("_", " ") for name in frame.columns]  # a heading wraps at spaces
    head = [Column(str(frame.index.name or ""), no_wrap=True)]
    head += [Column(name, justify="right", overflow="fold") for name in names]
    rows = [(str(i), *("" if pd.isna(value) else f"{value:.3f}" for value in row)) for i, row in frame.iterrows()]
    return [Text(title, style="bold"), common.make_table(head, rows, box=None, padding=(0, 1, 0, 0))]
