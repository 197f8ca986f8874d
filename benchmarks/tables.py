"""`NSACRegressor` beside its peers, all with their defaults, on 27 tables and the same splits.

    python benchmarks/tables.py --tables penguins Wage --methods nsac catboost --splits 0-2 --out results/tables

One record per table, method and split; an existing record is not computed again. Scores are in the unit of the target.
Times are CPU seconds of one thread. A fit of more than `--cpu-limit` seconds is stopped and recorded as skipped. The
packages of the peers are in the extra `peers`.
"""

import argparse
import importlib
import itertools
import json
import multiprocessing
import resource
import signal
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from peers import METHODS, expand_dates
from threadpoolctl import threadpool_limits

from nsac._io import write_atomic
from nsac.lab.datasets import load_table
from nsac.lab.datasets.tables import SUITE, split

OURS = "nsac"
SCORES = ("rmse", "nll", "crps", "coverage_90", "width_90", "cpu_seconds", "predict_cpu_seconds")
RANKED = ("crps", "rmse")


def run(name: str, method: str, number: int) -> dict[str, Any]:
    """The record of one fit."""
    fit, package, max_rows = METHODS[method]
    table, (train, test) = load_table(name), split(name, number)
    x, y = table.x if method == OURS else expand_dates(table.x), table.y
    used = train
    if max_rows is not None and len(train) > max_rows:
        used = np.random.default_rng(number).choice(train, max_rows, replace=False)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        started = time.process_time()
        predict = fit(x.iloc[used], y[used], number)
        fitted = time.process_time()
        p = predict(x.iloc[test])
        predicted = time.process_time()
    known = y[test]
    return {
        "table": name,
        "method": method,
        "split": number,
        "rows": [len(train), len(test)],
        "rows_used": len(used),
        "rmse": float(np.sqrt(np.mean((p.mean - known) ** 2))),
        "nll": p.nll(known),
        "crps": p.crps(known),
        "coverage_90": float(np.mean((p.lower <= known) & (known <= p.upper))),
        "width_90": float(np.mean(p.upper - p.lower)),
        "cpu_seconds": fitted - started,
        "predict_cpu_seconds": predicted - fitted,
        "versions": {each: version(each) for each in dict.fromkeys(["nsac", "torch", distribution(package)])},
    }


def distribution(package: str) -> str:
    return "scikit-learn" if package == "sklearn" else package


def write(path: Path, record: dict[str, Any]) -> None:
    write_atomic(path, (json.dumps(record, indent=1) + "\n").encode())


def skip(path: Path, name: str, method: str, number: int, reason: str) -> None:
    write(path, {"table": name, "method": method, "split": number, "skipped": reason})


def run_limited(path: Path, name: str, method: str, number: int, seconds: int) -> None:
    """Write the record, from a process of its own that may use this CPU time; 0: from this process, without limit.

    A process that fails prints its error and leaves no record.
    """
    if not seconds:
        return write(path, run(name, method, number))

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        write(path, run(name, method, number))

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    if process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL):
        skip(path, name, method, number, f"more than {seconds} CPU seconds")
    elif process.exitcode:
        print(f"{method} failed on {name}, split {number}; its error is above.", flush=True)


def read(folder: Path, tables: list[str], methods: list[str], splits: list[int]) -> pd.DataFrame:
    """One row per record that is not of a skipped fit."""
    paths = [folder / name / f"{method}_{number}.json" for name in tables for method in methods for number in splits]
    records = [json.loads(path.read_text()) for path in paths if path.exists()]
    records = [record for record in records if "skipped" not in record]
    return pd.DataFrame(records, columns=["table", "method", "split", *SCORES])


def summarise(records: pd.DataFrame) -> pd.DataFrame:
    """Per method: its tables, mean ranks and geometric mean ratios to the best, both first averaged within tables."""
    cells = records.groupby(["table", "split"])
    columns = {}
    for score in RANKED:
        columns[f"{score} rank"] = cells[score].rank()
        columns[f"{score} ratio"] = np.log(records[score] / cells[score].transform("min"))
    columns["coverage_90"], columns["cpu_seconds"] = records["coverage_90"], np.log(records["cpu_seconds"] + 1e-3)
    means = pd.DataFrame(columns).groupby([records["method"], records["table"]]).mean().groupby("method").mean()
    for column in ("crps ratio", "rmse ratio", "cpu_seconds"):
        means[column] = np.exp(means[column])
    means.insert(0, "tables", records.groupby("method")["table"].nunique())
    return means.sort_values("crps rank")


