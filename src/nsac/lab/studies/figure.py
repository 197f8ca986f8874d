"""Figures of spirals."""

from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure

from nsac.lab.studies.demo import TEST, SpiralRun
from nsac.uncertainty.style import BLUE, GREY, INK, ORANGE, PALE_BLUE, PALE_ORANGE, PAPER, STYLE


@rc_context(STYLE)
def spiral_figure(run: SpiralRun, path: Path) -> None:
    """Draw a test spiral in the plane, its residuals over time, and the standard deviations of all test spirals.

    The folder of the file is created.
    """
    figure = Figure(figsize=(12, 6.4), layout="constrained")
    axes = figure.subplot_mosaic([["plane", "residual"], ["plane", "std"]], width_ratios=(1, 1.1))
    _draw_plane(axes["plane"], run)
    for axis in (axes["residual"], axes["std"]):
        axis.axvspan(float(run.spirals.times[TEST][0, -1]), 1, color=PAPER, zorder=-1)
        axis.margins(x=0)
    _draw_residual(axes["residual"], run)
    _draw_std(axes["std"], run)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def draw_tube(axis: Axes, mean: np.ndarray, std: np.ndarray, colour: str, label: str) -> None:
    """Draw ellipses of two standard deviations along a finely interpolated path; their union is the tube."""
    fine = np.linspace(0, len(mean) - 1, 25 * len(mean))
    columns = [np.interp(fine, np.arange(len(mean)), column) for column in (*mean.T, *std.T)]
    path, size = np.stack(columns[:2], 1), np.stack(columns[2:], 1)
    ellipses = EllipseCollection(
        4 * size[:, 0], 4 * size[:, 1], np.zeros(len(fine)),
        units="xy", offsets=path, offset_transform=axis.transData, facecolors=colour, edgecolors="none",
    )  # fmt: skip
    axis.add_collection(ellipses)
    axis.update_datalim(np.concatenate([path - 2 * size, path + 2 * size]))
    axis.fill([], [], color=colour, label=label)


def _draw_plane(axis: Axes, run: SpiralRun) -> None:
    data, mean = run.spirals, run.prediction.mean[0].numpy()
    draw_tube(axis, mean, run.prediction.variance[0].sqrt().numpy(), PALE_BLUE, "two standard deviations")
    axis.plot(*data.truth[TEST][0].numpy().T, color=INK, lw=1, ls="--", label="noise-free position")
    axis.plot(*mean[: len(mean) // 2].T, color=BLUE, lw=2, label="prediction, interpolation")
    axis.plot(*mean[len(mean) // 2 - 1 :].T, color=ORANGE, lw=2, label="prediction, extrapolation")
    axis.plot(*data.x[TEST][0].numpy().T, ".", color=INK, ms=5, label="observations")
    axis.set(title="One test spiral and its prediction", xlabel="x", ylabel="y", aspect="equal")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, fontsize=9)


def _draw_residual(axis: Axes, run: SpiralRun) -> None:
    data, p = run.spirals, run.prediction
    time, mean = data.query_times.numpy(), p.mean[0, :, 0].numpy()
    bands = (("aleatoric and epistemic", p.variance, PALE_ORANGE), ("aleatoric", p.aleatoric, PALE_BLUE))
    for label, variance, colour in bands:
        std = variance[0, :, 0].sqrt().numpy()
        axis.fill_between(time, -2 * std, 2 * std, color=colour, label=label, lw=0)
    axis.plot(time, data.y[TEST][0, :, 0].numpy() - mean, ".", color=GREY, ms=3, label="observed")
    axis.plot(time, data.truth[TEST][0, :, 0].numpy() - mean, color=INK, lw=1, ls="--", label="noise-free")
    axis.set(title="Residual of x, and two standard deviations")
    axis.legend(loc="upper left", ncols=2, fontsize=9)
    for place, name in ((0.25, "interpolation"), (0.75, "extrapolation")):
        axis.text(place, 0.03, name, transform=axis.transAxes, ha="center", color=GREY)


def _draw_std(axis: Axes, run: SpiralRun) -> None:
    """Root mean squares over all test spirals: the expected size of each uncertainty, and of the error."""
    p, time = run.prediction, run.spirals.query_times.numpy()
    for kind, colour, width in (("aleatoric", BLUE, 2), ("epistemic", ORANGE, 2), ("variance", INK, 1)):
        std = getattr(p, kind).mean((0, 2)).sqrt().numpy()
        axis.plot(time, std, color=colour, lw=width, label=kind.replace("variance", "total"))
    error = (p.mean - run.spirals.y[TEST]).square().mean((0, 2)).sqrt().numpy()
    axis.plot(time, error, color=GREY, lw=1, label="RMSE")
    axis.set(title="Standard deviation, all test spirals", xlabel="time", yscale="log")
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 0.15), ncols=2, fontsize=9)
