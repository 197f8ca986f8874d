"""Uncertainty as the training data grows: epistemic uncertainty shrinks, aleatoric uncertainty does not."""

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from nsac.lab.shifts.run import CONFIGS
from nsac.lab.tasks.base import load_task
from nsac.methods import NSACMethod, fit
from nsac.training import Subset
from nsac.uncertainty import rmse
from nsac.uncertainty.style import BLUE, INK, ORANGE, STYLE

SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of the training rows."""

TASKS = ("kin8nm", "concrete", "power-plant")


@dataclass(frozen=True)
class GrowthRun:
    """Test results of a model of a share of the training rows, in standard deviations of the target.

    `epistemic` and `aleatoric` are roots of mean variances, `error` is the root mean square error.
    """

    task: str
    share: float
    seed: int
    epistemic: float
    aleatoric: float
    error: float


def run_growth(task_name: str, share: float, seed: int = 0) -> GrowthRun:
    """Train on the first rows of a task's shuffled training split; a pure function of its arguments."""
    task = load_task(task_name, "sound", seed)
    method = NSACMethod(task.problem, seed)
    rows = np.arange(round(share * len(task.train)))
    fit(method, Subset(task.train, rows), task.validation, CONFIGS["table"], seed=seed)
    test = task.test.batch(torch.arange(len(task.test)))
    p = method.predict(test)
    stds = {kind: getattr(p, kind).mean().sqrt().item() for kind in ("epistemic", "aleatoric")}
    return GrowthRun(task_name, share, seed, **stds, error=rmse(p, test["y"]))


def growth_figure(runs: list[GrowthRun]) -> Figure:
    """One panel per task: error, aleatoric and epistemic standard deviation over the share of the training rows."""
    names = list(dict.fromkeys(run.task for run in runs))
    kinds = {
        "error": ("root mean square error", INK),
        "aleatoric": ("aleatoric standard deviation", ORANGE),
        "epistemic": ("epistemic standard deviation", BLUE),
    }
    with rc_context(STYLE):
        figure = Figure(figsize=(4 * len(names), 3.6), layout="constrained")
        for axes, name in zip(np.ravel(figure.subplots(1, len(names))), names, strict=True):
            for kind, (label, colour) in kinds.items():
                values = [[getattr(r, kind) for r in runs if (r.task, r.share) == (name, share)] for share in SHARES]
                axes.plot(SHARES, [float(np.mean(v)) for v in values], "o-", color=colour, label=label)
            axes.set(xscale="log", yscale="log", xlabel="share of the training rows", title=name)
            axes.set_xticks(SHARES, ["1/8", "1/4", "1/2", "all"])
            axes.minorticks_off()
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
