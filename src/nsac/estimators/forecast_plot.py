"""The picture of a forecast: the latest observed values, then mean and intervals."""

import io
import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nsac._io import write_atomic
from nsac.uncertainty.style import BLUE, GREY, INK, PALE_BLUE, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")
MAX_PANELS = 12  # series and targets in one picture
PANEL_WIDTH, PANEL_HEIGHT, WIDE_PANEL = 4.8, 2.7, 8.0  # inches; the last one is the width of a picture of one panel
COVERAGES = (0.5, 0.9)  # of the bands
PAST_HORIZONS = 3  # observed values are shown from so many horizons before the origin on
BAND_COLOURS = (PALE_BLUE, "#DCEAF3")  # of the bands, the inner first


def plot_forecast(
    table: pd.DataFrame, observed: pd.DataFrame, time: str, series: str | None, targets: Sequence[str],
    path: str | PathLike | None = None,
) -> "Figure":  # fmt: skip
    """A panel per series and target, at most `MAX_PANELS`.

    Args:
        table: what `NSACForecaster.predict` returned, for both `COVERAGES`.
        observed: the rows that were predicted from, with times as in the table.
        time: name of the time column.
        series: name of the column of series, if any.
        targets: names of the targets; if there are several, the table names one in the column `target`.
        path: file to write, if any.
    """
    import matplotlib.pyplot as plt

    if path is not None:
        picture_format("path", path)
    names = [None] if series is None else list(dict.fromkeys(table[series]))
    panels = [(name, target) for name in names for target in targets]
    shown = panels[:MAX_PANELS]
    columns = 1 if len(shown) == 1 else 2 if len(shown) in (2, 3, 4) else 3
    rows = -(-len(shown) // columns)
    size = (WIDE_PANEL if columns == 1 else columns * PANEL_WIDTH, rows * PANEL_HEIGHT + 0.6)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        for each in axes.flat[len(shown) :]:
            each.set_visible(False)
        for each, (name, target) in zip(axes.flat, shown, strict=False):
            forecast = table if len(targets) == 1 else table[table["target"] == target]
            past = observed[observed[target].notna()]
            if series is not None:
                forecast, past = forecast[forecast[series] == name], past[past[series] == name]
            _panel(each, forecast, past, time, target)
            each.set_title(_title(series, name, target if len(targets) > 1 else None), fontsize="medium")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize="small")
        if len(panels) > len(shown):
            figure.supxlabel(f"{len(shown)} of {len(panels)} forecasts are shown", fontsize="small", color=GREY)
        if path is not None:
            content = io.BytesIO()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "AutoDateLocator was unable")  # it takes a fitting one nevertheless
                figure.savefig(content, format=picture_format("path", path))
            write_atomic(Path(path), content.getvalue())
            plt.close(figure)
    return figure


def picture_format(name: str, path: str | PathLike) -> str:
    """The format of a picture by the end of its path."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise ValueError(f"`{name}` must be a .png, .pdf or .svg file. Got {path} instead.")
    return kind


def _panel(axes: "Axes", forecast: Any, past: Any, time: str, target: str) -> None:
    forecast, past = forecast.sort_values(time), past.sort_values(time)
    times = _plottable(forecast[time])
    if len(past):
        last = past[time].iloc[-1]
        span = PAST_HORIZONS * (forecast[time].iloc[-1] - last)
        recent = past[past[time] >= last - span]
        dots = "o-" if len(recent) <= 200 else "-"
        axes.plot(_plottable(recent[time]), recent[target], dots, color=INK, ms=2.5, lw=0.8, label="observed")
        axes.axvline(_plottable(recent[time])[-1], color=GREY, lw=0.8, ls=":", zorder=0)
    for coverage, colour in sorted(zip(COVERAGES, BAND_COLOURS, strict=True), reverse=True):
        lower, upper = forecast[f"lower_{100 * coverage:g}"], forecast[f"upper_{100 * coverage:g}"]
        if len(forecast) > 1:
            axes.fill_between(times, lower, upper, color=colour, lw=0, label=f"{100 * coverage:g} % interval")
        else:
            axes.vlines(times, lower, upper, color=colour, lw=6, label=f"{100 * coverage:g} % interval")
    axes.plot(times, forecast["mean"], "o-" if len(forecast) <= 12 else "-", color=BLUE, ms=3, lw=1.8, label="mean")
    axes.set_ylabel(target)
    axes.tick_params(axis="x", labelsize="small")
    if forecast[time].dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=3, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    else:
        axes.set_xlabel(time)


def _plottable(times: pd.Series) -> np.ndarray:
    """Local times without a zone, or numbers."""
    if isinstance(times.dtype, pd.DatetimeTZDtype):
        times = times.dt.tz_localize(None)
    return times.to_numpy()


def _title(series: str | None, name: Any, target: str | None) -> str:
    parts = [] if series is None else [f"{series} {name}"]
    return ", ".join([*parts, *([] if target is None else [target])])
