"""`nsac fit` and `nsac backtest`: from a file to a model, or to its scores."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from nsac.cli import forecasts, tables
from nsac.cli.common import AsJson, check_out, note, one_line_errors, show, status
from nsac.cli.options import (
    Data,
    DayFirst,
    Encoding,
    Horizon,
    KnownFuture,
    Lookback,
    Method,
    Seed,
    Series,
    Static,
    Steps,
    Targets,
    TimeEncoding,
    TimeFormat,
    Verbose,
)
from nsac.cli.reading import TableError, read_file
from nsac.cli.tables import find_columns


def fit(
    data: Data,
    target: Targets = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write the model to.", show_default=False)] = None,
    time_column: Annotated[
        str | None, typer.Option("--time", help="Time column; makes the model a forecaster.")
    ] = None,
    horizon: Horizon = None,
    lookback: Lookback = None,
    series: Series = None,
    static: Static = None,
    known_future: KnownFuture = None,
    time_encoding: TimeEncoding = None,
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
    method: Method = "nsac",
    seed: Seed = 0,
    steps: Steps = None,
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
        for_series |= {"--static": static, "--known-future": known_future, "--time-encoding": time_encoding}
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
        text += [series] if series is not None else []  # 001 is not 1
        dropped = [name for name in dict.fromkeys(drop or ()) if name not in (group, weight)]
        frame = read_file(data, [*text, *dropped], encoding)
        find_columns(frame, [*target, *(category or ()), *(drop or ()), *groups, *weights], data)
        for option, names in (("--category", category), ("--drop", drop), ("--group", groups), ("--weight", weights)):
            for name in set(names or ()) & set(target):
                raise TableError(f"`{option}` must not name the target. Got {name!r} instead. Leave out the option.")
        frame = frame.drop(columns=dropped)
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
            named = [time_column, *([] if series is None else [series]), *(static or ()), *(known_future or ())]
            find_columns(frame, named, data)
            settings |= {"time": time_column, "series": series, "time_format": time_format, "dayfirst": dayfirst}
            settings |= forecasts.fit_options(horizon, lookback, static, known_future, time_encoding)
            estimator, rows = forecasts.fit(frame, target, settings)
            used = {time_column, series, *estimator.columns_.inputs}
            frame = frame[[name for name in frame.columns if name in used]]
            note(estimator.encoding_reason_)
        estimator.set_params(verbose=False).save(out)
        report = {"model": str(out), "class": type(estimator).__name__, "method": method, "seed": seed, "rows": rows}
        report |= {"columns": [str(name) for name in frame.columns if name not in target], "targets": target}
        report |= {"seconds": round(time.perf_counter() - started, 1)}
        report |= {"bytes": sum(file.stat().st_size for file in out.iterdir())}
    seconds, size = report["seconds"], report["bytes"] / 1e6
    show(as_json, report, f"{report['class']} ({method}) of {rows} rows in {seconds} s: {out}, {size:.1f} MB")


def backtest(
    data: Data,
    target: Targets = None,
    time_column: Annotated[str | None, typer.Option("--time", help="Time column.", show_default=False)] = None,
    horizon: Horizon = None,
    lookback: Lookback = None,
    series: Series = None,
    static: Static = None,
    known_future: KnownFuture = None,
    time_encoding: TimeEncoding = None,
    folds: Annotated[int, typer.Option(min=1, help="Fits, each on a longer past.")] = 3,
    by: Annotated[list[str] | None, typer.Option(help="Separate scores: series or lead-time; repeat for both.")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file to write the scores to.", show_default=False)] = None,
    time_format: TimeFormat = None,
    dayfirst: DayFirst = None,
    encoding: Encoding = None,
    method: Method = "nsac",
    seed: Seed = 0,
    steps: Steps = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Fit a forecaster on the past and score the forecasts that follow, several times, beside baselines."""
    with one_line_errors(verbose, lost="Nothing was written."):
        for option, value in (("--target", target), ("--time", time_column), ("--horizon", horizon)):
            if not value:
                raise TableError(f"A backtest needs `{option}`. Pass it.")
        assert target and time_column
        check_out(out, data)
        text = [*([time_column] if time_format else []), *([] if series is None else [series])]
        frame = read_file(data, text, encoding)
        named = [*target, time_column, *([] if series is None else [series]), *(static or ()), *(known_future or ())]
        find_columns(frame, named, data)
        settings = {"method": method, "random_state": seed, "time": time_column, "series": series}
        settings |= {"time_format": time_format, "dayfirst": dayfirst}
        settings |= forecasts.fit_options(horizon, lookback, static, known_future, time_encoding)
        if steps:
            settings["training"] = {"max_steps": steps}
        with status(f"fitting {folds} times"):
            scores = forecasts.backtest(frame, target, settings, folds, by or [])
        if out is not None:
            scores.to_csv(out, index=False)
    show(as_json, scores.to_dict("records"), scores.to_string(index=False, float_format="{:.4g}".format))


def _check_free(folder: Path, force: bool) -> None:
    if not folder.exists():
        return
    from nsac.estimators.files import is_replaceable

    if not is_replaceable(folder):
        raise TableError(f"{folder} exists and is not a model. Name another folder with `--out`.")
    if os.listdir(folder) and not force:
        raise TableError(f"{folder} exists. Pass `--force` to replace it, or name another with `--out`.")
