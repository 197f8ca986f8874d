"""The paper's figures, drawn from records: those of the grid here, those of studies by the studies."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO

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
"""In the order of the paper's figures."""

WIDE = 0.25
"""How far beyond the values that came a panel reaches, as a share of their range; wider bands are cut."""

TOLD = 0.05
"""A larger share of predictions outside of a panel is said."""

DROP, STEADY = 1e-3, 12
"""A drop of degradation by so much begins another run; with more drops than this, rows are not in order of time."""

Bands = dict[str, np.ndarray]


@dataclass(frozen=True)
class Picture:
    """A figure of the report."""

    name: str
    """of its file; begins with its group"""
    group: str
    place: str
    """in the paper"""
    caption: str
    draw: Callable[[], Figure]

    def png(self) -> bytes:
        """The file's content, the same on every call."""
        out = BytesIO()
        with rc_context(STYLE):
            self.draw().savefig(out, format="png", metadata={"Software": None})
        return out.getvalue()


def pictures(records: Sequence[Record], studies: Sequence[StudyRecord] = ()) -> list[Picture]:
    """All that have a record, in the order of the paper."""
    made = []
    for group, (place, tasks, caption, draw) in _GRID.items():
        for protocol in PROTOCOLS:
            first = _first(records, tasks, protocol)
            if first:
                text = f"{caption} {protocol.capitalize()} protocol, first seed."
                made.append(Picture(f"{group}-{protocol}", group, place, text, lambda d=draw, f=first: d(f)))
    for name, study in STUDIES.items():
        some = found(name, studies)
        if some and study.draw is not None:
            made.append(Picture(name, name, study.place, study.caption, lambda d=study.draw, s=some: d(s)))
    return sorted(made, key=lambda picture: [*map(ord, picture.place.partition("Figure ")[2])])


def picture_groups() -> list[str]:
    """Names that can be asked for."""
    return [*_GRID, *(name for name, study in STUDIES.items() if study.draw is not None)]


First = dict[tuple[str, str], Record]
"""(task, method) to the record of the first seed."""


def _first(records: Sequence[Record], tasks: Sequence[str], protocol: str) -> First:
    chosen: First = {}
    for record in sorted(records, key=lambda r: r.seed):
        if record.task in tasks and record.protocol == protocol and record.method in METHODS:
            chosen.setdefault((record.task, record.method), record)
    return {(task, method): chosen[task, method] for task in tasks for method in METHODS if (task, method) in chosen}


def spirals_figure(first: First) -> Figure:
    """A panel per method: the tube of one test spiral in the plane."""
    with rc_context(STYLE):
        rows = -(-len(first) // 3)
        figure = Figure(figsize=(11, 3.9 * rows + 0.4), layout="constrained")
        axes = list(figure.subplots(rows, 3, sharex=True, sharey=True, squeeze=False).flat)
        for letter, axis, ((_, method), record) in zip("ABCDEF", axes, first.items(), strict=False):
            panels = [_bands(panel) for panel in record.bands]
            mean, std, y = (np.stack([panel[name] for panel in panels], 1) for name in ("mean", "std", "y"))
            half = GROUPS["interpolation"].stop
            draw_tube(axis, mean, std, PALE_BLUE, "two standard deviations")
            axis.plot(*y.T, ".", color=INK, ms=2.5, label="what came")
            axis.plot(*mean[:half].T, color=BLUE, lw=1.6, label="prediction, observed half")
            axis.plot(*mean[half - 1 :].T, color=ORANGE, lw=1.6, label="prediction, no data")
            low, high = y.min(0), y.max(0)
            gap = WIDE * (high - low)
            axis.set(xlim=(low[0] - gap[0], high[0] + gap[0]), ylim=(low[1] - gap[1], high[1] + gap[1]))
            axis.set(title=f"{letter}  {METHODS[method]}", aspect="equal")
            _score(axis, record)
        for axis in axes[len(first) :]:
            axis.remove()
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def bands_figure(first: First) -> Figure:
    """A column per task, a row per method: values, means, intervals over time."""
    return _columns(first, _forecast)


def bearings_figure(first: First) -> Figure:
    """The same over the share of life, run beside run."""
    return _columns(first, _life)


def _columns(first: First, prepare: Callable[[Bands], tuple[Bands, str, list[float]]]) -> Figure:
    tasks, methods = (list(dict.fromkeys(pair[i] for pair in first)) for i in (0, 1))
    methods.sort(key=list(METHODS).index)
    with rc_context(STYLE):
        size = max(4.6, 11 / len(tasks)) * len(tasks), 1.55 * len(methods) + 0.9
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(methods), len(tasks), squeeze=False, sharex="col", sharey="col")
        for (task, method), record in first.items():
            axis = axes[methods.index(method), tasks.index(task)]
            bands, label, edges = prepare(_bands(record.bands[0]))
            _band(axis, bands, edges)
            gap = WIDE * np.ptp(bands["y"])
            axis.set_ylim(bands["y"].min() - gap, bands["y"].max() + gap)
            axis.margins(x=0.01)
            if edges:
                axis.set_xticks(
                    [0.5 + i for i in range(len(edges) + 1)], [f"run {i + 1}" for i in range(len(edges) + 1)]
                )
            _score(axis, record)
            _outside(axis, bands["mean"])
            if method == methods[0]:
                axis.set_title(f"{'ABCDEF'[tasks.index(task)]}  {task}", pad=16)
            if method == methods[-1]:
                axis.set_xlabel(label)
        for method, task in itertools.product(methods, tasks):
            if (task, method) not in first:
                axis = axes[methods.index(method), tasks.index(task)]
                axis.text(0.5, 0.5, "no record", transform=axis.transAxes, ha="center", va="center", color=GREY)
        for row, method in zip(axes, methods, strict=True):
            row[0].set_ylabel(METHODS[method], fontweight="bold")
        figure.align_ylabels(axes[:, 0])
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _forecast(bands: Bands) -> tuple[Bands, str, list[float]]:
    return bands, "time steps of the test part", []


