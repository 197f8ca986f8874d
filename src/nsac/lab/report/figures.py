"""The figures of the report by name: the paper's figures of predictions, drawn from records, and those of studies."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from typing import NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nsac.lab.grid.config import PROTOCOLS
from nsac.lab.grid.store import Record
from nsac.lab.studies import STUDIES
from nsac.lab.studies.base import StudyRecord, found
from nsac.lab.studies.figure import draw_tube
from nsac.lab.tasks.spirals import GROUPS
from nsac.uncertainty.style import BLUE, GREY, INK, ORANGE, PALE_BLUE, PALE_ORANGE, STYLE

METHODS = {"nsac": "NSAC", "gmle": "GMLE", "de": "DE", "mcd": "MCD", "der": "DER", "sdenet": "SDE-Net"}
"""Methods in the order of the paper's figures, and their titles."""
AXIS_MARGIN = 0.25  # space beyond the observed values, as a fraction of their range; wider bands are cut off
MAX_HIDDEN_FRACTION = 0.05  # if a larger fraction of the predictions lies outside a panel, the panel states it
MIN_DROP = 1e-3  # a larger decrease of the degradation marks the start of another run
MAX_DROPS = 12  # with more decreases than this, rows are not in the order of time
NORMAL_90 = 1.645  # half the width of a normal 90 % interval, in standard deviations
Bands = dict[str, np.ndarray]  # columns of a panel of `Record.bands`
FirstRecords = dict[tuple[str, str], Record]  # (task, method) to the record of the first seed


class Panel(NamedTuple):
    """What one panel shows."""

    bands: Bands
    label: str  # of the horizontal axis
    edges: Sequence[float] = ()  # positions at which another run begins


class Picture(NamedTuple):
    """A figure of the report."""

    name: str  # file name without the extension; begins with the group
    group: str
    place: str  # figure of the paper
    caption: str
    draw: Callable[[], Figure]

    def png(self) -> bytes:
        """Content of the PNG file, the same on every call."""
        out = BytesIO()
        with rc_context(STYLE):
            self.draw().savefig(out, format="png", metadata={"Software": None})
        return out.getvalue()


def spirals_figure(first: FirstRecords) -> Figure:
    """One panel per method: one test spiral in the plane, with its tube of two standard deviations."""
    with rc_context(STYLE):
        rows = -(-len(first) // 3)
        figure = Figure(figsize=(11, 3.9 * rows + 0.4), layout="constrained")
        axes = list(figure.subplots(rows, 3, sharex=True, sharey=True, squeeze=False).flat)
        for letter, axis, ((_, method), record) in zip("ABCDEF", axes, first.items(), strict=False):
            _draw_spiral(axis, record)
            axis.set(title=f"{letter}  {METHODS[method]}", aspect="equal")
            _print_score(axis, record)
        for axis in axes[len(first) :]:
            axis.remove()
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def forecasts_figure(first: FirstRecords) -> Figure:
    """One column per task, one row per method: observed values, means and intervals over time."""
    return _columns(first, lambda bands: Panel(bands, "time steps of the test split"))


def bearings_figure(first: FirstRecords) -> Figure:
    """The same over the share of life, with runs side by side."""
    return _columns(first, _over_life)


GRID_FIGURES: dict[str, tuple[str, Callable[[FirstRecords], Figure], tuple[str, ...], str]] = {
    "spiral": (
        "Figure 2",
        spirals_figure,
        ("spiral",),
        "One test spiral and the prediction of every method: observed in its first half, predicted at all times.",
    ),
    "forecasts": (
        "Figure 4",
        forecasts_figure,
        ("ettm1", "jena"),
        "Forecasts at half the horizon, over an interval of the test split; the last target where there are several.",
    ),
    "bearings": (
        "Figure 5",
        bearings_figure,
        ("xjtu", "pronostia", "hust"),
        "Degradation over the share of life, which is not an input under the sound protocol. Test runs are side by "
        "side; rows are sorted where the test split is a random choice of windows.",
    ),
}
"""Figures of the grid by group: place in the paper, function, tasks and caption; each is drawn once per protocol."""


def pictures(records: Sequence[Record], studies: Sequence[StudyRecord] = ()) -> list[Picture]:
    """All figures that have a record, in the order of the paper."""
    made = []
    for (group, (place, draw, tasks, caption)), protocol in itertools.product(GRID_FIGURES.items(), PROTOCOLS):
        if first := _first_records(records, tasks, protocol):
            text = f"{caption} {protocol.capitalize()} protocol, first seed."
            made.append(Picture(f"{group}-{protocol}", group, place, text, partial(draw, first)))
    for name, study in STUDIES.items():
        some = found(name, studies)
        if some and study.draw is not None:
            made.append(Picture(name, name, study.place, study.caption, partial(study.draw, some)))
    return sorted(made, key=lambda picture: picture.place.partition("Figure ")[2])


def picture_groups() -> list[str]:
    """Names of all groups of figures."""
    return [*GRID_FIGURES, *(name for name, study in STUDIES.items() if study.draw is not None)]


def _first_records(records: Sequence[Record], tasks: Sequence[str], protocol: str) -> FirstRecords:
    seeds_down = sorted(records, key=lambda record: -record.seed)  # the first seed replaces the others
    chosen = {(record.task, record.method): record for record in seeds_down if record.protocol == protocol}
    return {(task, method): chosen[task, method] for task in tasks for method in METHODS if (task, method) in chosen}


def _draw_spiral(axis: Axes, record: Record) -> None:
    y, mean, std = np.array([[panel[name] for panel in record.bands] for name in ("y", "mean", "std")]).swapaxes(1, 2)
    half = GROUPS["interpolation"].stop
    draw_tube(axis, mean, std, PALE_BLUE, "two standard deviations")
    axis.plot(*y.T, ".", color=INK, ms=2.5, label="observed")
    axis.plot(*mean[:half].T, color=BLUE, lw=1.6, label="prediction, interpolation")
    axis.plot(*mean[half - 1 :].T, color=ORANGE, lw=1.6, label="prediction, extrapolation")
    low, high = y.min(0), y.max(0)
    gap = AXIS_MARGIN * (high - low)
    axis.set(xlim=(low[0] - gap[0], high[0] + gap[0]), ylim=(low[1] - gap[1], high[1] + gap[1]))


def _columns(first: FirstRecords, prepare: Callable[[Bands], Panel]) -> Figure:
    tasks = list(dict.fromkeys(task for task, _ in first))
    methods = sorted({method for _, method in first}, key=list(METHODS).index)
    with rc_context(STYLE):
        size = max(4.6, 11 / len(tasks)) * len(tasks), 1.55 * len(methods) + 0.9
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(methods), len(tasks), squeeze=False, sharex="col", sharey="col")
        for (i, method), (j, task) in itertools.product(enumerate(methods), enumerate(tasks)):
            axis = axes[i, j]
            if (task, method) not in first:
                axis.text(0.5, 0.5, "no record", transform=axis.transAxes, ha="center", va="center", color=GREY)
                continue
            panel = prepare(_bands(first[task, method].bands[0]))
            _draw_panel(axis, panel)
            _print_score(axis, first[task, method])
            if i == 0:
                axis.set_title(f"{'ABCDEF'[j]}  {task}", pad=16)
            if i == len(methods) - 1:
                axis.set_xlabel(panel.label)
        for row, method in zip(axes, methods, strict=True):
            row[0].set_ylabel(METHODS[method], fontweight="bold")
        figure.align_ylabels(axes[:, 0])
        handles, labels = axes[0, 0].get_legend_handles_labels()
        kinds = dict(zip(labels, handles, strict=True))  # once, although each run has its own
        figure.legend(kinds.values(), kinds.keys(), loc="outside lower center", ncols=4)
    return figure


