"""Scores of the baselines: the numbers that every other method has to beat."""

from typing import Any

from nsac.lab.datasets.store import present
from nsac.lab.tasks.base import load_task, sources_of, tasks_of
from nsac.methods import METHODS, fit


def baseline_scores(source: str, seed: int = 0) -> list[dict[str, Any]]:
    """Test scores of the baselines on every task that uses a data source, except the tasks in `lacking`."""
    rows = []
    skipped = lacking(source)
    for name, protocol in tasks_of(source):
        if (name, protocol) in skipped:
            continue
        task = load_task(name, protocol, seed)  # pyright: ignore[reportArgumentType]
        for method in task.baselines:
            fitted = METHODS[method](task.problem)  # pyright: ignore[reportCallIssue]
            fit(fitted, task.train, task.validation)
            about = {"task": name, "protocol": protocol, "method": method, "unit": task.unit, "text": task.text}
            rows.append({**about, **task.score_method(fitted)})
    return rows


def lacking(source: str) -> dict[tuple[str, str], list[str]]:
    """Tasks that use a data source together with sources whose files are not present, and the names of those."""
    lacking = {}
    for name, protocol in tasks_of(source):
        absent = [other for other in sources_of(name) if other != source and not present(other)]
        if absent:
            lacking[name, protocol] = absent
    return lacking
