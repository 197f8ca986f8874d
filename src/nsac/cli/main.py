"""`nsac`, the command."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from nsac.cli import bench as grid
from nsac.cli import model, studies
from nsac.cli.common import stop
from nsac.cli.data import data
from nsac.cli.drive import drive

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Predictions with trustworthy uncertainty.")
bench = typer.Typer(no_args_is_help=True, help="The evidence: tables and figures.")
app.add_typer(bench, name="bench")
app.add_typer(data, name="data")
app.add_typer(drive, name="drive")
model.register(app)
grid.register(bench)
studies.register(bench)
console = Console()


def main() -> None:
    """Entry point."""
    app()


_DEMO_CAPTION = (
    "50 test spirals. 90 %: share of positions inside the 90 % interval. aleat., epist.: standard deviations, "
    "from noise in the data and from what the model does not know."
)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("nsac-demo.png"),
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 1000,
    seed: Annotated[int, typer.Option(help="Fixes data, wiring, weights and noise.")] = 0,
) -> None:
    """Train on irregular spirals, print scores, and draw what the model knows and does not know."""
    from nsac.lab.studies.demo import run_demo  # here, so that `nsac --help` does not wait for torch
    from nsac.lab.studies.figure import spiral_figure
    from nsac.training import ProgressBar

    with ProgressBar(console) as report:
        result = run_demo(steps, seed, report)
    spiral_figure(result.run, out)
    table = Table("", "MSE", "NLL", "CRPS", "90 %", "aleat.", "epist.", caption=_DEMO_CAPTION)
    for row in result.rows:
        numbers = (row[name] for name in ("mse", "nll", "crps", "coverage", "aleatoric", "epistemic"))
        table.add_row(f"{row['method']}, {row['half']}", *(f"{number:.4f}" for number in numbers))
    console.print(table)
    console.print(f"Picture: {out}")


@bench.command()
def shifts(
    out: Annotated[Path, typer.Option(help="Folder of the records; what is there is not run again.")] = Path(
        "results/shifts"
    ),
    seeds: Annotated[int, typer.Option(min=0, help="Seeds 0, 1, ... per scene and method; 0 only shows.")] = 0,
    markdown: Annotated[Path | None, typer.Option(help="Write all tables to this page.")] = None,
    only: Annotated[list[str] | None, typer.Option("--method", help="Methods to run; all of them by default.")] = None,
) -> None:
    """Does uncertainty rise where the data does not reach? Every method on every shift of the suite."""
    from nsac.lab.shifts.page import page
    from nsac.lab.shifts.run import COMPARED, read_kept, run_kept
    from nsac.lab.shifts.scenes import REPORTED, scenes
    from nsac.lab.shifts.tables import cost_table, detection_table, has_cost

    unknown = set(only or ()) - set(COMPARED)
    if unknown:
        stop(f"There is no method {min(unknown)!r} here. Known are: {', '.join(COMPARED)}.")
    jobs = [(scene, method, seed) for seed in range(seeds) for method in only or COMPARED for scene in scenes(REPORTED)]
    for scene, method, seed in track(jobs, "training", console=console, disable=not jobs):
        run_kept(out, scene, method, seed)
    records = read_kept(out)
    if records.empty:
        stop(f"{out} has no records. Run with --seeds 1, or point --out to a folder that has some.")
    _show("AUROC of the epistemic deviation, by kind of shift", detection_table(records))
    if has_cost(records):
        _show("What it costs inside the data, and gives outside", cost_table(records))
    if markdown is not None:
        markdown.write_text(page(records), encoding="utf-8")


@bench.command()
def growth(
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("growth.png"),
    seeds: Annotated[int, typer.Option(min=1, help="Runs per point.")] = 3,
) -> None:
    """Does epistemic uncertainty shrink as the training data grows? From an eighth of three sets to all of it."""
    from nsac.lab.shifts.growth import SHARES, TASKS, growth_figure, run_growth

    jobs = [(task, share, seed) for task in TASKS for share in SHARES for seed in range(seeds)]
    runs = [run_growth(*job) for job in track(jobs, "training", console=console)]
    table = Table("task", "share", "error", "aleatoric", "epistemic", caption="Deviations in units of the target's.")
    for task in TASKS:
        for share in SHARES:
            some = [run for run in runs if (run.task, run.share) == (task, share)]
            means = (sum(getattr(run, kind) for run in some) / seeds for kind in ("error", "aleatoric", "epistemic"))
            table.add_row(task, f"{share:g}", *(f"{mean:.4f}" for mean in means))
    console.print(table)
    growth_figure(runs).savefig(out)
    console.print(f"Picture: {out}")


def _show(title: str, frame) -> None:
    table = Table(frame.index.name or "", *frame.columns, title=title)
    for name, row in frame.iterrows():
        table.add_row(str(name), *(v if isinstance(v, str) else f"{v:.3f}" for v in row))
    console.print(table)
