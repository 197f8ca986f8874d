"""The page of `nsac evaluate`: scores beside a baseline, and plots; one HTML file that needs no other."""

import base64
import html
import io
from collections.abc import Callable, Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure

from nsac.estimators.evaluation import Evaluation
from nsac.estimators.figures import band_rows, draw_bands, draw_epistemic, draw_lead_times, has_epistemic
from nsac.uncertainty import plot
from nsac.uncertainty.style import STYLE

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
    """HTML with everything in it.

    Args:
        title: of the page.
        facts: lines about the model and the file.
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
    """Error and coverage in two sentences."""
    model, baseline = e.scores["model"], e.scores["baseline"]
    covered = round(model["coverage_90"] * len(e.y))
    gain = 1 - model["rmse"] / baseline["rmse"] if baseline["rmse"] else 0.0
    comparison = f"{100 * abs(gain):.0f} % {'smaller' if gain >= 0 else 'larger'}"
    return (
        f"The RMSE is {model['rmse']:.4g}, {comparison} than that of {e.baseline_name}. The 90 % prediction intervals "
        f"covered {covered} of {len(e.y)} values ({100 * model['coverage_90']:.1f} %)."
    )


def _section(e: Evaluation, several: bool) -> str:
    heading = f"<h2>{html.escape(e.target)}</h2>" if several else ""
    rows = band_rows(e)
    order = "sorted by predicted mean" if e.place is None else "over time"
    if e.step is not None and len(rows):
        order = f"{order}, each forecast {int(e.step[rows[0]])} steps ahead"
    figures = [
        _figure(
            lambda axes: draw_bands(e, axes), (9, 3.6),
            f"{len(rows)} of {len(e.y)} values {order}. About nine of ten points should lie within the bands. Blue is "
            "the aleatoric uncertainty, the noise in the data; orange adds the epistemic uncertainty of the model.",
        ),
        '<div class="pair">',
        _figure(
            lambda axes: plot.reliability(e.prediction, e.y, axes), (4.6, 4.4),
            "Reliability: the share of the observed values below each predicted quantile. A calibrated prediction is "
            "on the diagonal; the grey band shows the differences that chance explains.",
        ),
        _epistemic_figure(e),
        "</div>",
    ]  # fmt: skip
    if e.step is not None and len(e.step.unique()) > 1:
        caption = (
            "By lead time: RMSE of the model and of the baseline (left), and coverage of the 90 % prediction interval "
            "(right), which should be at the dashed line."
        )
        figures.append(_figure(lambda *axes: draw_lead_times(e, *axes), (9, 3.2), caption, panels=2))
    return "\n".join([heading, f"<p>{html.escape(summary(e))}</p>", _table(e), *figures])


def _table(e: Evaluation) -> str:
    rows = [_row(key, e.scores["model"][key], e.scores["baseline"][key]) for key in SCORE_NAMES]
    head = f"<tr><th>score</th><th>model</th><th>{html.escape(e.baseline_name)}</th><th></th></tr>"
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _row(key: str, model: float, baseline: float) -> str:
    """A score of both; the better one is marked."""
    name, meaning = SCORE_NAMES[key]
    values = [model, baseline]
    losses = [abs(value - 0.9) for value in values] if key == "coverage_90" else values
    cells = ""
    for value, loss in zip(values, losses, strict=True):
        mark = ' class="best"' if loss < max(losses) and key != "width_90" else ""
        text = f"{100 * value:.1f} %" if key == "coverage_90" else f"{value:.4g}"
        cells += f"<td{mark}>{text}</td>"
    return f'<tr><td>{name}</td>{cells}<td class="what">{meaning}</td></tr>'


def _epistemic_figure(e: Evaluation) -> str:
    if not has_epistemic(e):
        return "<figure><figcaption>This model has no epistemic variance.</figcaption></figure>"
    return _figure(
        lambda axes: draw_epistemic(e, axes), (4.6, 4.4),
        "Error against epistemic standard deviation. Black: RMSE in groups of equally many values, in ascending order "
        "of epistemic standard deviation; orange: the predicted standard deviation. Both should rise.",
    )  # fmt: skip


def _figure(draw: Callable[..., None], size: tuple[float, float], caption: str, panels: int = 1) -> str:
    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = [figure.add_subplot(1, panels, i + 1) for i in range(panels)]
        draw(*axes)
        content = io.BytesIO()
        figure.savefig(content, format="png", metadata={"Software": None})
    text = html.escape(caption)
    image = base64.b64encode(content.getvalue()).decode()
    return f'<figure><img alt="{text}" src="data:image/png;base64,{image}"><figcaption>{text}</figcaption></figure>'
