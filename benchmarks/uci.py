"""`NSACRegressor` with its defaults on the standard splits of the UCI data sets: one record per split, and a table.

    python benchmarks/uci.py --data boston kin8nm --splits 0-19 --out results/uci

A split with a record is not run again. `--markdown` prints the table of the README from the records, and runs nothing.
Scores are in the unit of the data; the likelihood is that of `predict_distribution`, intervals are conformal.
"""

import argparse
import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from nsac import NSACRegressor, uncertainty
from nsac._io import write_atomic
from nsac.lab.datasets import load_uci
from nsac.lab.datasets.uci import COLUMNS

SCORES = ("rmse", "nll", "crps", "coverage_90", "width_90", "seconds")
MARKDOWN = ("rmse", "nll", "coverage_90", "cpu_seconds")


def run(data: str, split: int, **arguments: Any) -> dict[str, Any]:
    table = load_uci(data)
    train, test = table.splits[split]
    x, y = table.x[test], torch.as_tensor(table.y[test])
    started, cpu = time.perf_counter(), time.process_time()
    regressor = NSACRegressor(random_state=split, **arguments).fit(table.x[train], table.y[train])
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    p = regressor.predict_distribution(x)
    lower, upper = regressor.conformal_interval(p, 0.9, x)
    return {
        "data": data,
        "split": split,
        "arguments": arguments,
        "rows": [len(train), len(test)],
        "rmse": (p.mean - y).square().mean().sqrt().item(),
        "nll": -p.log_prob(y).mean().item(),
        "crps": float(uncertainty.crps(p, y)),
        "coverage_90": ((lower <= y) & (y <= upper)).double().mean().item(),
        "width_90": (upper - lower).mean().item(),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "chosen": regressor.chosen_,
        "scale": regressor.calibration_.scale.tolist(),
        "versions": {name: version(name) for name in ("nsac", "torch", "numpy", "scikit-learn")},
    }


def write(path: Path, record: dict[str, Any]) -> None:
    write_atomic(path, (json.dumps(record, indent=1) + "\n").encode())


def table_of(folder: Path, names: list[str]) -> Table:
    table = Table("data", "splits", *SCORES, title="Means over splits, and standard errors")
    for name in names:
        records = [json.loads(path.read_text()) for path in sorted((folder / name).glob("*.json"))]
        if records:
            values = np.array([[record[score] for score in SCORES] for record in records])
            errors = values.std(0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.full(len(SCORES), np.nan)
            cells = [f"{mean:.4g} ± {error:.2g}" for mean, error in zip(values.mean(0), errors, strict=True)]
            table.add_row(name, str(len(records)), *cells)
    return table


def markdown_of(folder: Path) -> str:
    """The table of the README: mean and standard error over splits, from the records alone."""
    rows = ["| data | splits | RMSE | NLL | 90 % PI coverage (%) | fit, CPU s |", "|---|---|---|---|---|---|"]
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(place.glob("*.json"))]
        values = {name: np.array([record[name] for record in records]) for name in records[0] if name in MARKDOWN}
        error = {name: value.std(ddof=1) / len(value) ** 0.5 for name, value in values.items()}
        mean = {name: value.mean() for name, value in values.items()}
        rmse, nll = f"{mean['rmse']:.3g} ± {error['rmse']:.1g}", f"{mean['nll']:.3f} ± {error['nll']:.2g}"
        covered, seconds = f"{100 * mean['coverage_90']:.1f}", f"{mean['cpu_seconds']:.0f}"
        rows.append(f"| {place.name} | {len(records)} | {rmse} | {nll} | {covered} | {seconds} |")
    return "\n".join(rows)


def splits(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", choices=list(COLUMNS), default=["boston"])
    parser.add_argument("--splits", type=splits, default=splits("0-19"), metavar="0-19")
    parser.add_argument("--out", type=Path, default=Path("results/uci"))
    parser.add_argument("--markdown", action="store_true", help="print the table of the README and exit")
    arguments = parser.parse_args()
    if arguments.markdown:
        print(markdown_of(arguments.out))
        return
    console = Console()
    for name in arguments.data:
        for split in arguments.splits:
            path = arguments.out / name / f"{split:02d}.json"
            if path.exists() or split >= len(load_uci(name).splits):
                continue
            record = run(name, split)
            write(path, record)
            console.print(f"{name} {split}: " + "  ".join(f"{score} {record[score]:.4g}" for score in SCORES))
    console.print(table_of(arguments.out, arguments.data))


if __name__ == "__main__":
    main()
