"""Tables of the grid: all tasks by metric, comparison with the paper, and one table per task."""

import html
import math
from collections.abc import Callable, Iterable, Sequence

from nsac.lab.grid.config import NEURAL, PROTOCOLS, config_names, methods_of
from nsac.lab.grid.store import Record
from nsac.lab.grid.table import SIGNIFICANCE_LEVEL, Row, against_best, place
from nsac.lab.report.summary import METRICS, Groups

PAPER_METRICS = ("mse", "nll", "crps", "ece_paper")  # metrics that the paper prints
HALF_METRICS = ("polation_mse", "polation_crps")
"""Endings of the metrics of interpolation and extrapolation, which follow those of `METRICS`."""
_COMPARISON_TEXT = (
    "NSAC of this library compared with the numbers that the paper prints for NSAC, under the paper's protocol where a "
    "task has it; lower is better."
)


def metric_table(
    groups: Groups, rows: Iterable[Row], protocol: str, metric: str, cell: Callable[[Row | None, float | None], str]
) -> tuple[list[str], list[list[str]]]:
    """Head and lines of a table of methods by tasks, the paper's methods first.

    `cell` has a row and its p-value against the best method of its task: None for the best, NaN if it is not compared.
    """
    tasks = [task for task, kind in groups if kind == protocol]
    cells = {(r["method"], r["task"]): r for r in rows if (r["protocol"], r["metric"]) == (protocol, metric)}
    p_values = {task: against_best(groups[task, protocol], metric) for task in tasks}
    ranks = sorted(place(task, protocol, method)[2] for method, task in cells)
    lines = []
    for method in dict.fromkeys(method for _, method in ranks):
        texts = [cell(cells.get((method, task)), p_values[task].get(method, math.nan)) for task in tasks]
        lines.append([method, *texts])
    return ["method", *tasks], lines


def overview_table(groups: Groups, rows: Sequence[Row]) -> str:
    """Methods by tasks, with a choice of protocol and metric."""
    protocols = [protocol for protocol in PROTOCOLS if any(kind == protocol for _, kind in groups)]
    metrics = [name for name in METRICS if any(row["metric"] == name for row in rows)]
    choices = "".join(f"<option>{protocol}</option>" for protocol in protocols)
    options = "".join(f'<option value="{name}">{METRICS[name][0]}</option>' for name in metrics)
    selects = f"<label>protocol <select>{choices}</select></label><label>metric <select>{options}</select></label>"
    tables = []
    for protocol, metric in ((protocol, metric) for protocol in protocols for metric in metrics):
        caption = html.escape(": ".join(METRICS[metric]))
        table = _table(*metric_table(groups, rows, protocol, metric, _cell))
        tables.append(f'<div data-choice="{protocol} {metric}"><p class="facts">{caption}</p>{table}</div>')
    return f'<div class="chooser"><div class="controls">{selects}</div>{"".join(tables)}</div>'


def paper_comparison(rows: Sequence[Row]) -> str:
    """Our NSAC and the paper's, metric by metric."""
    body = []
    for row in rows:
        if row["method"] == "nsac" and row["paper"] is not None and row["mean"] is not None:
            lower = row["mean"] < row["paper"]
            ratio = row["mean"] / row["paper"] if row["paper"] > 0 and row["mean"] > 0 else None
            cells = [
                f"<td>{row['metric']}</td>",
                _value_cell(row, "best" if lower else "", "lower than the paper's" if lower else ""),
                _paper_cell(row),
                '<td data-value=""></td>' if ratio is None else f'<td data-value="{ratio}">{ratio:.3g}</td>',
                f"<td>{'lower' if lower else 'not lower'}</td>",
            ]
            body.append([row["task"], *cells])
    if not body:
        return "<p>There are no runs of nsac under the paper's protocol.</p>"
    head = ["task", "metric", "nsac, ours", "NSAC, paper", "ours / paper", "ours is"]
    return f"<p class='text'>{_COMPARISON_TEXT}</p>{_table(head, body)}"


def task_table(records: Sequence[Record], rows: Sequence[Row]) -> str:
    """Methods by metrics of one task and protocol, with the paper's numbers beside ours."""
    cells = {(row["method"], row["metric"]): row for row in rows}
    found = list(dict.fromkeys(row["metric"] for row in rows))
    metrics = [name for name in METRICS if name in found]
    metrics += [name for name in found if name.endswith(HALF_METRICS)]
    p_values = {name: against_best(records, name) for name in metrics}
    printed = {row["metric"] for row in rows if row["paper"] is not None and row["metric"] in PAPER_METRICS}
    head = ["method", "n"]
    for name in metrics:
        head.append(METRICS[name][0] if name in METRICS else name.replace("_", " "))
        if name in printed:
            head.append("paper")
    body = []
    for method in dict.fromkeys(row["method"] for row in rows):
        count = max(row["n"] for row in rows if row["method"] == method)
        line = [method, f'<td data-value="{count}">{count}</td>']
        for name in metrics:
            row = cells.get((method, name))
            line.append(_cell(row, p_values[name].get(method, math.nan)))
            if name in printed:
                line.append(_paper_cell(row))
        body.append(line)
    return _table(head, body)


def html_table(head: Sequence[str], lines: Iterable[tuple[str, Sequence[str]]]) -> str:
    """A table that can be sorted, from the style and the cells of each line."""
    heads = "".join(f"<th><button>{html.escape(name)}</button></th>" for name in head)
    body = "".join(f'<tr class="{kind}">{"".join(cells)}</tr>' for kind, cells in lines)
    table = f'<table class="sortable"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    baselines = {method for task in config_names() for method in methods_of(task)} - set(NEURAL)
    kinds = {"nsac": "ours", **dict.fromkeys(baselines, "baseline")}
    return html_table(head, [(kinds.get(name, ""), [f"<td>{html.escape(name)}</td>", *cells]) for name, *cells in body])


def _cell(row: Row | None, p: float | None) -> str:
    if row is None or row["mean"] is None:
        return f'<td data-value="">{"" if row is None else "not finite"}</td>'
    if p is None:
        return _value_cell(row, "best", "best mean")
    if math.isnan(p):
        return _value_cell(row)
    return _value_cell(row, "tied" if p >= SIGNIFICANCE_LEVEL else "", f"p = {p:.2g}")


def _value_cell(row: Row, kind: str = "", title: str = "") -> str:
    shown = f' title="{title}"' if title else ""
    return f'<td class="{kind}" data-value="{row["mean"]}"{shown}>{_number(row["mean"], row["std"])}</td>'


def _paper_cell(row: Row | None) -> str:
    if row is None or row["paper"] is None:
        return '<td class="paper" data-value=""></td>'
    return f'<td class="paper" data-value="{row["paper"]}">{_number(row["paper"], row["paper_std"])}</td>'


def _number(mean: float, std: float | None) -> str:
    return f"{mean:.4g}" + ("" if std is None else f" <small>&plusmn; {std:.2g}</small>")
