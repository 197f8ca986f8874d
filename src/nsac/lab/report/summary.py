"""What both forms of the report share: metrics, groups of records, the sentences that describe them, and notes."""

from collections.abc import Iterable, Iterator, Sequence

from nsac.lab.grid.config import NEURAL, PAPER_TASKS, PROTOCOLS, grid, methods_of
from nsac.lab.grid.store import Record
from nsac.lab.grid.table import paper_number, place, table_rows

METRICS = {
    "mse": ("MSE", "squared error of the mean"),
    "crps": ("CRPS", "error of the whole distribution"),
    "crps_calibrated": ("CRPS, calibrated", "after the variance scale"),
    "nll": ("NLL", "negative log-likelihood of the observed value"),
    "nll_calibrated": ("NLL, calibrated", "after the variance scale"),
    "ece_paper": ("ECE", "the paper's calibration error, in our reading"),
    "calibration_error": ("calibration error", "mean distance of the reliability curve from the diagonal"),
    "coverage_90": ("90 % PI coverage", "fraction of observed values in the 90 % prediction interval; nominal: 0.9"),
    "coverage_90_calibrated": ("90 % PI coverage, conformal", "the same for split-conformal intervals"),
    "width_90": ("90 % PI width", "mean width of the 90 % prediction interval"),
    "width_90_calibrated": ("90 % PI width, conformal", "the same for split-conformal intervals"),
    "fit_seconds": ("fit, s", "CPU seconds of fitting"),
    "predict_seconds": ("predict, s", "CPU seconds of predicting the test split once"),
}
"""Columns of a task's table: heading and definition."""
PROTOCOL_TEXT = {
    "paper": "As close to the paper as its text allows: its splits, its scaling, its inputs. The description of each "
    "task states our choices where the paper is silent. The paper's numbers are listed beside ours.",
    "sound": "Standard or leakage-free splits, no information from the test split, and scores in the units in which "
    "others publish them. The paper has no numbers for it. The driving tasks have only this protocol.",
}
Groups = dict[tuple[str, str], list[Record]]  # (task, protocol) to its records, in the order of the tables
MAX_COVERAGE_ERROR = 0.02  # a conformal coverage that differs more than this from 0.9 is noted
Means = dict[tuple[str, str, str, str], float | None]  # (task, protocol, method, metric) to the mean over seeds
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


def group_records(records: Iterable[Record]) -> Groups:
    """Records by task and protocol."""
    groups: Groups = {}
    for record in sorted(records, key=lambda r: (place(r.task, r.protocol, r.method), r.seed)):
        groups.setdefault((record.task, record.protocol), []).append(record)
    return groups


def lead(records: Sequence[Record]) -> str:
    """Number of runs, tasks, methods and seeds, and computing time."""
    tasks, methods, seeds = {r.task for r in records}, {r.method for r in records}, {r.seed for r in records}
    hours = sum(r.seconds.get("total_cpu", 0.0) for r in records) / 3600
    return (
        f"{len(records)} runs: {len(tasks)} tasks, {len(methods)} methods, {len(seeds)} seeds, "
        f"{hours:.1f} hours of one core. Every number below is computed from the records, one per run."
    )


def origin(records: Sequence[Record]) -> str:
    """Dates, machines, versions and commits of the records."""
    commits = sorted({(r.commit or "unknown")[:10] + ("+" if (r.commit or "").endswith("+") else "") for r in records})
    machines = sorted({str(r.machine.get("processor", r.machine.get("architecture", "unknown"))) for r in records})
    torch = sorted({r.versions.get("torch", "unknown") for r in records})
    dates = sorted(r.made[:10] for r in records)
    few = ", ".join(commits[:4]) + (f" and {len(commits) - 4} others" if len(commits) > 4 else "")
    return (
        f"Records of {dates[0]} to {dates[-1]} on {', '.join(machines)}; torch {', '.join(torch)}; commits {few} "
        "(+: with uncommitted changes)."
    )


def notes_of(records: Sequence[Record]) -> list[str]:
    """Limits of the results: those that follow from the records first, then the general ones."""
    rows, groups = table_rows(records), group_records(records)
    means: Means = {(r["task"], r["protocol"], r["method"], r["metric"]): r["mean"] for r in rows}
    notes = []
    tasks = list(dict.fromkeys(task for task, _ in groups))
    planned = {(c.task, c.protocol, c.method, c.seed) for c in grid(tasks, seeds=sorted({r.seed for r in records}))}
    if missing := planned - {(r.task, r.protocol, r.method, r.seed) for r in records}:
        notes.append(f"{len(missing)} runs of this grid have no record yet; means are over the existing records.")
    if broken := sum(row["mean"] is None for row in rows):
        notes.append(f"{broken} means are not finite, because the value of at least one seed is not finite.")
    return [*notes, *_lower_crps(means, groups), *_coverage_errors(means, groups), *_strong_baselines(means), *GENERAL]


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
