"""Beyond the training range: the top quartile of a column is left out of training, and predicted.

    python benchmarks/extrapolation.py --tables energy yacht --out results/extrapolation

One record per table, column and seed; an existing record is not computed again. Of each table the two columns are left
out that correlate most with the target. A fifth of the other rows is not trained on either: these are the rows inside.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from nsac import NSACRegressor
from nsac._io import write_atomic
from nsac.lab.datasets import load_table
from nsac.lab.datasets.tables import SUITE

TABLES = ("energy", "yacht", "naval", "power-plant", "concrete", "bdims", "biomass")
LEFT_OUT, INSIDE = 0.25, 0.2  # shares of the rows: beyond the quartile, and of the others to test
MIN_SHARE = 0.1  # of the rows that are beyond the quartile: columns of few values may have none
PLACES = ("outside", "inside")
SCORES = ("auroc", *(f"{score}_{place}" for score in ("coverage", "rmse", "width") for place in PLACES))


def beyond(values: pd.Series) -> np.ndarray:
    """Rows above the upper quartile."""
    return (values > values.quantile(1 - LEFT_OUT)).to_numpy()


def columns(x: pd.DataFrame, y: np.ndarray, count: int) -> list[str]:
    """The numeric columns that correlate most with the target, among those with enough rows beyond the quartile."""
    numeric = x.select_dtypes("number")
    usable = [name for name in numeric if beyond(numeric[name]).mean() >= MIN_SHARE]
    correlation = numeric[usable].corrwith(pd.Series(y, index=x.index)).abs()
    return list(correlation.sort_values(ascending=False, kind="stable").index[:count])


def run(name: str, column: str, seed: int, **arguments: Any) -> dict[str, Any]:
    """The record of one fit."""
    table = load_table(name)
    outside = beyond(table.x[column])
    rest = np.random.default_rng(seed).permutation(np.flatnonzero(~outside))
    inside, train = np.split(rest, [round(INSIDE * len(rest))])
    cpu = time.process_time()
    regressor = NSACRegressor(random_state=seed, **arguments).fit(table.x.iloc[train], table.y[train])
    record: dict[str, Any] = {"table": name, "column": column, "seed": seed, "rows": len(train)}
    record["cpu_seconds"] = time.process_time() - cpu
    scores = []
    for place, rows in zip(PLACES, (np.flatnonzero(outside), inside), strict=True):
        x, y = table.x.iloc[rows], table.y[rows]
        p = regressor.predict_frame(x)
        scores.append(regressor.ood_score(x))
        record[f"coverage_{place}"] = float(np.mean((p["lower_90"] <= y) & (y <= p["upper_90"])))
        record[f"rmse_{place}"] = float(np.sqrt(np.mean((p["mean"] - y) ** 2)) / table.y.std())
        record[f"width_{place}"] = float(np.mean(p["upper_90"] - p["lower_90"]) / table.y.std())
    is_outside = np.repeat([1, 0], [len(each) for each in scores])
    return record | {"auroc": float(roc_auc_score(is_outside, np.concatenate(scores)))}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=SUITE, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--columns", type=int, default=2, help="of each table")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/extrapolation"))
    given = parser.parse_args(arguments)
    records = []
    for name in given.tables:
        table = load_table(name)
        for column in columns(table.x, table.y, given.columns):
            for seed in range(given.seeds):
                path = given.out / name / f"{column}_{seed}.json"
                if not path.exists():
                    record = run(name, column, seed)
                    write_atomic(path, (json.dumps(record, indent=1) + "\n").encode())
                    print(f"{name} {column} {seed}: " + "  ".join(f"{s} {record[s]:.3g}" for s in SCORES), flush=True)
                records.append(json.loads(path.read_text()))
    means = pd.DataFrame(records).groupby(["table", "column"], sort=False)[list(SCORES)].mean()
    print(f"\nErrors and widths in standard deviations of the target\n{means.to_string(float_format='%.3f')}")
    print(f"\nMean over tables\n{means.groupby('table').mean().mean().to_string(float_format='%.3f')}")


if __name__ == "__main__":
    main()
