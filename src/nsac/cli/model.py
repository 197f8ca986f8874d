"""`nsac fit`, `predict`, `evaluate`, `export`: from a file to a model, and from a model to files."""

import gzip
import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column

from nsac._io import write_atomic
from nsac.cli import forecasts, tables
from nsac.cli.common import AsJson, check_choice, check_out, errors, make_table, one_line_errors, show, status
from nsac.cli.reading import TableError, read_table
from nsac.cli.tables import find_columns

if TYPE_CHECKING:
    from pandas import DataFrame

Data = Annotated[Path, typer.Argument(help="A CSV, CSV.gz or Parquet file with a header.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A folder that `nsac fit` wrote.", show_default=False)]
Coverage = Annotated[float, typer.Option(help="Nominal coverage of the prediction interval.")]
Coverages = Annotated[
    list[float], typer.Option("--coverage", help="Nominal coverage of the prediction interval; repeat for several.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the traceback of an error.")]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a CSV file, for instance latin-1; UTF-8 by default.", show_default=False)
]
TimeFormat = Annotated[
    str | None, typer.Option(help="Format of the times, for instance '%d.%m.%Y %H:%M'.", show_default=False)
]
DayFirst = Annotated[
    bool | None,
    typer.Option("--dayfirst/--no-dayfirst", help="Whether 01/02/1990 is in February.", show_default=False),
]
NOTHING_WRITTEN = "Nothing was written."  # printed after Ctrl-C
Targets = Annotated[list[str] | None, typer.Option("--target", help="Column to predict; repeat for several.")]


