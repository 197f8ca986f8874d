"""`nsac fit`, `predict`, `evaluate`, `export`: from a file to a model, and from a model to files."""

import contextlib
import json
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from nsac.cli import forecasts, tables
from nsac.cli.common import AsJson, stop
from nsac.cli.reading import TableError, find_columns, read_table

if TYPE_CHECKING:
    from pandas import DataFrame

console = Console(markup=False, emoji=False)
errors = Console(stderr=True, markup=False, emoji=False)

Data = Annotated[Path, typer.Argument(help="A CSV, CSV.gz or Parquet file with a header.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A folder that `nsac fit` wrote.", show_default=False)]
Coverage = Annotated[float, typer.Option(help="Share of values that the interval should hold.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show where an error comes from.")]
Targets = Annotated[list[str] | None, typer.Option("--target", help="Column to predict; repeat it for several.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (fit, predict, evaluate, export):
        app.command()(command)


def fit(
    data: Data,
    target: Targets = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write the model to.", show_default=False)] = None,
    time_column: Annotated[str | None, typer.Option("--time", help="Column of times: makes it a forecast.")] = None,
    horizon: Annotated[int | None, typer.Option(min=1, help="Forecast: steps ahead.")] = None,
    lookback: Annotated[int | None, typer.Option(min=1, help="Forecast: steps to look back.")] = None,
    series: Annotated[str | None, typer.Option(help="Forecast: column that tells series apart.")] = None,
    category: Annotated[list[str] | None, typer.Option(help="Column of names, even if they look like numbers.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; repeat it for several.")] = None,
    method: Annotated[str, typer.Option(help="How to be uncertain: nsac, de, gmle, mcd, ...")] = "nsac",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Same seed, same model.")] = 0,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps of a member, for a quick try.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that is there.")] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Learn to predict columns of a table, or to forecast a series, and write a model folder."""
    with one_line(verbose):
        if not target:
            raise TableError("Nothing to predict was named. Pass `--target COLUMN`.")
        if out is None:
            raise TableError("There is nowhere to write to. Pass `--out FOLDER`.")
        if (time_column is None) != (horizon is None):
            given, other = ("--time", "--horizon") if horizon is None else ("--horizon", "--time")
            raise TableError(f"`{given}` needs `{other}`: a forecast has both. For a table leave out both.")
        if time_column is None and (lookback or series):
            raise TableError("`--lookback` and `--series` are for forecasts. Pass `--time` and `--horizon` too.")
        _check_free(out, force)
        started, target = time.perf_counter(), list(dict.fromkeys(target))
        frame = _read(data, category or ())
        find_columns(frame, [*target, *(category or ()), *(drop or ())], data)
        frame = frame.drop(columns=[name for name in drop or () if name not in target])
        settings = {"method": method, "random_state": seed, "verbose": not as_json}
        settings |= {"training": {"max_steps": steps}} if steps else {}
        if time_column is None:
            estimator, rows = tables.fit(frame, data, target, settings, _note)
        else:
            find_columns(frame, [time_column, *([series] if series else [])], data)
            settings |= {"time": time_column, "horizon": horizon, "series": series}
            settings |= {"lookback": lookback} if lookback else {}
            estimator, rows = forecasts.fit(frame, target, settings)
        estimator.set_params(verbose=False).save(out)
        told = {"model": str(out), "class": type(estimator).__name__, "method": method, "seed": seed, "rows": rows}
        told |= {"columns": [str(name) for name in frame.columns if name not in target], "targets": target}
        told |= {"seconds": round(time.perf_counter() - started, 1)}
        told |= {"bytes": sum(file.stat().st_size for file in out.iterdir())}
    if as_json:
        print(json.dumps(told))
        return
    console.print(
        f"{told['class']} ({method}) of {rows} rows in {told['seconds']} s: {out}, {told['bytes'] / 1e6:.1f} MB",
        soft_wrap=True,
    )


def predict(
    model: Model,
    data: Data,
    out: Annotated[Path | None, typer.Option(help="CSV, CSV.gz or Parquet file; the screen by default.")] = None,
    coverage: Coverage = 0.9,
    verbose: Verbose = False,
) -> None:
    """Predict: mean, deviation, aleatoric and epistemic variance, and an interval for each row or step ahead."""
    with one_line(verbose):
        if not 0 < coverage < 1:
            raise TableError(f"`--coverage` must be strictly between 0 and 1. Got {coverage} instead.")
        estimator, targets = _load(model)
        frame = _read(data, tables.text_columns(estimator))
        if type(estimator).__name__ == "NSACRegressor":
            table = tables.predict(estimator, frame, data, targets, coverage, errors)
        else:
            table = forecasts.predict(estimator, frame, data, coverage)
        if out is None:
            print(table.to_csv(index=False), end="")
            return
        _write(table, out)
    errors.print(f"{len(table)} rows: {out}", soft_wrap=True)


def evaluate(
    model: Model,
    data: Data,
    target: Targets = None,
    out: Annotated[Path | None, typer.Option(help="Page to write, for instance report.html.")] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Compare predictions with what came: a table of scores beside a naive guess, and a page with pictures."""
    with one_line(verbose):
        from nsac.estimators.evaluation import SCORES
        from nsac.estimators.page import NAMES, page, summary

        estimator, targets = _load(model)
        frame = _read(data, tables.text_columns(estimator))
        with errors.status("predicting"):
            if type(estimator).__name__ == "NSACRegressor":
                evaluations = tables.evaluate(estimator, frame, data, target or targets)
            else:
                evaluations = forecasts.evaluate(estimator, frame, data)
            scores = {e.target: e.scores for e in evaluations}
        if out is not None:
            from nsac._io import write_atomic

            facts = [
                f"Model: {model} ({type(estimator).__name__}, method {estimator.method})",
                f"Data: {data}, {len(frame)} rows",
            ]  # noqa: E501
            write_atomic(out, page(f"How well {', '.join(scores)} is predicted", facts, evaluations).encode())
    if as_json:
        rows = {e.target: len(e.y) for e in evaluations}
        print(json.dumps({name: {**each, "values": rows[name]} for name, each in scores.items()}))
        return
    for e in evaluations:
        table = Table("", *(NAMES[key][0] for key in SCORES), title=e.target)
        for who, name in (("model", "model"), ("naive", e.naive_name)):
            table.add_row(name, *(f"{scores[e.target][who][key]:.4g}" for key in SCORES))
        console.print(table)
        console.print(summary(e), soft_wrap=True)
    if out is not None:
        errors.print(f"Page: {out}", soft_wrap=True)


def export(
    model: Model,
    to: Annotated[str, typer.Option(help="onnx, or torch (a .pt2 file of torch.export).")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="File to write; beside the model by default.")] = None,
    coverage: Coverage = 0.9,
    verbose: Verbose = False,
) -> None:
    """Write a model as one file that runs elsewhere: with ONNX Runtime and numpy, or with torch alone."""
    with one_line(verbose):
        kinds = {"onnx": ".onnx", "torch": ".pt2"}
        if to not in kinds:
            raise TableError(f"`--to` must be one of {', '.join(kinds)}. Got {to!r} instead.")
        from nsac._io import write_atomic
        from nsac.estimators.export import export_onnx, export_program, program_bytes

        estimator, targets = _load(model)
        path = out or model.absolute().with_name(model.absolute().name + kinds[to])
        with errors.status("tracing; this takes some seconds per member"):
            if to == "onnx":
                export_onnx(estimator, path, coverage, targets)
            else:
                write_atomic(path, program_bytes(export_program(estimator, coverage)))
    console.print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", soft_wrap=True)


