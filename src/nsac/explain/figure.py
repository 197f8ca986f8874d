"""The figure of an explanation: attributions of one row, and its attention."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from nsac.explain.subjects import QUANTITIES
from nsac.uncertainty.style import BLUE, GREY, INK, ORANGE, STYLE

if TYPE_CHECKING:
    from nsac.explain.explanation import Explanation

MAX_BARS = 12  # features in a panel: those with the largest attributions
MAX_KEYS = 16  # keys in a panel: those with the largest weights
FIGURE_STYLE: dict[Any, Any] = STYLE | {"text.parse_math": False}  # names of columns may contain dollar signs
TITLES = {"mean": "Mean", "aleatoric": "Aleatoric variance", "epistemic": "Epistemic variance"}


def draw(explanation: "Explanation", row: int, output: int = 0) -> Figure:
    """Three panels of attributions, and the attention weights with their standard deviations."""
    with rc_context(FIGURE_STYLE):
        figure = Figure(figsize=(11, 3.8), layout="constrained")
        axes = figure.subplots(1, 4)
        for ax, quantity in zip(axes[:3], QUANTITIES, strict=True):
            parts = explanation.attributions[quantity][row, :, output]
            shown = np.argsort(np.abs(parts))[-MAX_BARS:]
            colours = [BLUE if part >= 0 else ORANGE for part in parts[shown]]
            ax.barh([explanation.features[i] for i in shown], parts[shown], color=colours)
            ax.axvline(0, color=INK, lw=0.8)
            base = explanation.base[quantity][row, output]
            whole = getattr(explanation.prediction, quantity)[row, explanation.explained[output]]
            ax.set(title=TITLES[quantity], xlabel=f"baseline {base:.3g}\nthis row {whole:.3g}")
        names = explanation.subject.key_labels(row)
        weight, std = (each[row, : len(names)] for each in explanation._weights)
        shown = np.sort(np.argsort(-weight, kind="stable")[:MAX_KEYS])
        axes[3].barh([names[i] for i in shown], weight[shown], xerr=std[shown], color=GREY, ecolor=INK)
        share = 100 * float(explanation.shares["networks"].mean())
        axes[3].set(title="Attention", xlabel=f"weight\nnetworks: {share:.0f} % of the mean")
        figure.suptitle(f"Row {explanation.rows[row]}: {explanation.outputs[explanation.explained[output]]}")
    return figure
