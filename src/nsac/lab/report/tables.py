"""HTML tables of the grid: all tasks by metric, comparison with the paper, and one table per task."""

import html
from collections.abc import Mapping, Sequence

from nsac.lab.grid.config import NEURAL, PROTOCOLS, config_names, methods_of
from nsac.lab.grid.store import Record
from nsac.lab.grid.table import SIGNIFICANCE_LEVEL, Row, against_best
from nsac.lab.report.summary import METRICS, Groups, cells_of, order_methods

PAPER_METRICS = ("mse", "nll", "crps", "ece_paper")
"""Metrics that the paper prints."""

HALF_METRICS = ("polation_mse", "polation_crps")
"""Endings of the metrics of interpolation and extrapolation, which follow those of `METRICS`."""


def overview_table(groups: Groups, rows: Sequence[Row]) -> str:
    """Methods by tasks, with a choice of protocol and metric."""
    protocols = [protocol for protocol in PROTOCOLS if any(kind == protocol for _, kind in groups)]
    metrics = [name for name in METRICS if any(row["metric"] == name for row in rows)]
    tables = "".join(_overview(groups, rows, protocol, metric) for protocol in protocols for metric in metrics)
    choices = "".join(f"<option>{protocol}</option>" for protocol in protocols)
    options = "".join(f'<option value="{name}">{METRICS[name][0]}</option>' for name in metrics)
    selects = f"<label>protocol <select>{choices}</select></label><label>metric <select>{options}</select></label>"
    return f'<div class="chooser"><div class="controls">{selects}</div>{tables}</div>'


def _overview(groups: Groups, rows: Sequence[Row], protocol: str, metric: str) -> str:
    tasks = [task for task, kind in groups if kind == protocol]
    cells = cells_of(rows, protocol, metric)
    p_values = {task: against_best(groups[task, protocol], metric) for task in tasks}
    body = []
    for method in order_methods(cells, protocol):
        body.append((method, [_cell(cells.get((method, task)), p_values[task], method) for task in tasks]))
    heading, definition = METRICS[metric]
    caption = html.escape(f"{heading}: {definition}")
    table = _table(["method", *tasks], body)
    return f'<div data-choice="{protocol} {metric}"><p class="facts">{caption}</p>{table}</div>'


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
            body.append((row["task"], cells))
    if not body:
        return "<p>There are no runs of nsac under the paper's protocol.</p>"
    head = ["task", "metric", "nsac, ours", "NSAC, paper", "ours / paper", "ours is"]
    return f"<p class='text'>{_COMPARISON_TEXT}</p>{_table(head, body)}"


_COMPARISON_TEXT = (
    "NSAC of this library compared with the numbers that the paper prints for NSAC, under the paper's protocol where a "
    "task has it; lower is better."
)


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
        line = [f'<td data-value="{count}">{count}</td>']
        for name in metrics:
            row = cells.get((method, name))
            line.append(_cell(row, p_values[name], method))
            if name in printed:
                line.append(_paper_cell(row))
        body.append((method, line))
    return _table(head, body)


def _table(head: Sequence[str], body: Sequence[tuple[str, list[str]]]) -> str:
    heads = "".join(f"<th><button>{html.escape(name)}</button></th>" for name in head)
    baselines = {method for task in config_names() for method in methods_of(task)} - set(NEURAL)
    lines = []
    for name, cells in body:
        kind = "ours" if name == "nsac" else "baseline" if name in baselines else ""
        lines.append(f'<tr class="{kind}"><td>{html.escape(name)}</td>{"".join(cells)}</tr>')
    start = f'<div class="scroll"><table class="sortable"><thead><tr>{heads}</tr></thead>'
    return f"{start}<tbody>{''.join(lines)}</tbody></table></div>"


def _cell(row: Row | None, p_values: Mapping[str, float | None], method: str) -> str:
    """A mean; `p_values` are those of `against_best`."""
    if row is None or row["mean"] is None:
        return f'<td data-value="">{"" if row is None else "not finite"}</td>'
    if method not in p_values:
        return _value_cell(row)
    p = p_values[method]
    if p is None:
        return _value_cell(row, "best", "best mean")
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
