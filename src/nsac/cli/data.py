"""`nsac data`: list, download and describe the data sets of the benchmarks."""

import json
from typing import Annotated, Any

import typer
from rich.text import Text

from nsac.cli.common import AsJson, check_names, console, make_table, one_line_errors, show, status, stop

data = typer.Typer(no_args_is_help=True, help="Public data sets of the benchmarks: list, download, describe.")

FACTS = ("description", "citation", "licence", "homepage")
"""Facts about a data set."""
SCORES = {"mse": "MSE", "nll": "NLL", "crps": "CRPS", "coverage_90": "90 % PI"}
"""Scores of the baselines and their headings."""


@data.command("list")
def list_(as_json: AsJson = False) -> None:
    """List all data sets, and whether they are on this machine."""
    from nsac.lab.datasets import catalog
    from nsac.lab.datasets.store import present

    with one_line_errors():
        rows = [(source, present(name)) for name, source in catalog().items()]
    facts = [{**{f: getattr(s, f) for f in ("name", *FACTS, "size")}, "here": here} for s, here in rows]
    texts = [(s.name, f"{s.size / 1e6:.1f}", "yes" if here else "no", s.description) for s, here in rows]
    show(as_json, facts, make_table(("name", "MB", "here", "description"), texts))


@data.command()
def fetch(names: Annotated[list[str], typer.Argument(help="Data sets of `nsac data list`, or `all`.")]) -> None:
    """Download missing files and verify checksums. Files are looked up in NSAC_DATA, then in the cache."""
    from nsac.lab.datasets import DataError, catalog, locate

    known, failed = catalog(), []
    chosen = list(known) if names == ["all"] else names
    check_names("data set", chosen, known)
    with one_line_errors():
        for source in (known[name] for name in chosen):
            for file in source.files:
                try:
                    console.print(f"{source.name}: {locate(file.path)}", soft_wrap=True)
                except DataError as err:
                    failed.append(err)
    if failed:
        stop(*failed)


@data.command()
def info(
    name: Annotated[str, typer.Argument(help="A data set of `nsac data list`.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data splits on which the baselines are scored.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Describe a data set: source, licence, columns, benchmark tasks, and the scores of baselines on them."""
    from nsac.lab.datasets import catalog, summarise
    from nsac.lab.tasks.base import baseline_scores, lacking

    check_names("data set", [name], catalog())
    source = catalog()[name]
    with one_line_errors():
        with status(f"reading {name}"):
            columns = summarise(name)
        with status("scoring baselines"):
            baselines, skipped = baseline_scores(name, seed), lacking(name)
    if as_json:
        frame = json.loads(columns.to_json(orient="records", date_format="iso") or "[]")
        absent = [{"task": task, "protocol": p, "needs": needs} for (task, p), needs in skipped.items()]
        files = [{"path": file.path, "sha256": file.sha256, "size": file.size} for file in source.files]
        facts = {**{field: getattr(source, field) for field in ("name", *FACTS)}, "files": files, "columns": frame}
        # `naive` is the key of earlier versions, for one release
        show(True, {**facts, "baselines": baselines, "skipped": absent, "naive": baselines})
        return
    for field in FACTS:
        console.print(Text.assemble((field, "bold"), f": {getattr(source, field)}"), soft_wrap=True)
    for file in source.files:
        console.print(f"  {file.path}  {file.size} bytes  sha256 {file.sha256 or 'unknown'}", soft_wrap=True)
    rows = columns.itertuples(index=False)
    texts = ((f"{value:.6g}" if isinstance(value, float) else str(value) for value in row) for row in rows)
    console.print(make_table(columns.columns, texts))
    for text in dict.fromkeys(row["text"] for row in baselines):
        _print_baselines([row for row in baselines if row["text"] == text])
    for (task, protocol), needs in skipped.items():
        others = " ".join(needs)
        message = f"not scored, it needs {others} as well. Run `nsac data fetch {others}`."
        console.print(f"{task}, {protocol} protocol: {message}", soft_wrap=True)


def _print_baselines(rows: list[dict[str, Any]]) -> None:
    """Print the protocol of a task and the scores of its baselines, a row per baseline and group of test points."""
    first = rows[0]
    title = f"{first['task']}, {first['protocol']} protocol."
    console.print(Text.assemble((title, "bold"), f" {first['text']}"), soft_wrap=True)
    caption = f"Test split, unit: {first['unit']}. 90 % PI: coverage of the 90 % prediction interval."
    texts = []
    for row in rows:
        for group in [key.removesuffix("mse") for key in row if key == "mse" or key.endswith("_mse")]:
            label = ", ".join(filter(None, (row["method"], group.rstrip("_"))))
            texts.append((label, *(f"{row[group + score]:.4g}" for score in SCORES)))
    console.print(make_table(("baseline", *SCORES.values()), texts, caption=caption))
