"""The tables of irregular series in docs/evidence.md, from the records.

    nsac bench run physionet-next physionet-point glucose brusselator spiral-events --out results/irregular
    python benchmarks/irregular.py --out results/irregular

A cell is the mean over the seeds of a method; their number is in brackets where it is not five. Every seed has its own
split, so cells with different numbers of seeds are not comparable: a second table has differences from `nsac` on the
same seeds.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

METHODS = ("nsac", "gmle", "mcd", "der", "sdenet", "de", "trees", "persistence", "half-mean", "extrapolation", "mean")
OURS, RIVALS, SEEDS = METHODS[0], METHODS[1:7], 5


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
    Line("glucose", "nll", "NLL", 3),
    Line("glucose", "30min_crps", "CRPS at 30 minutes", 2),
    Line("glucose", "60min_crps", "CRPS at 60 minutes", 2),
    Line("glucose", "coverage_90_calibrated", "coverage of 90 % intervals", 3),
    Line("brusselator", "crps", "Brusselator: CRPS", 3),
    Line("brusselator", "nll", "NLL", 3),
    Line("brusselator", "coverage_90_calibrated", "coverage of 90 % intervals", 3),
    Line("spiral-events", "mse", "spirals as events: MSE x 1000", 2, 1000),
)


Found = Mapping[tuple[str, str], Mapping[int, Mapping[str, float]]]
"""Metrics by task and method, and by seed."""


def markdown_of(folder: Path) -> str:
    """The table of all seeds, from the records in this folder."""
    return _table(_read(folder), LINES, SEEDS)


def differences_markdown_of(folder: Path) -> str:
    """Scores less those of `nsac` on the same seeds: mean and standard error of the mean; above 0, `nsac` is ahead."""
    found = _read(folder)
    rows = [["", *RIVALS], ["---"] * (len(RIVALS) + 1)]
    for line in LINES:
        if not line.metric.startswith("coverage"):
            rows.append([line.text, *(_difference(found, line, method) for method in RIVALS)])
    return _lines([row for row in rows if any(row[1:])])


def _difference(found: Found, line: Line, method: str) -> str:
    ours, theirs = (found.get((line.task, each), {}) for each in (OURS, method))
    both = [line.factor * (theirs[i][line.metric] - ours[i][line.metric]) for i in theirs if i in ours]
    if not both:
        return ""
    text = f"{mean(both):+.{line.digits}f}"
    if len(both) > 1:
        text += f" ± {stdev(both) / len(both) ** 0.5:.{line.digits}f}"
    return text if len(both) == SEEDS else f"{text} ({len(both)})"


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
    values = [each[line.metric] for each in found.get((line.task, method), {}).values() if line.metric in each]
    if not values:
        return ""
    return f"{line.factor * mean(values):.{line.digits}f}" + ("" if len(values) == seeds else f" ({len(values)})")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/irregular"), help="folder of the records")
    folder = parser.parse_args().out
    print(markdown_of(folder), differences_markdown_of(folder), sep="\n", end="")


if __name__ == "__main__":
    main()
