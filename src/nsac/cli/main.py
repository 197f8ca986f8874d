"""The `nsac` command: its commands and groups of commands."""

from typing import Annotated

import typer

import nsac
from nsac.cli import bench, fit, model, report, shifts, studies
from nsac.cli.data import data
from nsac.cli.drive import drive
from nsac.cli.example import example
from nsac.cli.explain import explain

app = typer.Typer(no_args_is_help=True, add_completion=False)
group = typer.Typer(no_args_is_help=True, help="Benchmarks: run them, print tables, draw figures, write the report.")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"nsac {nsac.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Calibrated predictions for tables and irregularly sampled time series with missing values."""


for command in (example, fit.fit, model.predict, model.evaluate, explain, fit.backtest, model.export, studies.demo):
    app.command()(command)
group.command("list")(bench.list_)
for command in (bench.run, bench.status, bench.table, report.report, studies.study, studies.speed, studies.figure):
    group.command()(command)
for command in (shifts.shifts, shifts.growth):
    group.command()(command)
for command in (studies.frozen, studies.ablation):
    group.command(hidden=True)(command)
app.add_typer(group, name="bench")
app.add_typer(data, name="data")
app.add_typer(drive, name="drive")