def fit(
    data: Data,
    target: Targets = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write the model to.", show_default=False)] = None,
    time_column: Annotated[
        str | None, typer.Option("--time", help="Time column; makes the model a forecaster.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(min=1, help="Forecaster: steps to predict.")] = None,
    lookback: Annotated[int | None, typer.Option(min=1, help="Forecaster: past steps that are input.")] = None,
    series: Annotated[str | None, typer.Option(help="Forecaster: column that identifies the series.")] = None,
    time_format: TimeFormat = None,
    dayfirst: DayFirst = None,
    encoding: Encoding = None,
    category: Annotated[
        list[str] | None, typer.Option(help="Categorical column, whatever it holds; repeat for several.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; repeat for several.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Table: column of groups of rows, such as machines; not an input.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Table: column of sample weights; not an input.")] = None,
    target_range: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="LOW HIGH", help="Table: bounds of the target; either may be none."),
    ] = None,
    effort: Annotated[str | None, typer.Option(help="Table: how long to train: fast, default or best.")] = None,
    n_jobs: Annotated[int | None, typer.Option(help="Table: members trained at the same time; -1: all cores.")] = None,
    method: Annotated[str, typer.Option(help="Uncertainty method: nsac, de, gmle, mcd, ...")] = "nsac",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed; equal seeds give equal models.")] = 0,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps per member, for a quick test.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing model.")] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Fit a model that predicts columns of a table or forecasts a series, and write it to a folder."""
    with one_line_errors(verbose, lost=f"Nothing was written to {out}. The same command starts again."):
        if not target:
            raise TableError("There is no target. Pass `--target COLUMN`.")
        if out is None:
            raise TableError("There is no output folder. Pass `--out FOLDER`.")
        if (time_column is None) != (horizon is None):
            given, other = ("--time", "--horizon") if horizon is None else ("--horizon", "--time")
            raise TableError(f"`{given}` needs `{other}`: a forecaster needs both. For a table leave out both.")
        for_series = {"--lookback": lookback, "--series": series, "--time-format": time_format}
        for_tables = {"--group": group, "--weight": weight, "--target-range": target_range}
        for_tables |= {"--effort": effort, "--n-jobs": n_jobs}
        for option, value in (for_series if time_column is None else for_tables).items():
            if value is not None and time_column is None:
                raise TableError(f"`{option}` is for forecasters. Pass `--time` and `--horizon` too.")
            if value is not None:
                raise TableError(f"`{option}` is for tables. Leave it out, or leave out `--time` and `--horizon`.")
        options = tables.fit_options(target_range, effort, n_jobs)
        _check_free(out, force)
        check_out(out, data, folder=True)
        started, target = time.perf_counter(), list(dict.fromkeys(target))
        groups, weights = [group] if group is not None else [], [weight] if weight is not None else []
        text = [*(category or ()), *groups, *([time_column] if time_column and time_format else [])]
        frame = _read(data, text, encoding)
        find_columns(frame, [*target, *(category or ()), *(drop or ()), *groups, *weights], data)
        for option, names in (("--category", category), ("--drop", drop), ("--group", groups), ("--weight", weights)):
            for name in set(names or ()) & set(target):
                raise TableError(f"`{option}` must not name the target. Got {name!r} instead. Leave out the option.")
        frame = frame.drop(columns=[name for name in dict.fromkeys(drop or ()) if name not in (group, weight)])
        settings = {"method": method, "random_state": seed, "verbose": not as_json}
        if steps:
            settings["training"] = {"max_steps": steps}
        if time_column is None:
            inputs = [name for name in frame.columns if name not in (group, weight)]
            chosen = [name for name in dict.fromkeys(category or ()) if name in inputs]
            settings |= {"categorical": chosen or None, "dayfirst": dayfirst, **options}
            estimator, rows = tables.fit(frame, data, target, settings, group, weight)
            frame = frame[inputs]
        else:
            find_columns(frame, [time_column] if series is None else [time_column, series], data)
            settings |= {"time": time_column, "horizon": horizon, "series": series}
            settings |= {"time_format": time_format, "dayfirst": dayfirst}
            if lookback:
                settings["lookback"] = lookback
            estimator, rows = forecasts.fit(frame, target, settings)
        estimator.set_params(verbose=False).save(out)
        report = {"model": str(out), "class": type(estimator).__name__, "method": method, "seed": seed, "rows": rows}
        report |= {"columns": [str(name) for name in frame.columns if name not in target], "targets": target}
        report |= {"seconds": round(time.perf_counter() - started, 1)}
        report |= {"bytes": sum(file.stat().st_size for file in out.iterdir())}
    seconds, size = report["seconds"], report["bytes"] / 1e6
    show(as_json, report, f"{report['class']} ({method}) of {rows} rows in {seconds} s: {out}, {size:.1f} MB")


def predict(
    model: Model,
    data: Data,
    out: Annotated[Path | None, typer.Option(help="CSV, CSV.gz or Parquet file; standard output by default.")] = None,
    coverage: Coverages = [0.9],  # noqa: B006 (typer copies it)
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
        check_out(out, data, model)
        estimator, targets = load_model(model)
        frame = read_for(estimator, data, (), encoding, time_format, dayfirst)
        if type(estimator).__name__ == "NSACRegressor":
            table = tables.predict(estimator, frame, data, targets, coverage)
        else:
            table = forecasts.predict(estimator, frame, coverage)
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


def _read(path: Path, text: Sequence[str], encoding: str | None, needed: Collection[str] | None = None) -> "DataFrame":
    with status(f"reading {path}"):
        return read_table(path, text, encoding, needed)


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
        return _read(path, tables.text_columns(estimator), encoding, needed)
    frame = _read(path, forecasts.text_columns(estimator, time_format), encoding)
    return forecasts.with_times(estimator, frame, path, time_format, dayfirst)


def load_model(folder: Path) -> tuple[Any, list[str]]:
    """An estimator and the names of its targets; none if it was fitted on an array."""
    with status(f"loading {folder}"):
        from nsac.estimators import load

        estimator: Any = load(folder)
    if type(estimator).__name__ == "NSACForecaster":
        return estimator, [estimator.target]
    return estimator, [str(name) for name in estimator.data_.get("targets", [])]


def _check_free(folder: Path, force: bool) -> None:
    if not folder.exists():
        return
    names = set(os.listdir(folder)) if folder.is_dir() else {""}
    if not names <= {"model.safetensors", "config.json"}:
        raise TableError(f"{folder} exists and is not a model. Name another folder with `--out`.")
    if names and not force:
        raise TableError(f"{folder} exists. Pass `--force` to replace it, or name another with `--out`.")


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
