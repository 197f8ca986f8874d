"""Sections of the report about studies and figures, as HTML and as Markdown."""

import html
from base64 import b64encode
from collections.abc import Sequence

from nsac.bench.gallery import Picture, pictures
from nsac.bench.store import Record
from nsac.bench.studies import STUDIES
from nsac.bench.studies.base import Cell, Sheet, Spread, StudyRecord, found, settings


def links_html(records: Sequence[Record], studies: Sequence[StudyRecord]) -> str:
    """Entries of the page's list of places."""
    places = [("figures", "figures")] * bool(_of_grid(records)) + [("studies", "studies")] * bool(studies)
    return "".join(f'<a href="#{place}">{text}</a>' for place, text in places)


def sections_html(records: Sequence[Record], studies: Sequence[StudyRecord]) -> str:
    """Figures of the grid, then a part per study with a record; empty if there is nothing to show."""
    parts = []
    if drawn := _of_grid(records):
        parts.append('<h2 id="figures">The paper\'s figures, from these records</h2>' + "".join(map(_figure, drawn)))
    if studies:
        parts.append('<h2 id="studies">Studies</h2>')
    for name, study in STUDIES.items():
        if not (some := found(name, studies)):
            continue
        sheets = "".join(_sheet(sheet) for sheet in study.sheets(some))
        images = "".join(_figure(p) for p in pictures([], studies) if p.group == name)
        head = f"<h3>{html.escape(study.title)} ({html.escape(study.place)})</h3>"
        parts.append(f"{head}<p class='facts'>{html.escape(_told(name, some))}</p>{images}{sheets}")
    return "\n".join(parts)


def sections_markdown(records: Sequence[Record], studies: Sequence[StudyRecord], folder: str) -> list[str]:
    """The same, with pictures as files in `folder`."""
    parts = []
    if drawn := _of_grid(records):
        parts.append("## The paper's figures, from these records")
        parts += [_image(picture, folder) for picture in drawn]
    if studies:
        parts.append("## Studies")
    for name, study in STUDIES.items():
        if not (some := found(name, studies)):
            continue
        parts += [f"### {study.title} ({study.place})", _told(name, some)]
        parts += [_image(picture, folder) for picture in pictures([], studies) if picture.group == name]
        for sheet in study.sheets(some):
            lines = [sheet.head, ["---"] * len(sheet.head), *([cell_text(c) for c in row] for row in sheet.rows)]
            table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
            parts += [f"**{sheet.title}**", table, sheet.note]
    return parts


def cell_text(cell: Cell, brief: bool = False) -> str:
    """A cell as people read it; `brief`: without deviations."""
    if cell is None:
        return ""
    if isinstance(cell, Spread):
        mean = "not finite" if cell.mean is None else f"{cell.mean:.3g}" if brief else f"{cell.mean:.4g}"
        return mean + (f" ± {cell.std:.2g}" if cell.std and not brief else "")
    if isinstance(cell, float) and not (cell.is_integer() and abs(cell) < 1e9):
        return f"{cell:.4g}"
    return cell if isinstance(cell, str) else f"{cell:.0f}"


def _of_grid(records: Sequence[Record]) -> list[Picture]:
    return pictures(records)


def _told(name: str, some: Sequence) -> str:
    """How much of a study there is, and what it took."""
    all_names = {setting.name for setting in settings(name)}
    records = {record.name: record for _, record in some}.values()
    minutes = sum(record.seconds["cpu"] for record in records) / 60
    left = len(all_names) - len(records)
    missing = f"; {left} of {len(all_names)} settings have no record" if left else ""
    return f"{len(records)} records, {minutes:.1f} minutes of one core{missing}."


def _figure(picture: Picture) -> str:
    data = b64encode(picture.png()).decode()
    caption = html.escape(f"{picture.place}. {picture.caption}")
    image = f'<img alt="{html.escape(picture.caption)}" src="data:image/png;base64,{data}">'
    return f'<figure class="picture" id="{picture.name}">{image}<figcaption>{caption}</figcaption></figure>'


def _image(picture: Picture, folder: str) -> str:
    return f"![{picture.caption}]({folder}/{picture.name}.png)\n\n*{picture.place}. {picture.caption}*"


def _sheet(sheet: Sheet) -> str:
    heads = "".join(f"<th><button>{html.escape(name)}</button></th>" for name in sheet.head)
    lines = []
    for row in sheet.rows:
        kind = "ours" if row[0] == "nsac" else ""
        lines.append(f'<tr class="{kind}">{"".join(map(_cell, row))}</tr>')
    table = f'<table class="sortable"><thead><tr>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    note = f"<p class='facts'>{html.escape(sheet.note)}</p>"
    return f"<h4>{html.escape(sheet.title)}</h4><div class='scroll'>{table}</div>{note}"


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{html.escape(cell)}</td>"
    value = cell.mean if isinstance(cell, Spread) else cell
    return f'<td data-value="{"" if value is None else value}">{html.escape(cell_text(cell))}</td>'
