"""The plots of an evaluation: predictions with bands, epistemic uncertainty against error, scores by lead time."""

import numpy as np
import torch
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator
from torch import Tensor

from nsac.estimators.evaluation import Evaluation
from nsac.uncertainty import Prediction, plot
from nsac.uncertainty.style import BLUE, GREY, INK, ORANGE, PALE_BLUE

MAX_BAND_ROWS = 200
"""Rows of the band plot."""
MAX_ERROR_DOTS = 2000
"""Dots of the error plot."""
MAX_GROUPS, MIN_GROUP_ROWS = 10, 10
"""Groups of equally many rows, by their epistemic standard deviation."""


def band_rows(e: Evaluation) -> Tensor:
    """Rows of the band plot: consecutive times from the middle, or evenly spaced by predicted mean."""
    if e.place is None:
        order = e.prediction.mean.argsort()
        return order[torch.linspace(0, len(order) - 1, min(MAX_BAND_ROWS, len(order))).round().long()]
    rows = np.arange(len(e.y)) if e.shown is None else e.shown.nonzero()[:, 0].numpy()
    rows = rows[np.argsort(e.place[rows], kind="stable")]
    start = max(0, (len(rows) - MAX_BAND_ROWS) // 2)
    return torch.as_tensor(rows[start : start + MAX_BAND_ROWS])


def draw_bands(e: Evaluation, axes: Axes) -> None:
    """Mean, interval and observed values of some rows."""
    rows = band_rows(e)
    x = torch.arange(len(rows)).double()
    if e.place is not None:
        times = e.place[rows.numpy()]
        dated = np.issubdtype(times.dtype, np.datetime64)
        x = torch.as_tensor(np.asarray(dates.date2num(times) if dated else times, dtype=float))
        if dated:
            axes.xaxis_date()
            axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    plot.bands(x, e.prediction[rows], axes, e.y[rows], ylabel=e.target)
    axes.set_xlabel("rows, sorted by predicted mean" if e.place is None else "time")


def has_epistemic(e: Evaluation) -> bool:
    """Whether there is epistemic variance to plot."""
    return bool((e.prediction.epistemic.sqrt() > 1e-9 * e.prediction.std).any())


def draw_epistemic(e: Evaluation, axes: Axes) -> None:
    """Absolute error against epistemic standard deviation, row by row and in groups."""
    epistemic, error = e.prediction.epistemic.sqrt().numpy(), (e.y - e.prediction.mean).abs().numpy()
    std = e.prediction.std.numpy()
    dots = np.linspace(0, len(error) - 1, min(MAX_ERROR_DOTS, len(error))).astype(int)
    axes.plot(epistemic[dots], error[dots], ".", color=PALE_BLUE, ms=4, label="one value")
    n_groups = max(1, min(MAX_GROUPS, len(epistemic) // MIN_GROUP_ROWS))
    groups = np.array_split(np.argsort(epistemic, kind="stable"), n_groups)
    centres = [epistemic[group].mean() for group in groups]
    rmse = [np.sqrt((error[group] ** 2).mean()) for group in groups]
    axes.plot(centres, rmse, "o-", color=INK, ms=4, label="RMSE of a group")
    axes.plot(centres, [std[group].mean() for group in groups], color=ORANGE, lw=1, label="predicted std")
    low, high = np.quantile(epistemic, [0.0, 1.0])
    if low > 0 and high / low > 20:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    axes.set_ylim(0, 1.15 * np.quantile(error, 0.995) + 1e-12)
    axes.set(xlabel="epistemic standard deviation", ylabel="absolute error")
    axes.legend(loc="upper left", fontsize="small")


def draw_lead_times(e: Evaluation, left: Axes, right: Axes) -> None:
    """RMSE of model and baseline, and PI coverage of the model, by lead time."""
    assert e.step is not None
    steps = e.step.unique()
    covered = ((e.lower <= e.y) & (e.y <= e.upper)).double()
    _draw_rmse(e, e.prediction, "model", BLUE, left)
    _draw_rmse(e, e.baseline, e.baseline_name, GREY, left)
    right.plot(steps, [covered[e.step == s].mean() for s in steps], color=BLUE, lw=2)
    right.axhline(0.9, color=GREY, lw=1, ls="--")
    left.set(xlabel="lead time (steps)", ylabel="RMSE", ylim=(0, None))
    right.set(xlabel="lead time (steps)", ylabel="90 % PI coverage", ylim=(0, 1.02))
    left.legend(loc="upper left", fontsize="small")


def _draw_rmse(e: Evaluation, prediction: Prediction, name: str, colour: str, axes: Axes) -> None:
    assert e.step is not None
    steps, squares = e.step.unique(), (e.y - prediction.mean).square()
    axes.plot(steps, [squares[e.step == s].mean().sqrt() for s in steps], color=colour, lw=2, label=name)
