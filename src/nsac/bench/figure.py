"""Pictures, in one style."""

from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure

from nsac.bench.demo import TEST, Demo

BLUE, ORANGE, GREEN, GREY, INK = "#0072B2", "#D55E00", "#009E73", "#8C8C8C", "#222222"
"""Colours that stay apart for colour-blind readers (Okabe and Ito)."""

STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "savefig.dpi": 150,
}


def demo_figure(demo: Demo, path: Path, spiral: int = 0) -> None:
    """One test spiral: the plane with its tube, one coordinate with its bands, and both deviations over time."""
    with rc_context(STYLE):
        figure = Figure(figsize=(12, 6), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1, 1.1))
        plane = left.subplots()
        band, spread = right.subplots(2, 1, sharex=True)
        data, p = demo.spirals, demo.prediction
        time, row = data.query_times.numpy(), TEST.start + spiral
        seen, truth = data.times[row].numpy(), data.truth[row].numpy()
        mean = p.mean[spiral].numpy()
        aleatoric, total = (v[spiral].sqrt().numpy() for v in (p.aleatoric, p.variance))

        _tube(plane, mean, total, "#BFD9EA", "two standard deviations")
        plane.plot(*truth.T, color=INK, lw=1, ls="--", label="truth")
        plane.plot(*mean[: len(mean) // 2].T, color=BLUE, lw=2, label="prediction, observed half")
        plane.plot(*mean[len(mean) // 2 - 1 :].T, color=ORANGE, lw=2, label="prediction, no data")
        plane.plot(*data.x[row].numpy().T, ".", color=INK, ms=5, label="observations")
        plane.set(title="An irregular spiral", xlabel="x", ylabel="y", aspect="equal")
        plane.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, fontsize=9)

        for axis in (band, spread):
            axis.axvspan(seen[-1], 1, color="#F4F1EC", zorder=-1)
            axis.margins(x=0)
        band.fill_between(time, *_edges(mean, total, 0), color="#F3C9A8", label="and epistemic", lw=0)
        band.fill_between(time, *_edges(mean, aleatoric, 0), color="#BFD9EA", label="aleatoric", lw=0)
        band.plot(time, mean[:, 0], color=BLUE, lw=1.5, label="mean")
        band.plot(time, truth[:, 0], color=INK, lw=1, ls="--", label="truth")
        band.plot(seen, data.x[row, :, 0].numpy(), ".", color=INK, ms=4)
        band.set(title="x(t), two standard deviations", ylabel="x")
        band.legend(loc="upper left", ncols=2, fontsize=9)

        # Deviation of the position, over all test spirals: what a person should expect at each time.
        for variance, colour, name in (
            (p.variance, INK, "total"),
            (p.aleatoric, BLUE, "aleatoric"),
            (p.epistemic, ORANGE, "epistemic"),
        ):
            spread.plot(
                time,
                variance.mean((0, 2)).sqrt().numpy(),
                color=colour,
                lw=2 if name != "total" else 1,
                ls="-" if name != "total" else ":",
                label=name,
            )
        error = (p.mean - data.y[TEST]).square().mean((0, 2)).sqrt().numpy()
        spread.plot(time, error, color=GREY, lw=1, label="error made")
        spread.set(title="Standard deviation, all test spirals", xlabel="time", yscale="log")
        spread.text(0.25, 0.04, "observed", transform=spread.transAxes, ha="center", color=GREY)
        spread.text(0.75, 0.04, "no data", transform=spread.transAxes, ha="center", color=GREY)
        spread.legend(loc="upper left", ncols=2, fontsize=9)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)


def _edges(mean: np.ndarray, std: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray]:
    return mean[:, column] - 2 * std[:, column], mean[:, column] + 2 * std[:, column]


def _tube(axis: Axes, mean: np.ndarray, std: np.ndarray, colour: str, label: str) -> None:
    """Ellipses of two standard deviations along a finely interpolated path; their union is the tube."""
    fine = np.linspace(0, len(mean) - 1, 10 * len(mean))
    path, size = (np.stack([np.interp(fine, np.arange(len(z)), c) for c in z.T], 1) for z in (mean, std))
    ellipses = EllipseCollection(
        4 * size[:, 0], 4 * size[:, 1], np.zeros(len(fine)),
        units="xy", offsets=path, offset_transform=axis.transData, facecolors=colour, edgecolors="none",
    )  # fmt: skip
    axis.add_collection(ellipses)
    axis.fill([], [], color=colour, label=label)
