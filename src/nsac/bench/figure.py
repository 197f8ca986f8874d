"""Pictures of results."""

from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure

from nsac.bench.spirals import TEST, SpiralRun
from nsac.uncertainty.style import BLUE, GREY, INK, ORANGE, PALE_BLUE, PALE_ORANGE, PAPER, STYLE


def spiral_figure(run: SpiralRun, path: Path, spiral: int = 0) -> None:
    """One test spiral: the plane with its tube, one coordinate with its bands, and both deviations over time."""
    with rc_context(STYLE):
        figure = Figure(figsize=(12, 6.4), layout="constrained")
        axes = figure.subplot_mosaic([["plane", "band"], ["plane", "spread"]], width_ratios=(1, 1.1))
        plane, band, spread = axes["plane"], axes["band"], axes["spread"]
        data, p = run.spirals, run.prediction
        time, row = data.query_times.numpy(), TEST.start + spiral
        seen, truth = data.times[row].numpy(), data.truth[row].numpy()
        mean = p.mean[spiral].numpy()
        aleatoric, total = (v[spiral].sqrt().numpy() for v in (p.aleatoric, p.variance))

        draw_tube(plane, mean, total, PALE_BLUE, "two standard deviations")
        plane.plot(*truth.T, color=INK, lw=1, ls="--", label="truth")
        plane.plot(*mean[: len(mean) // 2].T, color=BLUE, lw=2, label="prediction, observed half")
        plane.plot(*mean[len(mean) // 2 - 1 :].T, color=ORANGE, lw=2, label="prediction, no data")
        plane.plot(*data.x[row].numpy().T, ".", color=INK, ms=5, label="observations")
        plane.set(title="Sure where there is data, unsure where there is none", xlabel="x", ylabel="y", aspect="equal")
        plane.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, fontsize=9)

        for axis in (band, spread):
            axis.axvspan(seen[-1], 1, color=PAPER, zorder=-1)
            axis.margins(x=0)
        band.fill_between(time, -2 * total[:, 0], 2 * total[:, 0], color=PALE_ORANGE, label="and epistemic", lw=0)
        band.fill_between(time, -2 * aleatoric[:, 0], 2 * aleatoric[:, 0], color=PALE_BLUE, label="aleatoric", lw=0)
        band.plot(time, data.y[row, :, 0].numpy() - mean[:, 0], ".", color=GREY, ms=3, label="what came")
        band.plot(time, truth[:, 0] - mean[:, 0], color=INK, lw=1, ls="--", label="truth")
        band.set(title="x, as seen from the prediction: two standard deviations")
        band.legend(loc="upper left", ncols=2, fontsize=9)

        # Deviation of the position, over all test spirals: what a person should expect at each time.
        for kind, colour, width in (("aleatoric", BLUE, 2), ("epistemic", ORANGE, 2), ("variance", INK, 1)):
            deviation = getattr(p, kind).mean((0, 2)).sqrt().numpy()
            spread.plot(time, deviation, color=colour, lw=width, label=kind.replace("variance", "total"))
        error = (p.mean - data.y[TEST]).square().mean((0, 2)).sqrt().numpy()
        spread.plot(time, error, color=GREY, lw=1, label="error made")
        spread.set(title="Standard deviation, all test spirals", xlabel="time", yscale="log")
        spread.legend(loc="lower right", bbox_to_anchor=(1.0, 0.15), ncols=2, fontsize=9)
        for place, name in ((0.25, "observed"), (0.75, "no data")):
            band.text(place, 0.03, name, transform=band.transAxes, ha="center", color=GREY)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)


def draw_tube(axis: Axes, mean: np.ndarray, std: np.ndarray, colour: str, label: str) -> None:
    """Ellipses of two standard deviations along a finely interpolated path; their union is the tube."""
    fine = np.linspace(0, len(mean) - 1, 10 * len(mean))
    path, size = (np.stack([np.interp(fine, np.arange(len(z)), c) for c in z.T], 1) for z in (mean, std))
    ellipses = EllipseCollection(
        4 * size[:, 0], 4 * size[:, 1], np.zeros(len(fine)),
        units="xy", offsets=path, offset_transform=axis.transData, facecolors=colour, edgecolors="none",
    )  # fmt: skip
    axis.add_collection(ellipses)
    axis.update_datalim(np.concatenate([path - 2 * size, path + 2 * size]))
    axis.fill([], [], color=colour, label=label)
