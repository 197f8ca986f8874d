"""Pictures of results."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure

from nsac.lab.studies.spirals import TEST, SpiralRun
from nsac.uncertainty.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE_BLUE,
    PALE_ORANGE,
    PAPER,
    PURPLE,
    STYLE,
)


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
    fine = np.linspace(0, len(mean) - 1, 25 * len(mean))
    path, size = (np.stack([np.interp(fine, np.arange(len(z)), c) for c in z.T], 1) for z in (mean, std))
    ellipses = EllipseCollection(
        4 * size[:, 0], 4 * size[:, 1], np.zeros(len(fine)),
        units="xy", offsets=path, offset_transform=axis.transData, facecolors=colour, edgecolors="none",
    )  # fmt: skip
    axis.add_collection(ellipses)
    axis.update_datalim(np.concatenate([path - 2 * size, path + 2 * size]))
    axis.fill([], [], color=colour, label=label)


def step_figure(series: Mapping[str, Sequence[float]]) -> Figure:
    """The picture of `nsac.lab.studies.frozen.step_series`: a step change under varying and frozen gates."""
    lines = {name: np.array(values) for name, values in series.items()}
    with rc_context(STYLE):
        figure = Figure(figsize=(7.2, 8.4), layout="constrained")
        panels = figure.subplots(6, 1, sharex=True, height_ratios=[2, 2, 2, 2, 5, 3])
        for panel in panels:
            panel.grid(axis="x", color="0.92")
            panel.locator_params(axis="y", nbins=4)
        panels[0].plot(lines["time"], lines["signal"], color=GREY)
        panels[0].set(ylabel="drive $u$")
        _draw_gates(panels[1:4], lines)
        _draw_logit(panels[4], lines)
        _draw_error(panels[5], lines)
        panels[-1].set(xlabel="internal time $s$", xlim=(0, 1))
        figure.align_ylabels(panels)
        figure.legend(*panels[4].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _draw_gates(panels, lines: Mapping[str, np.ndarray]) -> None:
    starts = np.linspace(0, 1, len(lines["held_phi"]) + 1)
    names = {"phi": r"target $\phi$", "kappa": r"rate $\kappa$", "psi": r"noise $\psi$"}
    for panel, (gate, name) in zip(panels, names.items(), strict=True):
        panel.plot(lines["time"], lines[gate], color=BLUE)
        panel.stairs(lines[f"held_{gate}"], starts, baseline=None, color=ORANGE, linestyle="--", linewidth=1.5)
        panel.set(ylabel=name)
        panel.ticklabel_format(axis="y", useOffset=False)  # each gate has a scale of its own; say it in full
        panel.margins(y=0.2)


def _draw_logit(panel, lines: Mapping[str, np.ndarray]) -> None:
    time, mean, std = lines["time"], lines["mean"], lines["std"]
    panel.plot(time, mean, color=BLUE, label="varying gates (band: ± std)")
    panel.fill_between(time, mean - std, mean + std, color=BLUE, alpha=0.2, linewidth=0)
    panel.plot(time, lines["frozen_mean"], color=ORANGE, linestyle="--", label="frozen at each update")
    for sign, label in ((-1, "frozen ± std"), (1, None)):
        panel.plot(time, lines["frozen_mean"] + sign * lines["frozen_std"], color=ORANGE, linestyle=":", label=label)
    panel.set(ylabel="logit $a$")


def _draw_error(panel, lines: Mapping[str, np.ndarray]) -> None:
    mean, std = lines["mean_error"], lines["std_error"]
    panel.plot(lines["time"], mean, color=GREEN, label="of the mean, % of its range")
    panel.plot(lines["time"], std, color=PURPLE, linestyle="-.", label="of the std, % of its range")
    top = max(mean.max(), std.max(), 1e-12)
    panel.set(ylabel="error (%)", ylim=(0, 1.4 * top))  # room for the legend above the curves
    panel.legend(loc="upper right", ncols=2)
