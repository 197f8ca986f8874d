"""`nsac data`: what data there is, where it is, what is in it."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nsac.cli.common import AsJson, stop

data = typer.Typer(no_args_is_help=True, help="Real data: list, fetch, look at.")
console = Console(markup=False, emoji=False)  # what is printed is data: brackets and colons stay as they are

Names = Annotated[list[str], typer.Argument(help="Names of `nsac data list`, or `all`.")]


@data.command("list")
def list_(as_json: AsJson = False) -> None:
    """All data sets, and whether they are here."""
    from nsac.lab.datasets import DataError, catalog
    from nsac.lab.datasets.store import present

    try:
        rows = [(source, present(name)) for name, source in catalog().items()]
    except DataError as err:
        stop(err)
    if as_json:
        fields = ("name", "description", "citation", "licence", "homepage", "size")
        print(json.dumps([{**{f: getattr(s, f) for f in fields}, "here": here} for s, here in rows]))
        return
    table = Table("name", "MB", "here", "description")
    for source, here in rows:
        table.add_row(source.name, f"{source.size / 1e6:.1f}", "yes" if here else "no", source.description)
    console.print(table)


@data.command()
def fetch(names: Names) -> None:
    """Find files in NSAC_DATA or the cache, download what is missing, check everything."""
    from nsac.lab.datasets import DataError, catalog, locate

    failed = []
    for source in _sources(*(catalog() if names == ["all"] else names)):
        for file in source.files:
            try:
                console.print(f"{source.name}: {locate(file.path)}", soft_wrap=True)
            except DataError as err:
                failed.append(err)
    if failed:
        stop(*failed)


@data.command()
def info(
    name: Annotated[str, typer.Argument(help="A name of `nsac data list`.")],
    seed: Annotated[int, typer.Option(min=0, help="Of the splits the naive numbers are for.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Whose it is, what is in it, the tasks made of it, and how well naive methods do there."""
    from nsac.lab.datasets import DataError, summarise
    from nsac.lab.tasks.baselines import baseline_scores, lacking

    (source,) = _sources(name)
    try:
        with console.status(f"reading {name}"):
            columns = summarise(name)
        with console.status("scoring naive methods"):
            naive, skipped = baseline_scores(name, seed), lacking(name)
    except DataError as err:
        stop(err)
    if as_json:
        about = {field: getattr(source, field) for field in ("name", "description", "citation", "licence", "homepage")}
        files = [{"path": file.path, "sha256": file.sha256, "size": file.size} for file in source.files]
        frame = json.loads(columns.to_json(orient="records", date_format="iso") or "[]")
        absent = [{"task": task, "protocol": p, "needs": needs} for (task, p), needs in skipped.items()]
        print(json.dumps({**about, "files": files, "columns": frame, "naive": naive, "skipped": absent}))
        return
    for field in ("description", "citation", "licence", "homepage"):
        console.print(Text.assemble((field, "bold"), f": {getattr(source, field)}"), soft_wrap=True)
    for file in source.files:
        console.print(f"  {file.path}  {file.size} bytes  sha256 {file.sha256 or 'not known'}", soft_wrap=True)
    table = Table(*columns.columns)
    for row in columns.itertuples(index=False):
        table.add_row(*(f"{v:.6g}" if isinstance(v, float) else str(v) for v in row))
    console.print(table)
    for text in dict.fromkeys(row["text"] for row in naive):
        rows = [row for row in naive if row["text"] == text]
        title = f"{rows[0]['task']}, {rows[0]['protocol']} protocol."
        console.print(Text.assemble((title, "bold"), f" {text}"), soft_wrap=True)
        table = Table("naive method", "MSE", "NLL", "CRPS", "90 %", caption=f"test part, unit: {rows[0]['unit']}")
        for row in rows:
            for group in [key.removesuffix("mse") for key in row if key == "mse" or key.endswith("_mse")]:
                scores = (f"{row[group + key]:.4g}" for key in ("mse", "nll", "crps", "coverage_90"))
                table.add_row(", ".join(filter(None, (row["method"], group.rstrip("_")))), *scores)
        console.print(table)
    for (task, protocol), needs in skipped.items():
        others = " ".join(needs)
        told = f"{task}, {protocol} protocol: not scored, it needs {others} as well. Run `nsac data fetch {others}`."
        console.print(told, soft_wrap=True)


def _sources(*names: str):
    from nsac.lab.datasets import catalog

    known = catalog()
    unknown = [name for name in names if name not in known]
    if unknown:
        stop(f"There is no data set {unknown[0]!r}. Known are: {', '.join(known)}.")
    return [known[name] for name in names]