@contextlib.contextmanager
def one_line(verbose: bool) -> Iterator[None]:
    """Errors become one line and exit code 2; warnings become notes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_, **__: _note(str(message))
            yield
    except Exception as err:
        if verbose:
            traceback.print_exc()
        expected = isinstance(err, (ValueError, TypeError, OSError, MemoryError, ImportError))
        told = " ".join(str(err).split()) or type(err).__name__
        stop(told if expected else f"{type(err).__name__}: {told} (unexpected; `--verbose` shows where)")


def _note(text: str) -> None:
    errors.print(f"Note: {' '.join(text.split())}", soft_wrap=True)


def _read(path: Path, text) -> "DataFrame":
    with errors.status(f"reading {path}"):
        return read_table(path, text, _note)


def _load(folder: Path) -> tuple[Any, list[str]]:
    """An estimator and the names of its targets, none if it was fitted to an array."""
    with errors.status(f"loading {folder}"):
        from nsac.estimators import load

        estimator: Any = load(folder)
    if type(estimator).__name__ == "NSACForecaster":
        return estimator, [estimator.target]
    return estimator, [str(name) for name in estimator.data_.get("targets", [])]


def _check_free(folder: Path, force: bool) -> None:
    """Refuse a folder that must not be written to, before time is spent on a model."""
    if not folder.exists():
        return
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    if not names <= {"model.safetensors", "config.json"}:
        raise TableError(f"{folder} is there already, and no model. Name another folder with `--out`.")
    if names and not force:
        raise TableError(f"{folder} is there already. Pass `--force` to replace it, or name another with `--out`.")


def _write(table: "DataFrame", path: Path) -> None:
    import gzip
    import io

    from nsac._io import write_atomic

    if path.suffix.lower() in (".parquet", ".pq"):
        content = io.BytesIO()
        try:
            table.to_parquet(content, engine="pyarrow", index=False)
        except ImportError:
            raise TableError(
                "Parquet needs pyarrow. Run `pip install 'nsac[parquet]'`, or write a .csv file."
            ) from None
        write_atomic(path, content.getvalue())
        return
    text = table.to_csv(index=False).encode()
    write_atomic(path, gzip.compress(text, mtime=0) if path.suffix.lower() == ".gz" else text)
