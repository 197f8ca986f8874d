"""How well methods do that hardly look: the numbers everything else has to beat."""

from nsac.lab.datasets.store import present
from nsac.lab.tasks.base import load_task, sources_of, tasks_of
from nsac.methods import METHODS, fit


def naive_numbers(source: str, seed: int = 0) -> list[dict]:
    """Test scores of the naive methods on every task made of a data set, but for those in `lacking`."""
    rows = []
    for name, protocol in tasks_of(source):
        if (name, protocol) in lacking(source):
            continue
        task = load_task(name, protocol, seed)  # pyright: ignore[reportArgumentType]
        for method in task.naive:
            fitted = METHODS[method](task.problem)  # pyright: ignore[reportCallIssue]
            fit(fitted, task.train, task.validation)
            about = {"task": name, "protocol": protocol, "method": method, "unit": task.unit, "text": task.text}
            rows.append({**about, **task.score_method(fitted)})
    return rows


def lacking(source: str) -> dict[tuple[str, str], list[str]]:
    """Tasks made of a data set and of others which are not here, with the names of those."""
    others = {key: [name for name in sources_of(key[0]) if name != source] for key in tasks_of(source)}
    absent = {key: [name for name in names if not present(name)] for key, names in others.items()}
    return {key: names for key, names in absent.items() if names}
