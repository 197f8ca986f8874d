"""The page of `nsac evaluate`: scores beside a naive guess, and pictures; one file that needs no other."""

import base64
import html
import io
from collections.abc import Callable, Sequence

import numpy as np
import torch
from matplotlib import dates, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from nsac.estimators.evaluation import Evaluation
from nsac.uncertainty import plot
from nsac.uncertainty.style import BLUE, GREY, INK, ORANGE, PALE_BLUE, STYLE

SHOWN = 200
"""Rows of the band plot: more could not be told apart."""

GROUPS, MEMBERS = 10, 10
"""Most groups of equally many rows, by their epistemic deviation, and fewest rows in one."""

NAMES = {
    "rmse": ("RMSE", "root mean square error of the mean, in the unit of the target; lower is better"),
    "mae": ("MAE", "mean absolute error of the mean; lower is better"),
    "nll": ("NLL", "negative log-likelihood of what came; lower is better"),
    "crps": ("CRPS", "error of the whole distribution, in the unit of the target; lower is better"),
    "coverage_90": ("inside 90 %", "share of values inside the 90 % interval; should be 90 %"),
    "width_90": ("width 90 %", "mean width of that interval; narrower is better if the share inside is right"),
    "calibration_error": ("calibration", "mean distance of the reliability curve from the diagonal; lower is better"),
}
"""What each score is called, and what it says."""

