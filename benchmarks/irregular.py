"""The tables of irregular series in docs/evidence.md, from the records.

    nsac bench run physionet-next physionet-point glucose brusselator spiral-events --out results/irregular
    python benchmarks/irregular.py --out results/irregular

A cell is the mean over the seeds of a method; their number is in brackets where it is not five. Every seed has its own
split, so cells with different numbers of seeds are not comparable: a second table has the methods with fewer seeds, and
in brackets `nsac` on the same seeds.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

METHODS = ("nsac", "gmle", "mcd", "der", "sdenet", "de", "trees", "persistence", "half-mean", "extrapolation", "mean")
OURS, SEEDS = METHODS[0], 5


class Line(NamedTuple):
    """A row of the table."""

    task: str
    metric: str
    text: str
    digits: int
    factor: float = 1.0


LINES = (
    Line("physionet-next", "crps", "intensive care, next three hours: CRPS", 4),
    Line("physionet-next", "nll", "NLL", 3),
    Line("physionet-next", "nll_varying", "NLL of channels that vary", 3),
    Line("physionet-next", "mse", "MSE", 3),
    Line("physionet-next", "coverage_90_calibrated", "coverage of 90 % intervals", 3),
    Line("physionet-next", "coverage_90_worst", "in the worst channel with 1,000 values", 3),
    Line("physionet-point", "mse_channels_ratio", "intensive care, 24 hours: MSE over that of the last value", 3),
    Line("physionet-point", "mse_channels", "MSE x 1000", 2, 1000),
    Line("physionet-point", "mae_channels", "MAE x 100", 2, 100),
    Line("physionet-point", "coverage_90_calibrated", "coverage of 90 % intervals", 3),
    Line("physionet-point", "coverage_90_worst", "in the worst channel with 1,000 values", 3),
    Line("glucose", "crps", "glucose of a new person, mg/dL: CRPS", 2),
    Line("glucose", "30min_crps", "CRPS at 30 minutes", 2),
    Line("glucose", "60min_crps", "CRPS at 60 minutes", 2),
    Line("glucose", "coverage_90_calibrated", "coverage of 90 % intervals", 3),
    Line("brusselator", "crps", "Brusselator: CRPS", 3),
    Line("brusselator", "coverage_90_calibrated", "coverage of 90 % intervals", 3),
    Line("spiral-events", "mse", "spirals as events: MSE x 1000", 2, 1000),
)


Found = Mapping[tuple[str, str], Mapping[int, Mapping[str, float]]]
"""Metrics by task and method, and by seed."""


def markdown_of(folder: Path) -> str:
    """The table of all seeds, from the records in this folder."""
    return _table(_read(folder), LINES, SEEDS)


def paired_markdown_of(folder: Path) -> str:
    """The table of methods that have fewer than five seeds, and of `nsac` on the same seeds."""
    found = _read(folder)
    fewer = {key: seeds for key, seeds in found.items() if 0 < len(seeds) < SEEDS and key[1] != OURS}
    shown = [method for method in METHODS if any(method == other for _, other in fewer)]
    rows = [["", *shown], ["---"] * (len(shown) + 1)]
    for line in LINES:
        cells = []
        for method in shown:
            seeds = fewer.get((line.task, method), {})
            ours = {seed: found[line.task, OURS][seed] for seed in seeds}
            pair = [_mean(line, each.values()) for each in (seeds, ours)]
            cells.append(f"{pair[0]} ({pair[1]})" if seeds else "")
        if any(cells):
            rows.append([line.text, *cells])
    return _lines(rows)


def _read(folder: Path) -> Found:
    found: dict[tuple[str, str], dict[int, dict[str, float]]] = defaultdict(dict)
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        found[record["task"], record["method"]][record["seed"]] = record["metrics"]
    return found


def _table(found: Found, lines: Sequence[Line], seeds: int) -> str:
    tasks = {line.task for line in lines}
    shown = [method for method in METHODS if any(method == other and task in tasks for task, other in found)]
    rows = [["", *shown], ["---"] * (len(shown) + 1)]
    rows += [[line.text, *(_cell(found, line, method, seeds) for method in shown)] for line in lines]
    return _lines(rows)


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(found: Found, line: Line, method: str, seeds: int) -> str:
    metrics = found.get((line.task, method), {}).values()
    if not any(line.metric in each for each in metrics):
        return ""
    return _mean(line, metrics) + ("" if len(metrics) == seeds else f" ({len(metrics)})")


def _mean(line: Line, metrics: Iterable[Mapping[str, float]]) -> str:
    return f"{line.factor * mean(each[line.metric] for each in metrics):.{line.digits}f}" if metrics else ""


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/irregular"), help="folder of the records")
    folder = parser.parse_args().out
    print(markdown_of(folder), paired_markdown_of(folder), sep="\n", end="")


if __name__ == "__main__":
    main()
