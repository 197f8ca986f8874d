"""The model card beside a saved model: what it was fitted on, how it is calibrated, and its limits, as Markdown.

It is made of the fitted state alone, without a time or a path: equal models have equal cards, also after loading.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nsac.methods import NSACMethod

if TYPE_CHECKING:
    from nsac.estimators.base import AbstractEstimator

COVERAGES = {0.5: 0.674, 0.8: 1.282, 0.9: 1.645, 0.95: 1.960}
"""Nominal coverages of the card, and half of the interval of a Gaussian, in standard deviations."""
MAX_LISTED = 10  # categories of a column that are listed
MAX_CHARACTERS = 80  # of a name
LINKS = {"identity": "as it is", "log": "its logarithm", "softplus": "its inverse softplus", "logit": "its logit"}
PUNCTUATION = re.compile(r"([\\`*_\[\]<>|~&$])")
"""Characters that Markdown may read as markup in the middle of a line."""


def model_card(estimator: "AbstractEstimator", versions: Mapping[str, str]) -> str:
    """The card of a fitted estimator; `versions` are those of the libraries."""
    model: Any = estimator
    table = type(model).__name__ == "NSACRegressor"
    targets = [str(name) for name in (model.data_.get("targets") or ())] if table else model.targets_
    sections = {
        "Use": _use(model, table),
        "Training data": _table_data(model, targets) if table else _series_data(model),
        "Model": _table_model(model) if table else _series_model(model),
        "Calibration": _calibration(model.calibration_),
        "Scores": _scores(model, table, targets),
        "Limits": _limits(model, table),
        "Versions": [f"- {name} {version}" for name, version in versions.items()],
    }
    what = "predicts" if table else "forecasts"
    head = f"A `{type(model).__name__}` with the uncertainty method `{model.method}`. It {what} {_names(targets)}."
    lines = [f"# Model card: {_names(targets)}", "", head]
    for title, content in sections.items():
        lines += ["", f"## {title}", "", *content]
    return "\n".join(lines) + "\n"


def escape(text: object) -> str:
    """Text of a user on one line of Markdown, without any markup."""
    line = "".join(c if c.isprintable() else " " for c in str(text))
    if len(line) > MAX_CHARACTERS:
        line = f"{line[: MAX_CHARACTERS - 3]}..."
    return PUNCTUATION.sub(r"\\\1", line)


def _names(names: Sequence[str]) -> str:
    return ", ".join(escape(name) for name in names) or "a target without a name"


def _use(model: Any, table: bool) -> list[str]:
    call = "model.predict_frame(rows)" if table else "model.predict(frame)"
    what = "one row each" if table else "the steps after the last row of each series"
    return [
        "```python", "import nsac", "", 'model = nsac.load("PATH/OF/THIS/FOLDER")',
        f"predictions = {call}  # mean, std, 90 % interval; {what}", "```", "",
        "Or on the command line: `nsac predict FOLDER rows.csv`. Loading executes nothing that is in the folder, and "
        "verifies its checksum.",
    ]  # fmt: skip


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Cells are Markdown already."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]


def _number(value: float) -> str:
    return f"{float(value):.4g}"


def _table_data(model: Any, targets: Sequence[str]) -> list[str]:
    data = model.data_
    lines = [f"- Rows: {data['rows']}"]
    if data.get("dropped"):
        lines[0] += f", without {data['dropped']} whose target was missing"
    groups = getattr(model.calibration_, "groups", None)
    if groups is not None:
        named = f" (column {escape(data['groups'])})" if data.get("groups") else ""
        lines.append(f"- Groups{named}: {len(groups.unique())}, each predicted without its own rows")
    if data.get("weights"):
        lines.append(f"- Sample weights: column {escape(data['weights'])}")
    means, stds = data.get("mean", model.centre_), data.get("std", model.scale_)
    for i, (mean, std) in enumerate(zip(means, stds, strict=True)):
        name = escape(targets[i]) if targets else str(i)
        lines.append(f"- Target {name}: mean {_number(mean)}, standard deviation {_number(std)}")
    lines += [f"- Digest of the rows: `{data['sha256']}`", ""]
    return lines + _table(("input", "kind", "training values"), _columns(model))


def _columns(model: Any) -> list[tuple[str, str, str]]:
    """Name, kind and values of each input of a table."""
    columns, rows, j = model.columns_, [], 0
    ranges = None if model.components_ is None else model.components_.ranges
    for i, name in enumerate(columns.names):
        if i in columns.categories:
            found = [escape(each) for each in columns.categories[i]]
            listed = ", ".join(found[:MAX_LISTED]) + (", ..." if len(found) > MAX_LISTED else "")
            rows.append((escape(name), "category", f"{len(found)}: {listed}"))
            continue
        kind, width, days = "number", 1, None
        if i in columns.dates:
            features = columns.dates[i].names
            kind, width, days = "date", len(features), features.index("days")
        k = j + (days or 0)
        centre, scale = columns.centre[k], columns.scale[k]
        values = f"mean {_number(centre)}, standard deviation {_number(scale)}"
        if days is not None:
            values = f"from {columns.dates[i].first} on"
        if ranges is not None:
            low, high = (centre + scale * float(each[k]) for each in (ranges.lower, ranges.upper))
            values = f"{_number(low)} to {_number(high)}"
            if days is not None:
                first = np.datetime64(columns.dates[i].first, "D")
                values = f"{first} to {first + np.timedelta64(round(high), 'D')}"
        rows.append((escape(name), kind, values))
        j += width
    return rows


def _series_data(model: Any) -> list[str]:
    data, columns = getattr(model, "data_", {}), model.columns_
    lines = []
    if data:
        lines.append(f"- Rows: {data['rows']}, of {data['series']} series")
        lines.append(f"- Times: {escape(data['first'])} to {escape(data['last'])}")
        lines += [f"- Missing values of {escape(name)}: {n}" for name, n in data["missing"].items()]
    axis = model.axis_ if model.encoding_ == "events" else model.preprocessor_.axis
    lines.append(f"- Step: {axis.describe()}; forecasts of {model.horizon_} steps from the last {model.lookback_}")
    reason = PUNCTUATION.sub(r"\\\1", model.encoding_reason_)
    lines.append(f"- {reason or f'Encoding {model.encoding_!r}'}")
    rows = [("time", columns.time), ("series", columns.series)]
    for role in ("covariates", "known_future", "static"):
        rows += [(role.replace("_", " "), name) for name in getattr(columns, role, ())]
    return lines + ["", *_table(("role", "column"), [(role, escape(name)) for role, name in rows if name is not None])]


def _table_model(model: Any) -> list[str]:
    learned = LINKS[model.link_.name]
    lines = [f"- Ensemble members: {len(model.members_)}", f"- The target is learned {learned}."]
    if learned != LINKS["identity"]:
        lines[-1] = f"- What is learned of the target is {learned}."
    if model.components_ is not None:
        names = ("ensemble of attention circuits", "Gaussian process", "boosted trees")
        weights = model.components_.stack.weights.reshape(len(names), -1).mean(1).tolist()
        listed = ", ".join(f"{name} {weight:.2f}" for name, weight in zip(names, weights, strict=True))
        lines.append(f"- Weights of the models in the mean, whose sum need not be 1: {listed}")
    return [*lines, _seed(model)]


def _series_model(model: Any) -> list[str]:
    cycles = ", ".join(model.cycles_) or "none"
    lines = [f"- Ensemble members: {len(model.members_)}", f"- Cycles of the calendar: {cycles}"]
    stacks = [each.stack for each in model.members_ if isinstance(each, NSACMethod) and each.stack is not None]
    if stacks:
        shares = ", ".join(f"{float(stack.choice[0]):g}" for stack in stacks)
        lines.append(f"- Share of boosted trees in the forecasts of each member: {shares}")
    return [*lines, _seed(model)]


def _seed(model: Any) -> str:
    fixed = isinstance(model.random_state, (int, np.integer))  # a generator cannot be saved
    return f"- `random_state`: {int(model.random_state) if fixed else 'none'}"


def _calibration(calibration: Any) -> list[str]:
    """Number of scores, margins of the conformal intervals, and how Gaussian intervals would have done."""
    events = hasattr(calibration, "column")
    scores = calibration.scores if events else calibration.scores.flatten(1)
    counts = (~scores.isnan()).sum(0)
    low, high = int(counts.min()), int(counts.max())
    what = f"{low} forecasts of all lead times" if events else f"{low} held-out rows"
    if not events and high > low:
        what = f"{low} to {high} held-out values of each output or lead time"
    rows = []
    for coverage, gaussian in COVERAGES.items():
        margin = calibration.margins(coverage) if events else calibration.margin(coverage).flatten()
        inside = (scores <= gaussian).sum() / counts.sum()
        rows.append((f"{100 * coverage:.0f} %", _span(margin), gaussian, f"{100 * float(inside):.1f} %"))
    intro = f"Conformal prediction intervals, from {what} that the models predicted without having seen them."
    head = ("coverage", "margin (predicted std)", "margin of a Gaussian", "held-out values within the latter")
    return [intro, "", *_table(head, rows)]


def _span(margin: Tensor) -> str:
    finite = margin[torch.isfinite(margin)]
    if not len(finite):
        return "too few rows"
    low, high = float(finite.min()), float(finite.max())
    return f"{low:.3f}" if math.isclose(low, high) else f"{low:.3f} to {high:.3f}"


def _scores(model: Any, table: bool, targets: Sequence[str]) -> list[str]:
    file = "rows.csv" if table else "series.csv"
    advice = f"Score it on rows that it has not seen: `nsac evaluate FOLDER {file} --out report.html`."
    errors = model.data_.get("left_out_mse") if table else None
    if errors is None:
        return [f"None were recorded. {advice}"]
    plain, rows = model.link_.name == "identity", []
    for i, error in enumerate(errors):
        rmse = _number(error**0.5 * model.scale_[i]) if plain else "-"
        rows.append((escape(targets[i]) if targets else str(i), f"{1 - error:.3f}", rmse))
    note = "Of rows of left-out groups."
    if model.calibration_.groups is None:
        note = "Of left-out rows, which also chose the weights of the models, so slightly optimistic."
    if not plain:
        note += " The first score is on the scale that is learned."
    return [f"{note} {advice}", "", *_table(("target", "explained share of the variance", "RMSE"), rows)]


def _limits(model: Any, table: bool) -> list[str]:
    if not table:
        return [
            "- Intervals have their coverage while the series behaves as in training; after a change of its behaviour "
            "they do not, until `update` or a new fit.",
            "- Forecasts beyond the horizon are refused.",
        ]
    grouped = getattr(model.calibration_, "groups", None) is not None
    exchange = "new groups are exchangeable with those" if grouped else "new rows are exchangeable with those"
    lines = [f"- The coverage is that over all rows, and needs that {exchange} of training: no drift, no selection."]
    if not grouped:
        lines.append("- Rows that belong together (one machine, one patient) need `groups` in `fit`; there were none.")
    if model.components_ is not None:
        lines.append(
            "- Outside of the training values above, predictions extrapolate: their epistemic variance grows with the "
            "distance, and `nsac predict` prints how many rows are concerned. `ood_score` ranks rows by it."
        )
    lines.append("- A category that was not in training counts as missing.")
    if model.target_range is not None:
        low, high = (bound if bound is not None else "none" for bound in model.target_range)
        lines.append(f"- Predictions stay within the bounds {escape(low)} and {escape(high)}.")
    return lines