def _life(bands: Bands) -> tuple[Bands, str, list[float]]:
    """Rows over the share of life, run after run. Rows are spread evenly over lives, so their place is that share."""
    drops = np.diff(bands["y"]) < -DROP
    if drops.sum() > STEADY:  # a random choice of rows
        order = bands["y"].argsort(kind="stable")
        at = np.linspace(0, 1, len(order))
        return {**{name: values[order] for name, values in bands.items()}, "at": at}, "share of life", []
    run = np.concatenate([[0], np.cumsum(drops)])
    at = np.concatenate([i + np.linspace(0, 1, n, endpoint=False) for i, n in enumerate(np.bincount(run))])
    edges = [float(edge) for edge in range(1, run.max() + 1)]
    return {**bands, "at": at}, "share of life, run after run" if edges else "share of life", edges


def _band(axis: Axes, bands: Bands, edges: Sequence[float]) -> None:
    at, mean, half, epistemic = (bands[name] for name in ("at", "mean", "half_90", "epistemic"))
    cuts = [*np.searchsorted(at, edges), len(at)]
    for i, (start, stop) in enumerate(zip([0, *cuts[:-1]], cuts, strict=True)):
        part = slice(start, stop)
        labels = ("90 % interval, conformal", "epistemic part", "prediction", "what came") if i == 0 else [None] * 4
        for size, colour, label in ((half, PALE_BLUE, labels[0]), (1.645 * epistemic, PALE_ORANGE, labels[1])):
            low, high = ((mean + sign * size)[part] for sign in (-1, 1))
            axis.fill_between(at[part], low, high, color=colour, lw=0, label=label)
        axis.plot(at[part], mean[part], color=BLUE, lw=1.4, label=labels[2])
        axis.plot(at[part], bands["y"][part], ".", color=INK, ms=2.2, label=labels[3])
    for edge in edges:
        axis.axvline(edge, color=GREY, lw=0.6)


def _bands(panel: dict) -> Bands:
    names = ("at", "y", "mean", "std", "epistemic", "half_90")
    return {name: np.array(panel[name], dtype=float) for name in names}


def _score(axis: Axes, record: Record) -> None:
    crps = record.metrics.get("crps")
    told = "" if crps is None else f"CRPS {crps:.3g}"
    axis.text(1, 1.01, told, transform=axis.transAxes, ha="right", va="bottom", fontsize=8, color=GREY)


def _outside(axis: Axes, mean: np.ndarray) -> None:
    low, high = axis.get_ylim()
    share = float(np.mean((mean < low) | (mean > high)))
    if share > TOLD:
        told = f"{100 * share:.0f} % of predictions are outside"
        axis.text(0, 1.01, told, transform=axis.transAxes, va="bottom", fontsize=8, color=ORANGE)


_GRID: dict[str, tuple[str, tuple[str, ...], str, Callable[[First], Figure]]] = {
    "spiral": (
        "Figure 2",
        ("spiral",),
        "One test spiral as every method sees it: observed in its first half, asked everywhere.",
        spirals_figure,
    ),
    "forecasts": (
        "Figure 4",
        ("ettm1", "jena"),
        "Forecasts half the horizon ahead, over a stretch of the test part; the last target where there are several.",
        bands_figure,
    ),
    "bearings": (
        "Figure 5",
        ("xjtu", "pronostia", "hust"),
        "Degradation over the share of life, which the models are not told under the sound protocol; test runs side by "
        "side, or rows sorted where the test part is a random choice of windows.",
        bearings_figure,
    ),
}
"""Group of pictures: place in the paper, tasks, caption, how it is drawn."""
