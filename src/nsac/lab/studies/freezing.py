"""Study of freezing the gates between updates: the paper's Table 3 and Figure 7."""

from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from nsac.lab.grid.sheet import Sheet, spread
from nsac.lab.grid.table import paper_table
from nsac.lab.studies.base import Found, Outcome, Study, rounded
from nsac.lab.studies.frozen_gates import REGIMES, frozen_errors, step_series, trained_layer
from nsac.uncertainty.style import BLUE, GREEN, GREY, ORANGE, PURPLE, STYLE

LABELS = {
    "mean_error": "mean: error",
    "max_error": "mean: largest error",
    "phi_variation": "variation of φ",
    "kappa_variation": "variation of κ",
    "psi_variation": "variation of ψ",
    "std_mean_error": "std: error",
    "std_max_error": "std: largest error",
    "bound_use": "error / bound",
}
"""Numbers of `frozen_errors` and their names in the table: first those that the paper has, in its order."""


def run(config: dict[str, Any]) -> Outcome:
    """Train one layer, and compute its errors in every regime and its response to the step signal."""
    layer = trained_layer(config["seed"], config["steps"])
    metrics = {}
    for regime, errors in frozen_errors(layer, config["updates"]).items():
        metrics |= {f"{regime}_{field}": value for field, value in errors.items()}
    series = step_series(layer, config["updates"])
    return Outcome(metrics, {name: rounded(values) for name, values in series.items()})


def sheets(found: Found) -> list[Sheet]:
    """One pair of columns per regime: our number and the paper's; the last rows are not in the paper."""
    paper, rows = paper_table("table_3"), []
    for field, label in LABELS.items():
        row: list = [label]
        for regime in REGIMES:
            row += [spread(record.metrics[f"{regime}_{field}"] for _, record in found), paper[regime].get(field)]
        rows.append(row)
    head = ["in %", *(name for regime in REGIMES for name in (regime, "paper"))]
    return [Sheet("Error of freezing the gates", head, rows, _NOTE)]


_NOTE = (
    "Errors of the logit's mean and standard deviation are in % of their range. The variation of a gate is its range "
    "within an update, in % of its mean magnitude. Error / bound is the largest error in % of its bound; the theorem "
    "guarantees at most 100. The columns `paper` have the numbers of the paper, which does not define them; ours need "
    "not agree."
)


@rc_context(STYLE)
def draw(found: Found) -> Figure:
    """The response to a step change in one head of the first layer, under varying and frozen gates."""
    lines = {name: np.array(values) for name, values in found[0][1].series.items()}
    time, mean, std, frozen_mean = lines["time"], lines["mean"], lines["std"], lines["frozen_mean"]
    figure = Figure(figsize=(7.2, 8.4), layout="constrained")
    panels = figure.subplots(6, 1, sharex=True, height_ratios=[2, 2, 2, 2, 5, 3])
    for panel in panels:
        panel.grid(axis="x", color="0.92")
        panel.locator_params(axis="y", nbins=4)
    panels[0].plot(time, lines["signal"], color=GREY)
    panels[0].set(ylabel="drive $u$")
    starts = np.linspace(0, 1, len(lines["held_phi"]) + 1)
    names = {"phi": r"target $\phi$", "kappa": r"rate $\kappa$", "psi": r"noise $\psi$"}
    for panel, (gate, name) in zip(panels[1:4], names.items(), strict=True):
        panel.plot(time, lines[gate], color=BLUE)
        panel.stairs(lines[f"held_{gate}"], starts, baseline=None, color=ORANGE, linestyle="--", linewidth=1.5)
        panel.set(ylabel=name)
        panel.ticklabel_format(axis="y", useOffset=False)  # gates differ in scale, so ticks show the full values
        panel.margins(y=0.2)
    panels[4].plot(time, mean, color=BLUE, label="varying gates (band: ± std)")
    panels[4].fill_between(time, mean - std, mean + std, color=BLUE, alpha=0.2, linewidth=0)
    panels[4].plot(time, frozen_mean, color=ORANGE, linestyle="--", label="frozen at each update")
    for sign, label in ((-1, "frozen ± std"), (1, None)):
        panels[4].plot(time, frozen_mean + sign * lines["frozen_std"], color=ORANGE, linestyle=":", label=label)
    panels[4].set(ylabel="logit $a$")
    mean_error, std_error = lines["mean_error"], lines["std_error"]
    panels[5].plot(time, mean_error, color=GREEN, label="of the mean, % of its range")
    panels[5].plot(time, std_error, color=PURPLE, linestyle="-.", label="of the std, % of its range")
    top = 1.4 * max(mean_error.max(), std_error.max(), 1e-12)  # leaves space for the legend above the curves
    panels[5].set(ylabel="error (%)", ylim=(0, top), xlabel="internal time $s$", xlim=(0, 1))
    panels[5].legend(loc="upper right", ncols=2)
    figure.align_ylabels(panels)
    figure.legend(*panels[4].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


_CAPTION = (
    "A step change in one head of a trained layer: the drive signal, the varying and the frozen gates, the logit, and "
    "the error of freezing."
)
_TITLE = "Error of freezing the gates between updates"
STUDY = Study("freezing", _TITLE, "Table 3, Figure 7", _CAPTION, run, sheets, draw)
