"""How wrong it is to freeze the gates between updates: the paper's Table 3 and Figure 7."""

from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from nsac.lab.grid.sheet import Sheet, spread
from nsac.lab.grid.table import paper_table
from nsac.lab.studies.base import Found, Outcome, Study, rounded
from nsac.lab.studies.figure import step_figure
from nsac.lab.studies.frozen import LABELS, REGIMES, TABLE_NOTE, frozen_analysis, step_series, trained_layer


def run(config: dict[str, Any]) -> Outcome:
    """Errors in every regime of one trained layer, and its step change."""
    layer = trained_layer(config["seed"], config["steps"])
    metrics = {}
    for record in frozen_analysis(layer, config["updates"]):
        numbers = asdict(record)
        regime = numbers.pop("regime")
        metrics |= {f"{regime}_{name}": value for name, value in numbers.items()}
    series = step_series(layer, config["updates"])
    return Outcome(metrics, {name: rounded(values) for name, values in series.items()})


def sheets(found: Found) -> list[Sheet]:
    """Ours and the paper's, a pair of columns per regime; the last rows are not in the paper."""
    paper, rows = paper_table("table_3"), []
    for field, label in LABELS.items():
        line: list = [label]
        for regime in REGIMES:
            line += [
                spread(record.metrics[f"{regime}_{field}"] for _, record in found),
                paper[regime].get(field),
            ]
        rows.append(line)
    head = ["in %", *(text for regime in REGIMES for text in (f"{regime}, ours", "paper"))]
    return [Sheet("Freezing the gates between updates", head, rows, TABLE_NOTE)]


def draw(found: Found) -> Figure:
    """The step change in one head of the first layer."""
    return step_figure(found[0][1].series)


STUDY = Study(
    "freezing",
    "Freezing the gates between updates",
    "Table 3, Figure 7",
    "A step change in one head of a trained layer: the drive, the gates as they vary and as they are held, the logit, "
    "and the error of holding them.",
    run,
    sheets,
    draw,
)
