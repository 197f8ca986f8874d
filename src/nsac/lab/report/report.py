"""The report: one HTML page that needs no other, and the same tables as Markdown."""

import html
import json
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from nsac.lab.grid.config import NEURAL, PAPER_TASKS, PROTOCOLS, config_names, grid, methods_of
from nsac.lab.grid.sheet import Section
from nsac.lab.grid.store import Record
from nsac.lab.grid.table import LEVEL, Row, against_best, place, table_rows
from nsac.lab.report.sections import links_html, sections_html, sections_markdown
from nsac.lab.studies.base import StudyRecord

METRICS = {
    "mse": ("MSE", "squared error of the mean"),
    "crps": ("CRPS", "error of the whole distribution"),
    "crps_calibrated": ("CRPS, calibrated", "after the variance scale"),
    "nll": ("NLL", "negative log-likelihood of what came"),
    "nll_calibrated": ("NLL, calibrated", "after the variance scale"),
    "ece_paper": ("ECE", "the paper's calibration error, in our reading"),
    "calibration_error": ("calib.", "mean distance of the reliability curve from the diagonal"),
    "coverage_90": ("90 %", "share inside the 90 % interval; should be 0.9"),
    "coverage_90_calibrated": ("90 %, conformal", "the same for split-conformal intervals"),
    "width_90": ("width", "of the 90 % interval"),
    "width_90_calibrated": ("width, conformal", "of the split-conformal interval"),
    "fit_seconds": ("fit, s", "CPU seconds of fitting"),
    "predict_seconds": ("predict, s", "CPU seconds of predicting the test part once"),
}
"""Columns of a task's table: heading, and what it says."""

PRINTED = ("mse", "nll", "crps", "ece_paper")
"""Metrics the paper prints."""

PROTOCOL_TEXT = {
    "paper": "As close to the paper as its text allows: its splits, its scaling, its inputs; what it does not say is "
    "said below, task by task. Here the paper's numbers stand beside ours.",
    "sound": "As it should be done: standard or honest splits, nothing of the test part known beforehand, scores in "
    "units that others publish. The paper has no numbers for it; driving has this protocol alone.",
}

FIGURES = """<div class="pair">
<figure class="reliability" data-of="{of}">
<div class="controls">
<select><option value="raw">raw</option><option value="calibrated">calibrated</option></select></div>
<div class="plot"></div><div class="legend controls"></div>
<figcaption>Reliability, all seeds: of all test values, what share lay below the predicted 5 %, 10 %, ... quantile? On
the dashed line the probabilities are right.</figcaption>
</figure>
<figure class="bands" data-of="{of}">
<div class="controls"><select></select><label><input type="checkbox"> sorted by prediction</label>
<label><input type="checkbox"> as seen from the prediction</label></div>
<div class="plot"></div><div class="told"></div>
<figcaption>Some test values (dots; orange: outside), the predicted mean, its conformal 90 % interval (blue) and the
part that is epistemic (orange band). Point at a dot for its numbers.</figcaption>
</figure>
</div>"""
"""What the script fills, per task and protocol."""

OFF = 0.02
"""Calibrated coverage further than this from 0.9 is said in the notes."""

Group = dict[tuple[str, str], list[Record]]


