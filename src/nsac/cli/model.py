"""`nsac predict`, `evaluate`, `export`: from a model to files."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column

from nsac._io import write_atomic
from nsac.cli import forecasts, tables
from nsac.cli.common import AsJson, check_choice, check_out, errors, make_table, one_line_errors, show, status
from nsac.cli.options import (
    Coverage,
    Coverages,
    Data,
    DayFirst,
    Encoding,
    Model,
    Quantiles,
    Targets,
    TimeFormat,
    Verbose,
)
from nsac.cli.reading import TableError, is_number, read_file

if TYPE_CHECKING:
    from pandas import DataFrame

NOTHING_WRITTEN = "Nothing was written."  # printed after Ctrl-C


def predict(
    model: Model,
    data: Data,
    out: Annotated[Path | None, typer.Option(help="CSV, CSV.gz or Parquet file; standard output by default.")] = None,
    coverage: Coverages = [0.9],  # noqa: B006 (typer copies it)
    quantiles: Quantiles = None,
    ood_score: Annotated[bool, typer.Option("--ood-score", help="Add the column ood_score.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Forecaster: picture to write, for instance forecast.png.", show_default=False)
    ] = None,
    time_format: TimeFormat = None,
    dayfirst: DayFirst = None,
    encoding: Encoding = None,
    verbose: Verbose = False,
) -> None:
    """Predict mean, standard deviation, aleatoric and epistemic variance and an interval, for each row or lead time."""
    with one_line_errors(verbose, lost=NOTHING_WRITTEN):
        coverage = list(dict.fromkeys(coverage))
        for each in coverage:
            if not 0 < each < 1:
                raise TableError(f"`--coverage` must be strictly between 0 and 1. Got {each} instead.")
        levels = _parse_levels(quantiles)
        check_out(out, data, model)
        check_out(plot, data, model, option="--plot")
        estimator, targets = load_model(model)
        if plot is not None and type(estimator).__name__ == "NSACRegressor":
            raise TableError("`--plot` is for forecasters. Leave it out, or plot the table that is written.")
        frame = read_for(estimator, data, (), encoding, time_format, dayfirst)
        if type(estimator).__name__ == "NSACRegressor":
            table = tables.predict(estimator, frame, data, targets, coverage, levels, ood_score)
        else:
            table = forecasts.predict(estimator, frame, coverage, levels, ood_score)
        if plot is not None:
            forecasts.plot(estimator, frame, plot)
        if out is None:
            print(table.to_csv(index=False), end="")
            return
        _write(table, out)
    errors.print(f"{len(table)} rows: {out}", soft_wrap=True)


def evaluate(
    model: Model,
    data: Data,
    target: Targets = None,
    out: Annotated[Path | None, typer.Option(help="HTML page to write, for instance report.html.")] = None,
    time_format: TimeFormat = None,
    dayfirst: DayFirst = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Compare predictions with observed values: scores beside baselines, and an HTML page with plots."""
    with one_line_errors(verbose, lost=NOTHING_WRITTEN):
        from nsac.estimators.evaluation import SCORES
        from nsac.estimators.page import SCORE_NAMES, page, summary

        check_out(out, data, model)
        estimator, targets = load_model(model)
        frame = read_for(estimator, data, target or targets, encoding, time_format, dayfirst)
        with status("predicting"):
            if type(estimator).__name__ == "NSACRegressor":
                evaluations = tables.evaluate(estimator, frame, data, target or targets)
            else:
                evaluations = forecasts.evaluate(estimator, frame)
            scores = {e.target: e.scores for e in evaluations}
        if out is not None:
            about = f"Model: {model} ({type(estimator).__name__}, method {estimator.method})"
            facts = [about, f"Data: {data}, {len(frame)} rows"]
            facts += [f"Groups in training: {name}" for name in tables.group_column(estimator)]
            write_atomic(out, page(f"Evaluation of {', '.join(scores)}", facts, evaluations).encode())
    facts, lines, head = {}, [], [Column(no_wrap=True), *(SCORE_NAMES[key][0] for key in SCORES)]
    for e in evaluations:  # `naive` is the first of the baselines
        baselines = {name: scores[e.target][name] for name in e.baselines}
        facts[e.target] = {"model": scores[e.target]["model"], "naive": next(iter(baselines.values()))}
        facts[e.target] |= {"baselines": baselines, "values": len(e.y)}
        texts = [(name, *(f"{row[key]:.4g}" for key in SCORES)) for name, row in scores[e.target].items()]
        lines += [make_table(head, texts, title=e.target, box=None, padding=(0, 1, 0, 0)), summary(e)]
    show(as_json, facts, *lines)
    if out is not None and not as_json:
        errors.print(f"Page: {out}", soft_wrap=True)


