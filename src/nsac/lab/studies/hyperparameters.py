"""Study of the sensitivity to single hyperparameters: the paper's Figure 8, on irregular spirals."""

from dataclasses import replace
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator

from nsac.lab.grid.sheet import Sheet, spread
from nsac.lab.grid.table import paper_table
from nsac.lab.studies.base import Found, Outcome, Study
from nsac.lab.studies.cost import SIZES
from nsac.lab.tasks.base import load_task
from nsac.lab.tasks.spirals import GROUPS
from nsac.layers import NSACLoss
from nsac.methods import NSACMethod, fit
from nsac.models import NetworkConfig
from nsac.training import TrainConfig
from nsac.uncertainty.style import BLUE, GREY, INK, ORANGE, STYLE

SCORES = ("mse", "mae", "crps", "nll", "coverage_90")
"""Scores that a record keeps, of all queries and of each half."""

JUDGED_BY_MSE = ("num_heads", "sparsity", "topk")
"""The other hyperparameters are judged by CRPS, as in the paper."""


def run(config: dict[str, Any]) -> Outcome:
    """Train, select the weights on the validation split, score the test split."""
    task = load_task("spiral", config["protocol"], config["seed"])
    sizes = NetworkConfig(**{name: config[name] for name in SIZES})
    method = NSACMethod(replace(task.problem, network=sizes), config["seed"], objective="paper")
    draws = max(2, config["draws"])  # one draw has no variance for the regulariser
    method.objective = NSACLoss(config["reg_weight"], draws, config["ood_mean"], config["ood_std"])
    steps, optimiser = config["steps"], {name: config[name] for name in ("batch_size", "learning_rate", "ema")}
    every = max(1, steps // 4)
    training = TrainConfig(max_steps=steps, schedule="one-cycle", validate_every=every, accelerator="cpu", **optimiser)
    fit(method, task.train, task.validation, training, seed=config["seed"])
    scores = task.score(lambda batch: method.predict(batch, config["draws"]))
    names = [*SCORES, *(f"{half}_{name}" for half in GROUPS for name in SCORES)]
    return Outcome({name: scores[name] for name in names})


def sheets(found: Found) -> list[Sheet]:
    """The best value of each hyperparameter beside the paper's, and one row per value with its errors and CRPS."""
    rows, best = [], []
    scores = [f"{half}_{score}" for half in GROUPS for score in ("mse", "mae")] + ["crps"]
    for (title, name), points in _sweeps(found).items():
        finite, metric = {}, next(iter(_judged_by(name)))
        for value, records in points.items():
            means = {score: spread(record.metrics[score] for record in records) for score in scores}
            rows.append((title, value, len(records), *means.values()))
            if means[metric].mean is not None:
                finite[value] = means[metric].mean
        if finite:
            lowest = min(finite, key=finite.__getitem__)
            best.append((title, metric.replace("_", " "), lowest, paper_table("figure_8")[name]))
    head = ("parameter", "value", "n", "MSE, interp.", "MAE, interp.", "MSE, extrap.", "MAE, extrap.", "CRPS")
    return [
        Sheet("Best values", ("parameter", "metric", "best, ours", "best, paper"), best, _BEST_NOTE),
        Sheet("Scores by value", head, rows, _NOTE),
    ]


_BEST_NOTE = (
    "The value with the lowest mean, and the one that the paper names. For draws the paper names the number beyond "
    "which more draws bring no improvement. With two seeds and few steps, differences between neighbouring values are "
    "hardly larger than the variation over seeds, which the figure shows."
)
_NOTE = (
    "Spirals of the sound protocol, the paper's objective, d_model 64. Training is short, so errors are larger than in "
    "the main table; only their comparison is of interest. The number of draws varies in training and in prediction; "
    "training needs at least two, so the value 1 is trained with 2."
)


@rc_context(STYLE)
def draw(found: Found) -> Figure:
    """One panel per hyperparameter: seeds are dots, their mean is a line."""
    sweeps = _sweeps(found)
    rows = -(-len(sweeps) // 3)
    figure = Figure(figsize=(11.5, 3.4 * rows), layout=ConstrainedLayoutEngine(hspace=0.08))
    panels = figure.subplots(rows, 3, squeeze=False).flat
    handles: dict[str, Any] = {}
    for letter, axis, ((title, name), points) in zip("ABCDEFGH", panels, sweeps.items(), strict=False):
        for metric, colour in _judged_by(name).items():
            means: list = [spread(record.metrics[metric] for record in records).mean for records in points.values()]
            label = metric.removesuffix("_mse").replace("crps", "both halves")
            axis.plot(list(points), means, "-", color=colour, label=label)
            for value, records in points.items():
                scores = [record.metrics[metric] for record in records]
                axis.plot([value] * len(scores), scores, "o", color=colour, ms=3.5, alpha=0.6)
        axis.axvline(paper_table("figure_8")[name], color=GREY, lw=1, ls=":", label="named by the paper")
        axis.set(title=f"{letter}  {title}", ylabel="MSE" if name in JUDGED_BY_MSE else "CRPS")
        _scale(axis, name, list(points))
        handles |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    for axis in panels:
        axis.remove()
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))
    return figure


def _sweeps(found: Found) -> dict[tuple[str, str], dict[Any, list]]:
    """Title and hyperparameter of each sweep to the records of each value."""
    sweeps: dict[tuple[str, str], dict[Any, list]] = {}
    for setting, record in found:
        for name, value in setting.point.items():
            sweeps.setdefault((setting.sweep, name), {}).setdefault(value, []).append(record)
    return {sweep: dict(sorted(points.items())) for sweep, points in sweeps.items()}


def _judged_by(name: str) -> dict[str, str]:
    """Metrics and their colours."""
    return {"interpolation_mse": BLUE, "extrapolation_mse": ORANGE} if name in JUDGED_BY_MSE else {"crps": INK}


def _scale(axis: Axes, name: str, values: list) -> None:
    if name in JUDGED_BY_MSE:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
    else:
        axis.set_ylim(bottom=0)
    if name in ("num_heads", "topk"):
        axis.set_xscale("log", base=2)
    axis.set_xticks(values, [f"{value:g}" for value in values])
    axis.minorticks_off()


_CAPTION = (
    "Errors after short training over one hyperparameter at a time; dots are seeds, lines are their means. Top-K "
    "selects among the 50 observations of a spiral; the next figure shows its cost on long sequences."
)
STUDY = Study("hyperparameters", "Sensitivity to single hyperparameters", "Figure 8", _CAPTION, run, sheets, draw)
