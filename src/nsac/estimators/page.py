"""The page of `nsac evaluate`: scores beside baselines, and plots; one HTML file that needs no other."""

import base64
import html
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib import dates, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from torch import Tensor

from nsac.estimators.evaluation import Evaluation
from nsac.uncertainty import plot
from nsac.uncertainty.style import BLUE, GREY, INK, ORANGE, PALE_BLUE, STYLE

MAX_BAND_ROWS = 200  # rows of the band plot
MAX_ERROR_DOTS = 2000  # dots of the error plot
MAX_GROUPS, MIN_GROUP_ROWS = 10, 10  # groups of equally many rows, by their epistemic standard deviation
PAGE_STYLE: dict[Any, Any] = STYLE | {"text.parse_math": False}  # names of columns may contain dollar signs
SCORE_NAMES = {
    "rmse": ("RMSE", "root mean square error of the mean, in the unit of the target; lower is better"),
    "mae": ("MAE", "mean absolute error of the mean; lower is better"),
    "nll": ("NLL", "negative log-likelihood of the observed values; lower is better"),
    "crps": ("CRPS", "error of the whole distribution, in the unit of the target; lower is better"),
    "coverage_90": ("90 % PI coverage", "share of the observed values in the 90 % prediction interval; ideal: 90 %"),
    "width_90": ("90 % PI width", "mean width of that interval; at the right coverage, narrower is better"),
    "calibration_error": ("calibration", "mean distance of the reliability curve from the diagonal; lower is better"),
}
"""Name and meaning of each score."""

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
    """HTML with everything in it; `facts` are lines about the model and the file, and a target has one evaluation."""
    about = "<br>".join(html.escape(fact) for fact in facts)
    sections = "\n".join(_section(evaluation, len(evaluations) > 1) for evaluation in evaluations)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<h1>{html.escape(title)}</h1>\n"
        f"<p>{about}</p>\n{sections}\n<footer>Made by nsac evaluate.</footer>\n</body>\n</html>\n"
    )


def summary(e: Evaluation) -> str:
    """Error, beside that of the best baseline, and coverage in two sentences."""
    model, baseline = e.scores["model"], e.scores[e.best_baseline]
    covered = round(model["coverage_90"] * len(e.y))
    gain = 1 - model["rmse"] / baseline["rmse"] if baseline["rmse"] else 0.0
    comparison = f"{100 * abs(gain):.0f} % {'smaller' if gain >= 0 else 'larger'}"
    return (
        f"The RMSE is {model['rmse']:.4g}, {comparison} than that of {e.best_baseline}. The 90 % prediction intervals "
        f"covered {covered} of {len(e.y)} values ({100 * model['coverage_90']:.1f} %)."
    )


def _section(e: Evaluation, several: bool) -> str:
    heading = f"<h2>{html.escape(e.target)}</h2>" if several else ""
    rows = _band_rows(e)
    order = "sorted by predicted mean" if e.place is None else "over time"
    if e.step is not None and len(rows):
        order = f"{order}, each forecast {int(e.step[rows[0]])} steps ahead"
    epistemic = "<figure><figcaption>This model has no epistemic variance.</figcaption></figure>"
    if (e.prediction.epistemic.sqrt() > 1e-9 * e.prediction.std).any():
        caption = (
            "Error against epistemic standard deviation. Black: RMSE in groups of equally many values, in ascending "
            "order of epistemic standard deviation; orange: the predicted standard deviation. Both should rise."
        )
        epistemic = _figure(lambda axes: _draw_epistemic(e, axes), (4.6, 4.4), caption)
    figures = [
        _figure(
            lambda axes: _draw_bands(e, axes), (9, 3.6),
            f"{len(rows)} of {len(e.y)} values {order}. About nine of ten points should lie within the bands. Blue is "
            "the aleatoric uncertainty, the noise in the data; orange adds the epistemic uncertainty of the model.",
        ),
        '<div class="pair">',
        _figure(
            lambda axes: plot.reliability(e.prediction, e.y, axes), (4.6, 4.4),
            "Reliability: the share of the observed values below each predicted quantile. A calibrated prediction is "
            "on the diagonal; the grey band shows the differences that chance explains.",
        ),
        epistemic,
        "</div>",
    ]  # fmt: skip
    if e.step is not None and len(e.step.unique()) > 1:
        caption = (
            "By lead time: RMSE of the model and of the baselines (left), and coverage of the 90 % prediction interval "
            "(right), which should be at the dashed line."
        )
        figures.append(_figure(lambda *axes: _draw_lead_times(e, *axes), (9, 3.2), caption, panels=2))
    return "\n".join([heading, f"<p>{html.escape(summary(e))}</p>", _table(e), *figures])


