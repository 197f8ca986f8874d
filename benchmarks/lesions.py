"""Which cells matter: lesion studies of two tasks, as tables in Markdown, and models without the cells that do not.

    python benchmarks/lesions.py concrete glucose

`concrete`: a fifth of the rows is for the study, the others are trained on. `glucose`: forecasts in continuous time for
about an hour, trained on four people and studied on the fifth. Models are pruned on one half of the rows of the study
and scored on the other half.
"""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nsac import NSACForecaster, NSACRegressor
from nsac.estimators.event_forecasts import EventForecasts
from nsac.explain import lesions, prune
from nsac.explain.events import observed_rows
from nsac.explain.lesions import LAYERS, neurons
from nsac.lab.datasets import load_glucose, load_uci

SHOWN = 8  # neurons in a table
MAX_ORIGINS = 300  # of forecasts that are scored
GLUCOSE_STEPS = 400  # of training
COLUMNS = ("error", "aleatoric", "epistemic", "network_error")


class Study(NamedTuple):
    """A fitted model and two halves of rows that it has not seen; targets of a series are in its rows."""

    model: Any
    one: tuple[Any, Any]
    other: tuple[Any, Any]
    score: Callable[[Any, Any, Any], float]  # model, rows and targets -> root mean squared error


def concrete(seed: int) -> Study:
    """Compressive strength, from eight ingredients."""
    table = load_uci("concrete")
    order = np.random.default_rng(seed).permutation(len(table.x))
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    model = NSACRegressor(effort="fast", random_state=seed).fit(table.x[train], table.y[train])
    one, other = np.array_split(test, 2)

    def score(model: Any, x: Any, y: Any) -> float:
        return float(np.sqrt(np.square(model.predict(x) - y).mean()))

    return Study(model, (table.x[one], table.y[one]), (table.x[other], table.y[other]), score)


def glucose(seed: int) -> Study:
    """Blood glucose of a person who is not in training, an hour ahead."""
    table = load_glucose()
    frame = pd.DataFrame({"person": table.series, "t": table.times, "glucose": table.value})
    people = sorted(frame["person"].unique())
    new = frame[frame["person"] == people[-1]]
    settings: dict[str, Any] = {"encoding": "events", "members": 2, "random_state": seed}
    model = NSACForecaster(
        12, 48, target="glucose", time="t", series="person", training={"max_steps": GLUCOSE_STEPS}, **settings
    )  # fmt: skip
    model.fit(frame[frame["person"] != people[-1]])

    def score(model: Any, rows: Any, _: Any) -> float:
        found = EventForecasts(model).answers(observed_rows(model, rows, MAX_ORIGINS))
        return float((found.offset + found.scale * found.prediction.mean - found.y).square().nanmean().sqrt())

    half = len(new) // 2
    return Study(model, (new[:half], None), (new[half:], None), score)


def report(name: str, study: Study) -> list[str]:
    """A table in Markdown, and what pruning does."""
    found = lesions(study.model, *study.one)
    lines = [f"**{name}**", "", f"| network | layer | neuron | {' | '.join(COLUMNS)} |", "|---" * 7 + "|"]
    for line in found.head(SHOWN).to_dict("records"):
        numbers = " | ".join(f"{100 * line[column]:+.1f}" for column in COLUMNS)
        lines.append(f"| {line['member'] + 1} | {line['layer']} | {line['neuron'] + 1} | {numbers} |")
    pruned, silenced = prune(study.model, *study.one)
    before, after = (study.score(each, *study.other) for each in (study.model, pruned))
    total = len(neurons(study.model, LAYERS[3:]))
    matter = int((found["network_error"] > 0.01).sum())
    lines += ["", f"{matter} of {len(found)} neurons raise the error of their network by more than 1 %. Without"]
    lines[-1] += f" {len(silenced)} of {total} neurons of the circuits, the RMSE on other rows is {after:.4g}; before"
    lines[-1] += f" it was {before:.4g}."
    return lines


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", choices=("concrete", "glucose"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    tasks = {"concrete": concrete, "glucose": glucose}
    for name in args.tasks:
        print("\n".join(report(name, tasks[name](args.seed))), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
