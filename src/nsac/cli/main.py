"""`nsac`, the command."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from nsac.cli.data import data

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Predictions with trustworthy uncertainty.")
bench = typer.Typer(no_args_is_help=True, help="The evidence: tables and figures.")
app.add_typer(bench, name="bench")
app.add_typer(data, name="data")
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
    from nsac.bench.demo import run_demo  # here, so that `nsac --help` does not wait for torch
    from nsac.bench.figure import spiral_figure
    from nsac.training import ProgressBar

    with ProgressBar(console) as report:
        result = run_demo(steps, seed, report)
    spiral_figure(result.run, out)
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


@bench.command()
def ablation(
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("ablation.png"),
    steps: Annotated[int, typer.Option(min=1, help="Training steps, with and without.")] = 1000,
    seed: Annotated[int, typer.Option(help="Fixes data, wiring, weights and noise.")] = 0,
) -> None:
    """What does the separation regulariser do? The paper's Table 2 and its four panels, with its numbers beside."""
    from nsac.bench.ablation import ablation_figure, ablation_table, run_ablation
    from nsac.training import ProgressBar

    with ProgressBar(console) as report:
        result = run_ablation(steps, seed, report)
    console.print(ablation_table(result))
    ablation_figure(result).savefig(out)
    console.print(f"Picture: {out}")
