"""`nsac demo`: train on irregularly sampled spirals, print scores, draw a figure."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from nsac.cli.common import AsJson, console, errors, one_line_errors

SCORES = {
    "mse": "MSE", "nll": "NLL", "crps": "CRPS", "coverage": "90 % PI", "aleatoric": "aleat.", "epistemic": "epist.",
}  # fmt: skip
"""Scores of the table and their headings."""

CAPTION = (
    "50 test spirals. 90 % PI: coverage of the 90 % prediction interval. aleat., epist.: aleatoric and epistemic "
    "standard deviation."
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Figure to write.")] = Path("nsac-demo.png"),
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of data, wiring, weights and noise.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train on irregularly sampled spirals, compare with a baseline, and draw the predictive uncertainty."""
    from nsac.lab.studies.demo import run_demo  # here, so that `nsac --help` does not import torch
    from nsac.lab.studies.figure import spiral_figure
    from nsac.training import ProgressBar

    with one_line_errors():
        with ProgressBar(errors) as progress:
            result = run_demo(steps, seed, progress)
        spiral_figure(result.run, out)
        if as_json:
            print(json.dumps({"rows": result.rows, "figure": str(out)}))
            return
        table = Table("", *SCORES.values(), caption=CAPTION)
        for row in result.rows:
            table.add_row(f"{row['method']}, {row['half']}", *(f"{row[name]:.4f}" for name in SCORES))
        console.print(table)
        console.print(f"Figure: {out}", soft_wrap=True)