CSS = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; } td.best { font-weight: 600; color: #0072B2; }
td.what { text-align: left; color: #6e6e6e; font-size: .85rem; } .scroll { overflow-x: auto; }
figure { margin: 1.5rem 0; } img { max-width: 100%; height: auto; } figcaption { color: #444; font-size: .92rem; }
.pair { display: flex; flex-wrap: wrap; gap: 1.5rem; } .pair figure { flex: 1 1 24rem; margin: 0; }
footer { color: #6e6e6e; font-size: .85rem; margin-top: 3rem; border-top: 1px solid #ddd; padding-top: .5rem; }
"""


def page(title: str, facts: Sequence[str], evaluations: Sequence[Evaluation]) -> str:
    """HTML with everything in it.

    Args:
        title: of the page.
        facts: a line each, about the model and the file.
        evaluations: one per target.
    """
    about = "<br>".join(html.escape(fact) for fact in facts)
    sections = "\n".join(_section(evaluation, len(evaluations) > 1) for evaluation in evaluations)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<h1>{html.escape(title)}</h1>\n"
        f"<p>{about}</p>\n{sections}\n<footer>Made by nsac evaluate.</footer>\n</body>\n</html>\n"
    )


def summary(e: Evaluation) -> str:
    """One sentence a stranger understands."""
    scores = e.scores
    model, naive = scores["model"], scores["naive"]
    held = round(model["coverage_90"] * len(e.y))
    gain = 1 - model["rmse"] / naive["rmse"] if naive["rmse"] else 0.0
    better = f"{100 * abs(gain):.0f} % {'smaller' if gain >= 0 else 'larger'}"
    return (
        f"The typical error (RMSE) is {model['rmse']:.4g}, {better} than that of {e.naive_name}. The 90 % intervals "
        f"held {held} of {len(e.y)} values ({100 * model['coverage_90']:.1f} %)."
    )


def _section(e: Evaluation, many: bool) -> str:
    heading = f"<h2>{html.escape(e.target)}</h2>" if many else ""
    rows = _shown(e)
    along = "sorted by predicted mean" if e.place is None else "along time"
    if e.step is not None and len(rows):
        along = f"{along}, each forecast {int(e.step[rows[0]])} steps ahead"
    figures = [
        _figure(
            lambda axes: _bands(e, axes), (9, 3.6),
            f"{len(rows)} of {len(e.y)} values {along}. About nine of ten points should lie inside the bands. Blue is "
            "the spread that the data itself has, orange what the model adds because it does not know better.",
        ),
        '<div class="pair">',
        _figure(
            lambda axes: plot.reliability(e.prediction, e.y, axes), (4.6, 4.4),
            "Reliability: of all values, what share lay below the predicted 10 %, 20 %, ... quantile? On the diagonal "
            "the probabilities are right; in the grey band the distance is no more than chance.",
        ),
        _doubt_figure(e),
        "</div>",
    ]  # fmt: skip
    if e.step is not None and len(e.step.unique()) > 1:
        told = (
            "By step ahead: typical error of the model and of the naive guess (left), and share of values inside the "
            "90 % interval (right), which should be at the dashed line."
        )
        figures.append(_figure(lambda *axes: _steps(e, *axes), (9, 3.2), told, panels=2))
    return "\n".join([heading, f"<p>{html.escape(summary(e))}</p>", _table(e), *figures])


def _table(e: Evaluation) -> str:
    scores = e.scores
    rows = []
    for key, (name, what) in NAMES.items():
        values = [scores[who][key] for who in ("model", "naive")]
        worse = [abs(v - 0.9) if key == "coverage_90" else 0.0 if key == "width_90" else v for v in values]
        marks = [' class="best"' if mine < max(worse) else "" for mine in worse]
        told = [f"{100 * v:.1f} %" if key == "coverage_90" else f"{v:.4g}" for v in values]
        cells = "".join(f"<td{mark}>{text}</td>" for mark, text in zip(marks, told, strict=True))
        rows.append(f'<tr><td>{name}</td>{cells}<td class="what">{what}</td></tr>')
    head = f"<tr><th>score</th><th>model</th><th>{html.escape(e.naive_name)}</th><th></th></tr>"
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _doubt_figure(e: Evaluation) -> str:
    doubt = e.prediction.epistemic.sqrt()
    if not bool((doubt > 1e-9 * e.prediction.std).any()):
        told = "This model has no epistemic variance: it cannot say where it knows little."
        return f"<figure><figcaption>{told}</figcaption></figure>"
    return _figure(
        lambda axes: _doubt(e, axes), (4.6, 4.4),
        "Error against epistemic deviation. Black: typical error in groups of equally many values, from those the "
        "model knows best to those it knows least; orange: the deviation it predicts. Both should rise.",
    )  # fmt: skip


def _shown(e: Evaluation) -> torch.Tensor:
    """Values of the band plot: some hundred neighbours in time from the middle, or by predicted mean."""
    if e.place is None:
        order = e.prediction.mean.argsort()
        return order[torch.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().long()]
    rows = np.arange(len(e.y)) if e.shown is None else e.shown.nonzero()[:, 0].numpy()
    rows = rows[np.argsort(e.place[rows], kind="stable")]
    start = max(0, (len(rows) - SHOWN) // 2)
    return torch.as_tensor(rows[start : start + SHOWN])


def _bands(e: Evaluation, axes: Axes) -> None:
    rows = _shown(e)
    x = torch.arange(len(rows)).double()
    if e.place is not None:
        times = e.place[rows.numpy()]
        dated = np.issubdtype(times.dtype, np.datetime64)
        x = torch.as_tensor(np.asarray(dates.date2num(times) if dated else times, dtype=float))
        if dated:
            axes.xaxis_date()
            axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    plot.bands(x, e.prediction[rows], axes, e.y[rows], ylabel=e.target)
    axes.set_xlabel("rows, sorted by predicted mean" if e.place is None else "time")


def _doubt(e: Evaluation, axes: Axes) -> None:
    doubt, error = (v.numpy() for v in (e.prediction.epistemic.sqrt(), (e.y - e.prediction.mean).abs()))
    few = np.linspace(0, len(error) - 1, min(2000, len(error))).astype(int)
    axes.plot(doubt[few], error[few], ".", color=PALE_BLUE, ms=4, label="a value")
    groups = np.array_split(np.argsort(doubt, kind="stable"), max(1, min(GROUPS, len(doubt) // MEMBERS)))
    middle = [doubt[group].mean() for group in groups]
    axes.plot(middle, [np.sqrt((error[g] ** 2).mean()) for g in groups], "o-", color=INK, ms=4, label="RMSE of a group")
    axes.plot(
        middle, [e.prediction.std.numpy()[g].mean() for g in groups], color=ORANGE, lw=1, label="predicted deviation"
    )
    low, high = np.quantile(doubt, [0.0, 1.0])
    if low > 0 and high / low > 20:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    axes.set_ylim(0, 1.15 * np.quantile(error, 0.995) + 1e-12)
    axes.set(xlabel="epistemic standard deviation", ylabel="absolute error")
    axes.legend(loc="upper left", fontsize="small")


def _steps(e: Evaluation, left: Axes, right: Axes) -> None:
    assert e.step is not None
    steps = e.step.unique()
    inside = ((e.lower <= e.y) & (e.y <= e.upper)).double()
    for prediction, name, colour in ((e.prediction, "model", BLUE), (e.naive, e.naive_name, GREY)):
        squares = (e.y - prediction.mean).square()
        left.plot(steps, [squares[e.step == s].mean().sqrt() for s in steps], color=colour, lw=2, label=name)
    right.plot(steps, [inside[e.step == s].mean() for s in steps], color=BLUE, lw=2)
    right.axhline(0.9, color=GREY, lw=1, ls="--")
    left.set(xlabel="steps ahead", ylabel="RMSE", ylim=(0, None))
    right.set(xlabel="steps ahead", ylabel="share inside", ylim=(0, 1.02))
    left.legend(loc="upper left", fontsize="small")


def _figure(draw: Callable[..., None], size: tuple[float, float], caption: str, panels: int = 1) -> str:
    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = [figure.add_subplot(1, panels, i + 1) for i in range(panels)]
        draw(*axes)
        content = io.BytesIO()
        figure.savefig(content, format="png", metadata={"Software": None})
    told = html.escape(caption)
    image = base64.b64encode(content.getvalue()).decode()
    return f'<figure><img alt="{told}" src="data:image/png;base64,{image}"><figcaption>{told}</figcaption></figure>'
