"""What both forms of the report share: metrics, protocols, groups of records, and the sentences that describe them."""

from collections.abc import Iterable, Sequence

from nsac.lab.grid.store import Record
from nsac.lab.grid.table import Row, place

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

Groups = dict[tuple[str, str], list[Record]]
"""(task, protocol) to its records, in the order of the tables."""


def group_records(records: Iterable[Record]) -> Groups:
    """Records by task and protocol."""
    groups: Groups = {}
    for record in sorted(records, key=lambda r: (place(r.task, r.protocol, r.method), r.seed)):
        groups.setdefault((record.task, record.protocol), []).append(record)
    return groups


def cells_of(rows: Iterable[Row], protocol: str, metric: str) -> dict[tuple[str, str], Row]:
    """(method, task) to its row, for one protocol and metric."""
    return {(r["method"], r["task"]): r for r in rows if (r["protocol"], r["metric"]) == (protocol, metric)}


def order_methods(cells: Iterable[tuple[str, str]], protocol: str) -> list[str]:
    """Methods of some (method, task) cells in the order of the tables: the paper's first."""
    ranks = sorted(place(task, protocol, method)[2] for method, task in cells)
    return list(dict.fromkeys(method for _, method in ranks))


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
