"""What the separation regulariser does: the paper's Table 2 and Figure 3, on irregular spirals."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from nsac.lab.grid.sheet import Sheet, spread
from nsac.lab.grid.table import paper_table
from nsac.lab.studies.base import Found, Outcome, Study, rounded
from nsac.lab.studies.figure import draw_tube
from nsac.lab.studies.spirals import PARTS, TEST, run_spirals
from nsac.training import Progress
from nsac.uncertainty import mae, mse
from nsac.uncertainty.style import BLUE, INK, ORANGE, PALE_BLUE, PALE_ORANGE, STYLE

MAGNIFIED = 10
"""How much wider than it is the epistemic tube is drawn; at its own size it would be a line."""


def run(config: dict[str, Any], report: Callable[[Progress], None] | None = None) -> Outcome:
    """Train with the paper's objective and one weight of its second term; score both halves of the test spirals."""
    result = run_spirals(config["steps"], config["seed"], report, objective="paper", reg_weight=config["reg_weight"])
    metrics = {}
    for part, points in PARTS.items():
        p, y = result.part(points)
        metrics |= {f"{part}_mse": mse(p, y), f"{part}_mae": mae(p, y)}
        metrics |= {f"{part}_{kind}": getattr(p, kind).mean().sqrt().item() for kind in ("aleatoric", "epistemic")}
    p = result.prediction
    series = {"mean": p.mean[0], "observed": result.spirals.x[TEST][0]}
    series |= {kind: getattr(p, kind)[0].clamp(min=0).sqrt() for kind in ("aleatoric", "epistemic")}
    return Outcome(metrics, {name: rounded(values.tolist()) for name, values in series.items()})


def sheets(found: Found) -> list[Sheet]:
    """Ours, and the paper's pairs of numbers beside them."""
    rows, paper = [], paper_table("table_2")["regulariser"]
    for part in PARTS:
        for on in (True, False):
            records = [record for setting, record in found if (setting.config["reg_weight"] > 0) == on]
            if not records:
                continue
            ours = [
                spread(record.metrics[f"{part}_{name}"] for record in records)
                for name in ("mse", "mae", "aleatoric", "epistemic")
            ]
            printed = paper["with" if on else "without"]
            theirs = ["/".join(f"{n:.4f}" for n in printed[f"{part}_{name}"]) for name in ("mse", "mae")]
            rows.append((part, "yes" if on else "no", *ours, *theirs))
    head = ("half", "on", "MSE", "MAE", "aleat.", "epist.", "MSE, paper", "MAE, paper")
    return [Sheet("The separation regulariser, on and off", head, rows, _NOTE)]


_NOTE = (
    "Errors against noisy positions; their noise alone has MSE 0.0004. aleat., epist.: standard deviations. The "
    "paper gives two errors per model, under 'aleatoric' and 'epistemic', without saying how they differ; a mean has "
    "one error. Its spirals are not ours, which turn both ways and vary by 20 %."
)


def draw(found: Found) -> Figure:
    """Aleatoric and epistemic tubes of one test spiral, with and without the regulariser."""
    first = {setting.config["reg_weight"] > 0: record.series for setting, record in reversed(found)}
    with rc_context(STYLE):
        figure = Figure(figsize=(9.4, 9.6), layout="constrained")
        panels = iter(figure.subplots(2, 2, sharex=True, sharey=True).flat)
        for kind, colour, line, factor in (
            ("aleatoric", PALE_BLUE, BLUE, 1),
            ("epistemic", PALE_ORANGE, ORANGE, MAGNIFIED),
        ):
            for on in (True, False):
                axis, series = next(panels), {name: np.array(values) for name, values in first.get(on, {}).items()}
                axis.set(title=f"{kind}, {'with' if on else 'without'} the regulariser", aspect="equal")
                if not series:
                    continue
                draw_tube(axis, series["mean"], factor * series[kind], colour, f"{2 * factor} standard deviations")
                axis.plot(*series["mean"].T, color=line, lw=1.5, label="prediction")
                axis.plot(*series["observed"].T, ".", color=INK, ms=4, label="observations")
                axis.legend(loc="upper left", fontsize=9)
    return figure


STUDY = Study(
    "regulariser",
    "What the separation regulariser does",
    "Table 2, Figure 3",
    "One test spiral, observed in its first half. Aleatoric (above) and epistemic tubes, the latter drawn "
    f"{MAGNIFIED} times as wide as they are, with the regulariser and without.",
    run,
    sheets,
    draw,
)
