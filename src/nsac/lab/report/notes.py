"""Notes of the report: limits of the results, most of them found in the records."""

from collections.abc import Iterator, Sequence

from nsac.lab.grid.config import NEURAL, PAPER_TASKS, PROTOCOLS, grid, methods_of
from nsac.lab.grid.store import Record
from nsac.lab.grid.table import Row, paper_number, table_rows
from nsac.lab.report.summary import Groups, group_records

MAX_COVERAGE_ERROR = 0.02
"""A conformal coverage that differs more than this from 0.9 is noted."""

Means = dict[tuple[str, str, str, str], float | None]
"""(task, protocol, method, metric) to the mean over seeds."""

GENERAL = (
    "The paper gives attention one token per row of a table. A softmax over one key is 1 for any logit, so neither the "
    "circuit nor its noise has an effect there. Here a row becomes several tokens, for every method.",
    "Bearings, paper protocol: the clock is scaled by the length of the run it is in, so a model has the elapsed share "
    "of the test bearing's life as an input, and the label is a function of it.",
    "Forecasting tasks have one split, so their seeds differ only in initial weights and order of the data; their "
    "standard deviations contain no information about other data, and those of deterministic methods are zero.",
    "The paper's ECE compares a number of standard deviations with a probability; `ece_paper` is the reading in which "
    "a perfect prediction scores 0. The paper's own numbers may be of the other reading.",
    "Calibrated scores use a calibration split that served no other purpose; the paper does not calibrate.",
)
"""Notes that do not depend on the records."""


def notes_of(records: Sequence[Record]) -> list[str]:
    """All notes, those that follow from the records first."""
    rows, groups = table_rows(records), group_records(records)
    means: Means = {(r["task"], r["protocol"], r["method"], r["metric"]): r["mean"] for r in rows}
    return [
        *_missing_runs(records, groups),
        *_not_finite(rows),
        *_lower_crps(means, groups),
        *_coverage_errors(means, groups),
        *_strong_baselines(means),
        *GENERAL,
    ]


def _missing_runs(records: Sequence[Record], groups: Groups) -> Iterator[str]:
    seeds = sorted({record.seed for record in records})
    tasks = list(dict.fromkeys(task for task, _ in groups))
    planned = {(c.task, c.protocol, c.method, c.seed) for c in grid(tasks, seeds=seeds)}
    missing = planned - {(r.task, r.protocol, r.method, r.seed) for r in records}
    if missing:
        yield f"{len(missing)} runs of this grid have no record yet; means are over the existing records."


def _not_finite(rows: Sequence[Row]) -> Iterator[str]:
    broken = [row for row in rows if row["mean"] is None]
    if broken:
        yield f"{len(broken)} means are not finite, because the value of at least one seed is not finite."


def _lower_crps(means: Means, groups: Groups) -> Iterator[str]:
    for protocol in PROTOCOLS:
        lower = []
        for task in (task for task, kind in groups if kind == protocol):
            scores = {m: v for (t, p, m, s), v in means.items() if (t, p, s) == (task, protocol, "crps")}
            finite = {method: crps for method, crps in scores.items() if crps is not None}
            best = min(finite, key=finite.__getitem__, default="nsac")
            if "nsac" in finite and best != "nsac":
                lower.append(f"{task} ({best}: {finite[best]:.4g}, nsac: {finite['nsac']:.4g})")
        if lower:
            yield f"In CRPS, {protocol} protocol, another method has a lower mean than nsac on: {', '.join(lower)}."


def _coverage_errors(means: Means, groups: Groups) -> Iterator[str]:
    off = []
    for task, protocol in groups:
        coverage = means.get((task, protocol, "nsac", "coverage_90_calibrated"))
        if coverage is not None and abs(coverage - 0.9) > MAX_COVERAGE_ERROR:
            off.append(f"{task}, {protocol} ({coverage:.3f})")
    if off:
        yield (
            f"The coverage of conformal 90 % prediction intervals of nsac is more than "
            f"{100 * MAX_COVERAGE_ERROR:.0f} points off on: {', '.join(off)}. The guarantee requires that test rows "
            "are exchangeable with the calibration rows; another season, rig or bearing is not."
        )


def _strong_baselines(means: Means) -> Iterator[str]:
    for task in PAPER_TASKS:
        printed, _ = paper_number(task, "nsac", "mse")
        below = {}
        for method in methods_of(task):
            mse = means.get((task, "paper", method, "mse"))
            if method not in NEURAL and printed is not None and mse is not None and mse < printed:
                below[method] = mse
        if below:
            listed = ", ".join(f"{method} {below[method]:.4g}" for method in sorted(below, key=below.__getitem__))
            yield f"{task}: baselines with an MSE below the one that the paper prints for NSAC, {printed:g}: {listed}."