def common(records: pd.DataFrame) -> pd.DataFrame:
    """The records of tables and splits that all methods have."""
    count = records.groupby(["table", "split"])["method"].transform("nunique")
    return records[count == records["method"].nunique()]


def compare(records: pd.DataFrame) -> pd.DataFrame:
    """Per table: our CRPS and RMSE over those of the best peer, and which it is; means over the splits of both."""
    rows = []
    ours = records[records["method"] == OURS]
    for name, mine in ours.groupby("table", sort=False):
        theirs = records[
            (records["table"] == name) & (records["method"] != OURS) & records["split"].isin(mine["split"])
        ]
        row: dict[str, Any] = {"table": name}
        for score in RANKED:
            means = theirs.groupby("method")[score].mean()
            if len(means):
                row |= {f"{score} / best": mine[score].mean() / means.min(), f"best {score}": means.idxmin()}
        rows.append(row)
    return pd.DataFrame(rows).set_index("table") if rows else pd.DataFrame()


def print_frame(frame: pd.DataFrame, title: str) -> None:
    print(f"\n{title}\n{frame.to_string(float_format='%.3f')}", flush=True)


def draw(summary: pd.DataFrame, path: Path) -> None:
    """Mean ranks as points, one line per method."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from nsac.uncertainty.style import BLUE, GREY, INK, ORANGE, STYLE

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7, 0.42 * len(summary) + 1.5), layout="constrained")
        height = np.arange(len(summary))
        axes.hlines(height, summary["crps rank"], summary["rmse rank"], color=GREY, linewidth=1, zorder=1)
        axes.scatter(summary["crps rank"], height, color=BLUE, s=45, label="CRPS", zorder=3)
        axes.scatter(summary["rmse rank"], height, color=ORANGE, s=45, marker="D", label="RMSE", zorder=2)
        labels = [f"{name} ({tables})" for name, tables in summary["tables"].items()]
        axes.set_yticks(height, labels, color=INK)
        for label, name in zip(axes.get_yticklabels(), summary.index, strict=True):
            label.set_fontweight("bold" if name == OURS else "normal")
        axes.invert_yaxis()
        axes.set_xlabel("Mean rank, 1 is best (in brackets: number of tables)")
        axes.set_title("Ranks over tables")
        axes.legend(loc="best")
        figure.savefig(path)
        plt.close(figure)


def splits(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def compute(given: argparse.Namespace, method: str) -> None:
    """The records of a method that do not exist."""
    if not given.skip:
        try:
            importlib.import_module(METHODS[method].package)
        except ModuleNotFoundError as err:
            return print(f"{method} is left out: {err}. Install it with `pip install 'nsac[peers]'`.")
    for name, number in itertools.product(given.tables, given.splits):
        path = given.out / name / f"{method}_{number}.json"
        if path.exists():
            continue
        if given.skip:
            skip(path, name, method, number, given.skip)
            continue
        run_limited(path, name, method, number, given.cpu_limit)
        if not path.exists():
            continue
        record = json.loads(path.read_text())
        found = [f"{score} {record[score]:.4g}" for score in SCORES if score in record]
        print(f"{name} {method} {number}: {'  '.join(found) or record['skipped']}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=SUITE, default=list(SUITE), metavar="TABLE")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="METHOD")
    parser.add_argument("--splits", type=splits, default=splits("0-2"), metavar="0-2")
    parser.add_argument("--out", type=Path, default=Path("results/tables"))
    parser.add_argument("--cpu-limit", type=int, default=300, metavar="SECONDS", help="of one fit; 0: none")
    parser.add_argument("--skip", metavar="REASON", help="record fits without a record as skipped, for this reason")
    parser.add_argument("--report", action="store_true", help="print the records that exist, and compute none")
    parser.add_argument("--picture", type=Path, help="write a plot of the mean ranks")
    given = parser.parse_args(arguments)
    for method in [] if given.report else given.methods:
        compute(given, method)
    records = read(given.out, given.tables, given.methods, given.splits)
    if records.empty:
        return print("There are no records.")
    summary, shared = summarise(records), common(records)
    print_frame(summary, "All records")
    if len(shared) not in (0, len(records)):
        print_frame(summarise(shared), "Tables and splits that all methods have")
    if OURS in given.methods and not (compared := compare(records)).empty:
        print_frame(compared, f"{OURS} over the best peer")
    if given.picture:
        draw(summary, given.picture)


if __name__ == "__main__":
    main()
