"""Tables of records: means over seeds, the paper's numbers beside them, and which differences are significant."""

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from nsac.lab.grid.config import NEURAL, PROTOCOLS, config_names, methods_of, protocols_of, run_config
from nsac.lab.grid.sheet import spread
from nsac.lab.grid.store import Record, Store

SIGNIFICANCE_LEVEL = 0.05  # a difference with a smaller p-value is significant
TABLE_METRICS = ("mse", "nll", "crps", "ece_paper", "calibration_error", "coverage_90", "coverage_90_calibrated")
"""Default metrics of the printed table."""
Row = dict[str, Any]


def current_records(store: Store) -> tuple[list[Record], list[str]]:
    """Records of the current configurations, and the names of stale ones (their configuration has changed)."""
    names, stale = store.names(), []
    for name in names:
        task, protocol, method, seed = [*name.split("_"), "", "", "", ""][:4]
        try:
            if run_config(task, protocol, method, int(seed)).name == name:
                continue
        except ValueError:
            pass  # a task or row that no longer exists
        stale.append(name)
    return store.records(sorted(set(names) - set(stale))), stale


def table_rows(records: Iterable[Record]) -> list[Row]:
    """One row per task, protocol, method and metric: mean and std over seeds, number of seeds, and the paper's mean.

    `std` is None for one seed; `mean` is None if a seed's value is not finite. `paper` is None where the paper has no
    such number; its numbers belong to its own protocol, if a task has that. `metric` is one of the record's metrics, or
    a cost of the run: `fit_seconds` and `predict_seconds` (CPU), `peak_memory` (MB), `parameters`.
    """
    collected: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        collected[record.task, record.protocol, record.method].append(record)
    rows = []
    for (task, protocol, method), some in sorted(collected.items(), key=lambda item: place(*item[0])):
        for metric in dict.fromkeys(name for record in some for name in numbers(record)):
            values = [numbers(record).get(metric) for record in some]
            mean, std = spread(values)
            theirs = paper_number(task, method, metric) if protocol == protocols_of(task)[0] else (None, None)
            row = {"task": task, "protocol": protocol, "method": method, "metric": metric, "mean": mean, "std": std}
            rows.append({**row, "n": len(values), "paper": theirs[0], "paper_std": theirs[1]})
    return rows


def numbers(record: Record) -> dict[str, float | None]:
    """Metrics of a record, and the costs of its run."""
    cost = {"fit_seconds": record.seconds.get("fit_cpu"), "predict_seconds": record.seconds.get("predict_cpu")}
    return {**record.metrics, **cost, "peak_memory": record.peak_memory, "parameters": float(record.parameters)}


def against_best(records: Sequence[Record], metric: str) -> dict[str, float | None]:
    """The best method in a metric, with p-value None, and p-values of the others against it; of one task and protocol.

    The test is a paired t-test over the common seeds. Coverage is best near 0.9, other metrics where they are low, and
    width alone has no best value. Methods with fewer than two common seeds or a value that is not finite are left out.
    """
    from scipy.stats import ttest_rel

    if metric.removesuffix("_calibrated").removesuffix("_scaled").endswith("width_90"):
        return {}
    values: dict[str, dict[int, float]] = defaultdict(dict)
    for record in records:
        value = numbers(record).get(metric)
        if value is not None and "coverage_90" in metric:
            value = abs(value - 0.9)
        values[record.method][record.seed] = math.nan if value is None else value
    means = {method: float(np.mean(list(v.values()))) for method, v in values.items()}
    means = {method: mean for method, mean in means.items() if not math.isnan(mean)}
    if len(means) < 2:
        return {}
    best = min(means, key=means.__getitem__)
    p_values: dict[str, float | None] = {best: None}
    for method in means:
        seeds = sorted(values[method].keys() & values[best].keys())
        if method == best or len(seeds) < 2:
            continue
        ours = np.array([values[method][seed] for seed in seeds])
        theirs = np.array([values[best][seed] for seed in seeds])
        difference = ours - theirs
        if np.ptp(difference) <= 1e-12 * np.abs(difference).max():  # equal differences have no variance to test with
            p_values[method] = 1.0 if np.allclose(ours, theirs, rtol=0, atol=0) else 0.0
        else:
            p_values[method] = float(ttest_rel(ours, theirs).pvalue)  # pyright: ignore[reportAttributeAccessIssue]
    return p_values


def paper_number(task: str, method: str, metric: str) -> tuple[float | None, float | None]:
    """Mean and standard deviation as the paper prints them; None where it prints none."""
    for table in _paper().values():
        found = table.get(task, {}).get(method, {}).get(metric)
        if found is not None:
            return tuple(found) if isinstance(found, list) else (found, None)  # pyright: ignore[reportReturnType]
    return None, None


def paper_table(name: str) -> dict[str, Any]:
    """A table of `paper.toml`: `table_2`, `figure_8`, ..."""
    return _paper()[name]


@cache
def _paper() -> dict[str, Any]:
    return tomllib.loads((files("nsac.lab.grid") / "paper.toml").read_text(encoding="utf-8"))


def place(task: str, protocol: str, method: str) -> tuple[tuple[int, str], ...]:
    """Sort key of table rows: the paper's tasks first, its methods first."""
    rows = (*NEURAL, *(methods_of(task) if task in config_names() else ()))
    order = [(config_names(), task), (PROTOCOLS, protocol), (rows, method)]
    return tuple((known.index(name) if name in known else len(known), name) for known, name in order)