def _table(e: Evaluation) -> str:
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in e.scores)
    rows = f"<tr><th>score</th>{heads}<th></th></tr>"
    for key, (name, meaning) in SCORE_NAMES.items():
        values = [scores[key] for scores in e.scores.values()]
        losses = [abs(value - 0.9) for value in values] if key == "coverage_90" else values
        cells = ""
        for value, loss in zip(values, losses, strict=True):
            mark = ' class="best"' if min(losses) == loss < max(losses) and key != "width_90" else ""
            text = f"{100 * value:.1f} %" if key == "coverage_90" else f"{value:.4g}"
            cells += f"<td{mark}>{text}</td>"
        rows += f'<tr><td>{name}</td>{cells}<td class="what">{meaning}</td></tr>'
    return f'<div class="scroll"><table>{rows}</table></div>'


def _figure(draw: Callable[..., None], size: tuple[float, float], caption: str, panels: int = 1) -> str:
    with rc_context(PAGE_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = [figure.add_subplot(1, panels, i + 1) for i in range(panels)]
        draw(*axes)
        content = io.BytesIO()
        figure.savefig(content, format="png", metadata={"Software": None})
    text = html.escape(caption)
    image = base64.b64encode(content.getvalue()).decode()
    return f'<figure><img alt="{text}" src="data:image/png;base64,{image}"><figcaption>{text}</figcaption></figure>'


def _band_rows(e: Evaluation) -> Tensor:
    """Rows of the band plot: consecutive times from the middle, or evenly spaced by predicted mean."""
    if e.place is None:
        order = e.prediction.mean.argsort()
        return order[torch.linspace(0, len(order) - 1, min(MAX_BAND_ROWS, len(order))).round().long()]
    rows = np.arange(len(e.y)) if e.shown is None else e.shown.nonzero()[:, 0].numpy()
    rows = rows[np.argsort(e.place[rows], kind="stable")]
    start = max(0, (len(rows) - MAX_BAND_ROWS) // 2)
    return torch.as_tensor(rows[start : start + MAX_BAND_ROWS])


def _draw_bands(e: Evaluation, axes: Axes) -> None:
    rows = _band_rows(e)
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


def _draw_epistemic(e: Evaluation, axes: Axes) -> None:
    error, std = (e.y - e.prediction.mean).abs().numpy(), e.prediction.std.numpy()
    epistemic = e.prediction.epistemic.sqrt().numpy()
    dots = np.linspace(0, len(error) - 1, min(MAX_ERROR_DOTS, len(error))).astype(int)
    axes.plot(epistemic[dots], error[dots], ".", color=PALE_BLUE, ms=4, label="one value")
    n_groups = max(1, min(MAX_GROUPS, len(epistemic) // MIN_GROUP_ROWS))
    groups = np.array_split(np.argsort(epistemic, kind="stable"), n_groups)
    centres = [epistemic[group].mean() for group in groups]
    rmse = [np.sqrt((error[group] ** 2).mean()) for group in groups]
    axes.plot(centres, rmse, "o-", color=INK, ms=4, label="RMSE of a group")
    axes.plot(centres, [std[group].mean() for group in groups], color=ORANGE, lw=1, label="predicted std")
    low, high = epistemic.min(), epistemic.max()
    if low > 0 and high / low > 20:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    axes.set_ylim(0, 1.15 * np.quantile(error, 0.995) + 1e-12)
    axes.set(xlabel="epistemic standard deviation", ylabel="absolute error")
    axes.legend(loc="upper left", fontsize="small")


def _draw_lead_times(e: Evaluation, left: Axes, right: Axes) -> None:
    assert e.step is not None
    steps = e.step.unique()
    for i, (name, p) in enumerate({"model": e.prediction, **e.baselines}.items()):
        squares, style = (e.y - p.mean).square(), ("-", "-", "--", ":", "-.")[i]
        rmse = [squares[e.step == s].mean().sqrt() for s in steps]
        left.plot(steps, rmse, style, color=GREY if i else BLUE, lw=2, label=name)
    covered = ((e.lower <= e.y) & (e.y <= e.upper)).double()
    right.plot(steps, [covered[e.step == s].mean() for s in steps], color=BLUE, lw=2)
    right.axhline(0.9, color=GREY, lw=1, ls="--")
    left.set(xlabel="lead time (steps)", ylabel="RMSE", ylim=(0, None))
    right.set(xlabel="lead time (steps)", ylabel="90 % PI coverage", ylim=(0, 1.02))
    left.legend(loc="best", fontsize="small")