def report_page(records: Sequence[Record], studies: Sequence[StudyRecord] = (), parts: Sequence[Section] = ()) -> str:
    """HTML with everything in it: no other file, no other place is asked.

    Args:
        records: at least one; of one config per task, protocol, method and seed.
        studies: records of studies, if there are any.
        parts: further sections.
    """
    rows, groups = table_rows(records), _groups(records)
    tasks = list(dict.fromkeys(task for task, _ in groups))
    links = links_html(records, studies, parts) + "".join(f'<a href="#{task}">{task}</a>' for task in tasks)
    sections = "\n".join(_task(task, groups, rows) for task in tasks)
    data = json.dumps({f"{t} {p}": _pictures(some) for (t, p), some in groups.items()}, allow_nan=False)
    data = data.replace("</", "<\\/")  # the end of a script is found before its text is understood
    css, js = ((files("nsac.lab.report") / "page" / f"report.{kind}").read_text("utf-8") for kind in ("css", "js"))
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in notes_of(records))
    protocols = "".join(
        f"<p class='text'><b>{protocol} protocol.</b> {html.escape(PROTOCOL_TEXT[protocol])}</p>"
        for protocol in PROTOCOLS
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>NSAC: the evidence</title>
<link rel="icon" href="data:,">
<style>{css}</style>
</head>
<body>
<h1>NSAC: the evidence</h1>
<p class="lead">{html.escape(_lead(records))}</p>
<p class="facts">{html.escape(_facts(records))}</p>
<nav><a href="#glance">at a glance</a><a href="#paper">beside the paper</a>{links}<a href="#notes">notes</a></nav>
<h2 id="glance">At a glance</h2>
{protocols}
<p class="text">Mean over seeds. <b class="best">Bold</b> is best of its column; blue is not told from it by a paired
t-test over seeds (p &ge; {LEVEL}), without correction for many comparisons. Click a heading to sort.</p>
{_glance(groups, rows)}
<h2 id="paper">Beside the paper</h2>
{_beside(rows)}
{sections_html(records, studies, parts)}
{sections}
<h2 id="notes">Notes</h2>
<ul class="notes">{notes}</ul>
<footer>Made by nsac bench report from records; no number is typed by hand but the paper's.</footer>
<script type="application/json" id="data">{data}</script>
<script>{js}</script>
</body>
</html>
"""


def notes_of(records: Sequence[Record]) -> list[str]:
    """What a reader should know, most of it found in the records themselves."""
    rows, groups = table_rows(records), _groups(records)
    means = {(r["task"], r["protocol"], r["method"], r["metric"]): r["mean"] for r in rows}
    seeds = sorted({record.seed for record in records})
    wanted = {
        (c.task, c.protocol, c.method, c.seed) for c in grid(list(dict.fromkeys(t for t, _ in groups)), seeds=seeds)
    }
    missing = wanted - {(r.task, r.protocol, r.method, r.seed) for r in records}
    notes = [f"{len(missing)} runs of this grid have no record yet; means are over those that are there."] * bool(
        missing
    )
    broken = [r["metric"] for r in rows if r["mean"] is None]
    notes += [f"{len(broken)} means are not finite, since a seed's value was not."] * bool(broken)

    def beaten(protocol: str, metric: str) -> list[str]:
        found = []
        for task, kind in groups:
            ours = means.get((task, kind, "nsac", metric))
            others = {m: v for (t, p, m, s), v in means.items() if (t, p, s) == (task, kind, metric) and v is not None}
            best = min(others, key=others.__getitem__, default="nsac")
            if kind == protocol and ours is not None and best != "nsac":
                found.append(f"{task} ({best}: {others[best]:.4g}, nsac: {ours:.4g})")
        return found

    for protocol in PROTOCOLS:
        if found := beaten(protocol, "crps"):
            notes.append(
                f"In CRPS, {protocol} protocol, another method has a lower mean than nsac on: {', '.join(found)}."
            )
    off = [
        f"{task}, {protocol} ({means[task, protocol, 'nsac', 'coverage_90_calibrated']:.3f})"
        for task, protocol in groups
        if abs((means.get((task, protocol, "nsac", "coverage_90_calibrated")) or 0.9) - 0.9) > OFF
    ]
    if off:
        notes.append(
            f"Conformal 90 % intervals of nsac are more than {100 * OFF:.0f} points off on: {', '.join(off)}. Their "
            "promise holds for rows like those they were calibrated on; another season, rig or bearing is none."
        )
    for task in PAPER_TASKS:
        naive = {m: means.get((task, "paper", m, "mse")) for m in methods_of(task) if m not in NEURAL}
        naive = {method: mean for method, mean in naive.items() if mean is not None}
        theirs = next(
            (r["paper"] for r in rows if (r["task"], r["method"], r["metric"]) == (task, "nsac", "mse")), None
        )
        below = sorted((m for m in naive if theirs is not None and naive[m] < theirs), key=naive.__getitem__)
        if below:
            told = ", ".join(f"{m} {naive[m]:.4g}" for m in below)
            notes.append(
                f"{task}: methods that hardly look are below the MSE the paper prints for NSAC, {theirs:g}: {told}."
            )
    return notes + [
        "The paper gives attention one token per row of a table. A softmax over one key is 1 whatever its logit, so "
        "neither the circuit nor its noise can matter there; here a row becomes several tokens, for every method.",
        "Bearings, paper protocol: the clock is scaled by the length of the run it is in, so a model knows how much of "
        "the test bearing's life is over, and the label is a function of it.",
        "Forecasting tasks have one split, so their seeds differ in initial weights and order of the data only; "
        "deviations there say nothing about other data. Methods without chance have no deviation at all.",
        "The paper's ECE compares a number of deviations with a probability; read so that a perfect prediction scores "
        "0, it is `ece_paper` here. Its own numbers may be of the other reading.",
        "Calibrated scores use rows that chose neither weights nor anything else; the paper does not calibrate.",
    ]


def report_markdown(
    records: Sequence[Record],
    studies: Sequence[StudyRecord] = (),
    folder: str = "figures",
    parts: Sequence[Section] = (),
) -> str:
    """The main tables, studies and notes as a page of the documentation; pictures are files in `folder`."""
    rows, groups = table_rows(records), _groups(records)
    made = ["# Results\n", "Made by `nsac bench report` from the records in `results/bench`.", _lead(records)]
    for protocol in PROTOCOLS:
        tasks = [task for task, kind in groups if kind == protocol]
        if not tasks:
            continue
        made.append(f"## {protocol.capitalize()} protocol\n\n{PROTOCOL_TEXT[protocol]}")
        for metric in ("mse", "crps", "nll", "calibration_error", "coverage_90", "coverage_90_calibrated"):
            cells = {(r["method"], r["task"]): r for r in rows if (r["protocol"], r["metric"]) == (protocol, metric)}
            marks = {task: against_best(groups[task, protocol], metric) for task in tasks}
            lines = [["method", *tasks], ["---"] * (len(tasks) + 1)]
            for method in _methods(cells, tasks, protocol):
                told = [_markdown_cell(cells.get((method, task)), marks[task].get(method, 0.0)) for task in tasks]
                lines.append([method, *told])
            heading, what = METRICS[metric]
            made.append(f"### {heading}: {what}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines))
    made += sections_markdown(records, studies, folder, parts)
    made.append("## Notes\n\n" + "\n".join(f"- {note}" for note in notes_of(records)))
    return "\n\n".join(made) + "\n"


def _groups(records: Sequence[Record]) -> Group:
    groups: Group = {}
    for record in sorted(records, key=lambda r: (place(r.task, r.protocol, r.method), r.seed)):
        groups.setdefault((record.task, record.protocol), []).append(record)
    return groups


def _lead(records: Sequence[Record]) -> str:
    count = {name: len({getattr(r, name) for r in records}) for name in ("task", "method", "seed")}
    hours = sum(r.seconds.get("total_cpu", 0.0) for r in records) / 3600
    return (
        f"{len(records)} runs: {count['task']} tasks, {count['method']} methods, {count['seed']} seeds, "
        f"{hours:.1f} hours of one core. Every number below comes from one record per run."
    )


def _facts(records: Sequence[Record]) -> str:
    commits = sorted({(r.commit or "unknown")[:10] + ("+" if (r.commit or "").endswith("+") else "") for r in records})
    machines = sorted({str(r.machine.get("processor", r.machine.get("architecture", "unknown"))) for r in records})
    torch = sorted({r.versions.get("torch", "unknown") for r in records})
    dates = sorted(r.made[:10] for r in records)
    few = ", ".join(commits[:4]) + (f" and {len(commits) - 4} others" if len(commits) > 4 else "")
    return (
        f"Made {dates[0]} to {dates[-1]} on {', '.join(machines)}; torch {', '.join(torch)}; code {few} "
        "(+: with changes that were not committed)."
    )


def _glance(groups: Group, rows: Sequence[Row]) -> str:
    kinds = [protocol for protocol in PROTOCOLS if any(p == protocol for _, p in groups)]
    metrics = [name for name in METRICS if any(r["metric"] == name for r in rows)]
    options = "".join(f'<option value="{name}">{METRICS[name][0]}</option>' for name in metrics)
    protocols = "".join(f"<option>{protocol}</option>" for protocol in kinds)
    tables = []
    for protocol in kinds:
        tasks = [task for task, kind in groups if kind == protocol]
        for metric in metrics:
            cells = {(r["method"], r["task"]): r for r in rows if (r["protocol"], r["metric"]) == (protocol, metric)}
            marks = {task: against_best(groups[task, protocol], metric) for task in tasks}
            body = [
                (method, [_cell(cells.get((method, task)), marks[task], method) for task in tasks])
                for method in _methods(cells, tasks, protocol)
            ]
            told = f"{METRICS[metric][0]}: {METRICS[metric][1]}"
            tables.append(
                f'<div data-choice="{protocol} {metric}"><p class="facts">{html.escape(told)}</p>'
                f"{_table(['method', *tasks], body)}</div>"
            )
    chosen = f"<label>protocol <select>{protocols}</select></label><label>metric <select>{options}</select></label>"
    return f'<div class="chooser"><div class="controls">{chosen}</div>{"".join(tables)}</div>'


def _beside(rows: Sequence[Row]) -> str:
    body = []
    for row in rows:
        if row["method"] == "nsac" and row["paper"] is not None and row["mean"] is not None:
            better = row["mean"] < row["paper"]
            ours = _cell(row, {"nsac": None} if better else {}, "nsac").replace("best mean", "lower than the paper's")
            theirs = _paper_cell(row)
            ratio = row["mean"] / row["paper"] if row["paper"] > 0 and row["mean"] > 0 else None
            share = f'<td data-value="{"" if ratio is None else ratio}">{"" if ratio is None else f"{ratio:.3g}"}</td>'
            told = "lower" if better else "not lower"
            body.append((row["task"], [f"<td>{row['metric']}</td>", ours, theirs, share, f"<td>{told}</td>"]))
    if not body:
        return "<p>No runs of nsac under the paper's protocol yet.</p>"
    head = ["task", "metric", "nsac, ours", "NSAC, paper", "ours / paper", "ours is"]
    told = "NSAC as it is here against NSAC as the paper prints it, in its protocol where we have it; lower is better."
    return f"<p class='text'>{told}</p>{_table(head, body)}"


def _task(task: str, groups: Group, rows: Sequence[Row]) -> str:
    parts = [f'<h2 id="{html.escape(task)}">{html.escape(task)}</h2>']
    for protocol in PROTOCOLS:
        some = groups.get((task, protocol))
        if not some:
            continue
        own = [r for r in rows if (r["task"], r["protocol"]) == (task, protocol)]
        cells = {(r["method"], r["metric"]): r for r in own}
        metrics = [name for name in METRICS if any(r["metric"] == name for r in own)]
        extra = [r["metric"] for r in own if r["metric"].endswith(("polation_mse", "polation_crps"))]
        metrics += list(dict.fromkeys(extra))
        marks = {name: against_best(some, name) for name in metrics}
        printed = [name for name in PRINTED if any(r["metric"] == name and r["paper"] is not None for r in own)]
        head, body = ["method", "n"], []
        for name in metrics:
            head.append(METRICS[name][0] if name in METRICS else name.replace("_", " "))
            head += ["paper"] if name in printed else []
        for method in dict.fromkeys(r["method"] for r in own):
            count = max(r["n"] for r in own if r["method"] == method)
            line = [f'<td data-value="{count}">{count}</td>']
            for name in metrics:
                row = cells.get((method, name))
                line.append(_cell(row, marks[name], method))
                if name in printed:
                    line.append(_paper_cell(row))
            body.append((method, line))
        sizes = ", ".join(f"{n} {part}" for part, n in some[0].rows.items())
        of = html.escape(f"{task} {protocol}")
        parts.append(
            f"<h3>{protocol} protocol</h3><p class='text'>{html.escape(some[0].text)}</p>"
            f"<p class='facts'>Rows: {sizes}. Unit of the scores: {html.escape(some[0].unit)}.</p>{_table(head, body)}"
            + FIGURES.format(of=of)
        )
    return "\n".join(parts)


def _pictures(some: Sequence[Record]) -> dict:
    methods = {}
    for method in dict.fromkeys(record.method for record in some):
        own = [record for record in some if record.method == method]
        pit = {kind: np.sum([record.pit[kind] for record in own], axis=0).tolist() for kind in own[0].pit}
        methods[method] = {"pit": pit, "bands": own[0].bands}
    return {"methods": methods}


def _methods(cells: dict, tasks: Sequence[str], protocol: str) -> list[str]:
    found = {method for method, _ in cells}
    return sorted(found, key=lambda method: min(place(t, protocol, method)[2] for t in tasks if (method, t) in cells))


def _table(head: Sequence[str], body: Sequence[tuple[str, list[str]]]) -> str:
    heads = "".join(f"<th><button>{html.escape(name)}</button></th>" for name in head)
    naive = {method for task in config_names() for method in methods_of(task)} - set(NEURAL)
    lines = []
    for name, cells in body:
        kind = "ours" if name == "nsac" else "naive" if name in naive else ""
        lines.append(f'<tr class="{kind}"><td>{html.escape(name)}</td>{"".join(cells)}</tr>')
    start = f'<div class="scroll"><table class="sortable"><thead><tr>{heads}</tr></thead>'
    return f"{start}<tbody>{''.join(lines)}</tbody></table></div>"


def _cell(row: Row | None, marks: dict[str, float | None], method: str) -> str:
    if row is None or row["mean"] is None:
        return f'<td data-value="">{"" if row is None else "not finite"}</td>'
    p = marks.get(method, 0.0)
    kind, told = (
        ("best", "best mean") if p is None else ("tied", f"p = {p:.2g}") if p >= LEVEL else ("", f"p = {p:.2g}")
    )
    title = f' title="{told}"' if method in marks else ""
    return f'<td class="{kind}" data-value="{row["mean"]}"{title}>{_number(row["mean"], row["std"])}</td>'


def _paper_cell(row: Row | None) -> str:
    if row is None or row["paper"] is None:
        return '<td class="paper" data-value=""></td>'
    return f'<td class="paper" data-value="{row["paper"]}">{_number(row["paper"], row["paper_std"])}</td>'


def _number(mean: float, std: float | None) -> str:
    return f"{mean:.4g}" + ("" if std is None else f" <small>&plusmn; {std:.2g}</small>")


def _markdown_cell(row: Row | None, p: float | None) -> str:
    if row is None or row["mean"] is None:
        return "" if row is None else "not finite"
    told = f"{row['mean']:.4g}" + ("" if row["std"] is None else f" ± {row['std']:.2g}")
    told = f"**{told}**" if p is None else f"*{told}*" if p >= LEVEL else told
    return told + ("" if row["paper"] is None else f" (paper {row['paper']:g})")
