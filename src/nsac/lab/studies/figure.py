"""Figures of spirals."""

from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure

from nsac.lab.studies.demo import LAST_TESTED, LAST_TRAINED, NOISE, TRAINED, UNTRAINED, Demo
from nsac.uncertainty.style import BLUE, GREY, INK, ORANGE, PALE_BLUE, PALE_ORANGE, PAPER, STYLE

TITLE = "Aleatoric uncertainty matches the noise; epistemic uncertainty grows where there was no training data"


@rc_context(STYLE)
def demo_figure(demo: Demo, path: Path) -> None:
    """Draw a row per direction of rotation: a spiral in the plane, one coordinate over time, standard deviations.

    The folder of the file is created.
    """
    figure = Figure(figsize=(14, 7.8), layout="constrained")
    figure.suptitle(TITLE, fontweight="bold", fontsize=14)
    axes = figure.subplots(2, 3, width_ratios=(0.8, 1.1, 1.1))
    names = {TRAINED: "Direction of rotation as in training", UNTRAINED: "Direction of rotation never trained"}
    for (plane, coordinate, stds), (direction, name) in zip(axes, names.items(), strict=True):
        _draw_plane(plane, demo, direction)
        _draw_coordinate(coordinate, demo, direction)
        _draw_stds(stds, demo, direction)
        plane.set(title=name, xlabel="x")
        coordinate.set(title="One coordinate of that spiral", xlabel="time")
        stds.set(title="Standard deviations, all test spirals", xlabel="time")
    axes[0, 1].legend(loc="lower left", fontsize=9)
    axes[1, 2].legend(loc="lower left", ncols=3, fontsize=9)
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


def _example(demo: Demo, direction: int) -> int:
    """The test spiral that is drawn: three quarters of them are shorter, so that it turns far enough to be seen."""
    lengths = demo.spirals[direction]["truth"].diff(dim=1).norm(dim=-1).sum(-1)
    return int(lengths.argsort()[3 * len(lengths) // 4])


def _draw_plane(axis: Axes, demo: Demo, direction: int) -> None:
    i = _example(demo, direction)
    spirals, mean = demo.spirals[direction], demo.predictions[direction].mean[i].numpy()
    axis.plot(*spirals["truth"][i].numpy().T, color=INK, lw=1, ls="--")
    axis.plot(*mean.T, color=BLUE, lw=2)
    axis.plot(*spirals["x"][i].numpy().T, ".", color=INK, ms=5)
    axis.set(ylabel="y", xlim=(-3, 3), ylim=(-3, 3), aspect="equal")


def _draw_coordinate(axis: Axes, demo: Demo, direction: int) -> None:
    i = _example(demo, direction)
    spirals, p = demo.spirals[direction], demo.predictions[direction]
    time, mean = spirals["query_times"][i].numpy(), p.mean[i, :, 1].numpy()
    bands = (("2 std, aleatoric and epistemic", p.variance, PALE_ORANGE), ("2 std, aleatoric", p.aleatoric, PALE_BLUE))
    for label, variance, colour in bands:
        std = variance[i, :, 1].sqrt().numpy()
        axis.fill_between(time, mean - 2 * std, mean + 2 * std, color=colour, label=label, lw=0)
    axis.plot(time, spirals["truth"][i, :, 1].numpy(), color=INK, lw=1, ls="--", label="noise-free position")
    axis.plot(time, mean, color=BLUE, lw=2, label="predicted mean")
    axis.plot(spirals["times"][i].numpy(), spirals["x"][i, :, 1].numpy(), ".", color=INK, ms=5, label="observations")
    axis.set(ylabel="y", ylim=(-6, 6))
    _shade(axis, direction)


def _draw_stds(axis: Axes, demo: Demo, direction: int) -> None:
    """Root mean squares over all test spirals, of the error and of the standard deviations."""
    spirals, p = demo.spirals[direction], demo.predictions[direction]
    time = spirals["query_times"][0].numpy()
    error = (p.mean - spirals["y"]).square().mean((0, 2)).sqrt().numpy()
    axis.plot(time, error, color=GREY, lw=3, alpha=0.5, label="RMSE")
    for kind, colour, width in (("variance", INK, 1), ("aleatoric", BLUE, 2), ("epistemic", ORANGE, 2)):
        std = getattr(p, kind).mean((0, 2)).sqrt().numpy()
        axis.plot(time, std, color=colour, lw=width, label=kind.replace("variance", "total"))
    axis.axhline(NOISE, color=BLUE, lw=1, ls=":", label="noise")
    axis.set(yscale="log", ylim=(0.012, 9))
    _shade(axis, direction)


def _shade(axis: Axes, direction: int) -> None:
    """Shade the times without training data: the later ones, or all of them."""
    start, end = (LAST_TRAINED, LAST_TESTED) if direction == TRAINED else (0.0, LAST_TRAINED)
    axis.axvspan(start, end, color=PAPER, zorder=-1)
    axis.set_xlim(0, end)
    about = {"transform": axis.get_xaxis_transform(), "ha": "center", "va": "top", "fontsize": 9, "color": GREY}
    axis.text((start + end) / 2, 0.98, "never\ntrained", **about)
