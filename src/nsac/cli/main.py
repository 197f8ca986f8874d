"""`nsac`, the command."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Predictions with trustworthy uncertainty.")
bench = typer.Typer(no_args_is_help=True, help="The evidence: tables and figures.")
app.add_typer(bench, name="bench")
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
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 1200,
    seed: Annotated[int, typer.Option(help="Fixes data, wiring, weights and noise.")] = 0,
) -> None:
    """Train on irregular spirals, print scores, and draw what the model knows and does not know."""
    from nsac.bench.demo import run_demo  # here, so that `nsac --help` does not wait for torch
    from nsac.bench.figure import demo_figure

    columns = (TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[note]}"), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=steps, note="")

        def report(progress) -> None:
            validation = "" if progress.validation is None else f"  validation {progress.validation:.3f}"
            bar.update(task, completed=progress.step, note=f"NLL {progress.parts['nll']:.3f}{validation}")

        result = run_demo(steps, seed, report)
    demo_figure(result, out)
    table = Table("", "MSE", "NLL", "CRPS", "90 %", "aleat.", "epist.", caption=_DEMO_CAPTION)
    for row in result.rows:
        numbers = (row[name] for name in ("mse", "nll", "crps", "coverage", "aleatoric", "epistemic"))
        table.add_row(f"{row['method']}, {row['part']}", *(f"{number:.4f}" for number in numbers))
    console.print(table)
    console.print(f"Picture: {out}")


@bench.command()
def frozen(
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("frozen.png"),
) -> None:
    """How wrong is it to freeze the gates? The paper's Table 3 and its step-change figure, with its numbers beside."""
    from nsac.bench.frozen import frozen_analysis, frozen_figure, frozen_table

    with console.status("training five small layers"):
        records = frozen_analysis()
    console.print(frozen_table(records))
    frozen_figure().savefig(out)
    console.print(f"Picture: {out}")
