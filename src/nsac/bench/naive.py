"""How well methods do that hardly look: the numbers everything else has to beat."""

from nsac.bench.task import load_task, tasks_of
from nsac.methods import METHODS
from nsac.training import fit


def naive_numbers(source: str, seed: int = 0) -> list[dict]:
    """Test scores of the naive methods on every task made of a data set."""
    rows = []
    for name, protocol in tasks_of(source):
        task = load_task(name, protocol, seed)  # pyright: ignore[reportArgumentType]
        for method in task.naive:
            fitted = METHODS[method](task.problem)  # pyright: ignore[reportCallIssue]
            fit(fitted, task.train, task.validation)
            about = {"task": name, "protocol": protocol, "method": method, "unit": task.unit, "text": task.text}
            rows.append({**about, **task.score_method(fitted)})
    return rows
