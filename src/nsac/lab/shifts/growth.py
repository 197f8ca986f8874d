"""Epistemic uncertainty as the training data grows: what more data can take away shrinks, what it cannot stays."""

from dataclasses import dataclass

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from nsac.lab.shifts.run import CONFIGS
from nsac.lab.tasks.base import load_task
from nsac.methods import NSACMethod, fit
from nsac.training import TensorData
from nsac.uncertainty import rmse
from nsac.uncertainty.style import BLUE, INK, ORANGE, STYLE

SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
TASKS = ("kin8nm", "concrete", "power-plant")


@dataclass(frozen=True)
class Grown:
    """A model of a share of the training rows, on the test part; deviations in units of the target's."""

    task: str
    share: float
    seed: int
    epistemic: float
    aleatoric: float
    error: float


def run_growth(task_name: str, share: float, seed: int = 0) -> Grown:
    """Train on the first rows of a task's (shuffled) training part; a pure function of its arguments."""
    task = load_task(task_name, "sound", seed)
    method = NSACMethod(task.problem, seed)
    train, test = (part.columns for part in (task.train, task.test))  # pyright: ignore[reportAttributeAccessIssue]
    some = round(share * len(task.train))
    less = TensorData(**{name: column[:some] for name, column in train.items()})
    fit(method, less, task.validation, CONFIGS["table"], seed=seed)
    p = method.predict(test)
    spread = {kind: getattr(p, kind).mean().sqrt().item() for kind in ("epistemic", "aleatoric")}
    return Grown(task_name, share, seed, **spread, error=rmse(p, test["y"]))


def growth_figure(runs: list[Grown]) -> Figure:
    """One panel per task: error, aleatoric and epistemic deviation over the share of the training rows."""
    names = list(dict.fromkeys(run.task for run in runs))
    with rc_context(STYLE):
        figure = Figure(figsize=(4 * len(names), 3.6), layout="constrained")
        for axes, name in zip(np.ravel(figure.subplots(1, len(names))), names, strict=True):
            for kind, colour in (("error", INK), ("aleatoric", ORANGE), ("epistemic", BLUE)):
                values = [[getattr(r, kind) for r in runs if (r.task, r.share) == (name, share)] for share in SHARES]
                means = [float(np.mean(v)) for v in values]
                label = {"error": "root mean square error"}.get(kind, f"{kind} deviation")
                axes.plot(SHARES, means, "o-", color=colour, label=label)
            axes.set(xscale="log", yscale="log", xlabel="share of the training rows", title=name)
            axes.set_xticks(SHARES, ["1/8", "1/4", "1/2", "all"])
            axes.minorticks_off()
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