def export(
    model: Model,
    to: Annotated[str, typer.Option(help="Format: onnx, or torch (a .pt2 file of torch.export).")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="File to write; beside the model by default.")] = None,
    coverage: Coverage = 0.9,
    verbose: Verbose = False,
) -> None:
    """Write a model as one file that runs without this library: with ONNX Runtime and numpy, or with torch alone."""
    with one_line_errors(verbose, lost=NOTHING_WRITTEN):
        kinds = {"onnx": ".onnx", "torch": ".pt2"}
        check_choice("--to", to, kinds)
        from nsac.estimators.export import export_onnx, export_program, program_bytes

        path = out or model.absolute().with_name(model.absolute().name + kinds[to])
        check_out(path, model)
        estimator, targets = load_model(model)
        with status("tracing; takes some seconds per ensemble member"):
            if to == "onnx":
                export_onnx(estimator, path, coverage, targets)
            else:
                write_atomic(path, program_bytes(export_program(estimator, coverage)))
    show(False, None, f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def read_for(
    estimator: Any,
    path: Path,
    targets: Sequence[str],
    encoding: str | None,
    time_format: str | None,
    dayfirst: bool | None,
) -> "DataFrame":
    """The file as the estimator needs it; options on times replace what it has learned of them in `fit`.

    Of a table, the columns that are neither inputs nor `targets` stay as they are in the file.
    """
    if type(estimator).__name__ == "NSACRegressor":
        if time_format is not None or dayfirst is not None:
            raise TableError("`--time-format` and `--dayfirst` are for forecasters. A table is read as in `fit`.")
        needed = {*getattr(estimator, "feature_names_in_", []), *targets}
        return read_file(path, tables.text_columns(estimator), encoding, needed)
    frame = read_file(path, forecasts.text_columns(estimator, time_format), encoding)
    return forecasts.with_times(estimator, frame, path, time_format, dayfirst)


def load_model(folder: Path) -> tuple[Any, list[str]]:
    """An estimator and the names of its targets; none if it was fitted on an array."""
    with status(f"loading {folder}"):
        from nsac.estimators import load

        estimator: Any = load(folder)
    if type(estimator).__name__ == "NSACForecaster":
        return estimator, estimator.targets_
    return estimator, [str(name) for name in estimator.data_.get("targets", [])]


def _parse_levels(texts: Sequence[str] | None) -> list[float]:
    """Quantile levels from comma-separated lists, each strictly between 0 and 1."""
    levels = []
    for text in (each.strip() for given in texts or () for each in given.split(",")):
        if not is_number(text) or not 0 < float(text) < 1:
            rule = "`--quantiles` must be strictly between 0 and 1, for instance 0.1,0.9."
            raise TableError(f"{rule} Got {text!r} instead.")
        levels.append(float(text))
    return list(dict.fromkeys(levels))


def _write(table: "DataFrame", path: Path) -> None:
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            content = table.to_parquet(engine="pyarrow", index=False)
        except ImportError:
            problem = "Parquet needs pyarrow. Run `pip install 'nsac[parquet]'`, or write a .csv file."
            raise TableError(problem) from None
    else:
        content = table.to_csv(index=False).encode()
        if path.suffix.lower() == ".gz":
            content = gzip.compress(content, mtime=0)
    write_atomic(path, content)