def _over_life(bands: Bands) -> Panel:
    """Rows over the share of life, run after run. Rows are spaced evenly over lives, so their position is the share."""
    drops = np.diff(bands["y"]) < -MIN_DROP
    if drops.sum() > MAX_DROPS:  # a random choice of rows
        order = bands["y"].argsort(kind="stable")
        sorted_bands = {name: values[order] for name, values in bands.items()}
        return Panel({**sorted_bands, "at": np.linspace(0, 1, len(order))}, "share of life")
    run = np.concatenate([[0], np.cumsum(drops)])
    at = np.concatenate([i + np.linspace(0, 1, n, endpoint=False) for i, n in enumerate(np.bincount(run))])
    edges = [float(edge) for edge in range(1, run.max() + 1)]
    return Panel({**bands, "at": at}, "share of life, run after run" if edges else "share of life", edges)


def _draw_panel(axis: Axes, panel: Panel) -> None:
    bands, edges = panel.bands, panel.edges
    ends = [*np.searchsorted(bands["at"], edges), len(bands["at"])]
    for start, stop in zip([0, *ends[:-1]], ends, strict=True):
        _draw_run(axis, {name: values[start:stop] for name, values in bands.items()})
    for edge in edges:
        axis.axvline(edge, color=GREY, lw=0.6)
    gap = AXIS_MARGIN * np.ptp(bands["y"])
    axis.set_ylim(bands["y"].min() - gap, bands["y"].max() + gap)
    axis.margins(x=0.01)
    low, high = axis.get_ylim()
    hidden = float(np.mean((bands["mean"] < low) | (bands["mean"] > high)))
    if hidden > MAX_HIDDEN_FRACTION:
        text = f"{100 * hidden:.0f} % of predictions are outside the panel"
        axis.text(0, 1.01, text, transform=axis.transAxes, va="bottom", fontsize=8, color=ORANGE)
    if edges:
        runs = range(len(edges) + 1)
        axis.set_xticks([0.5 + i for i in runs], [f"run {i + 1}" for i in runs])


def _draw_run(axis: Axes, bands: Bands) -> None:
    at, mean = bands["at"], bands["mean"]
    for half, colour, kind in (
        (bands["half_90"], PALE_BLUE, "conformal"),
        (NORMAL_90 * bands["epistemic"], PALE_ORANGE, "epistemic only"),
    ):
        axis.fill_between(at, mean - half, mean + half, color=colour, lw=0, label=f"90 % interval, {kind}")
    axis.plot(at, mean, color=BLUE, lw=1.4, label="prediction")
    axis.plot(at, bands["y"], ".", color=INK, ms=2.2, label="observed")


def _bands(panel: dict) -> Bands:
    names = ("at", "y", "mean", "std", "epistemic", "half_90")
    return {name: np.array(panel[name], dtype=float) for name in names}


def _print_score(axis: Axes, record: Record) -> None:
    crps = record.metrics.get("crps")
    if crps is not None:
        text = f"CRPS {crps:.3g}"
        axis.text(1, 1.01, text, transform=axis.transAxes, ha="right", va="bottom", fontsize=8, color=GREY)
