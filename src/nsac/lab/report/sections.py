"""Sections of the report besides the tables of the grid, as HTML and as Markdown: figures, studies, further ones."""

import html
from base64 import b64encode
from collections.abc import Sequence

from nsac.lab.grid.sheet import Cell, Section, Sheet, Spread
from nsac.lab.grid.store import Record
from nsac.lab.report.gallery import Picture, pictures
from nsac.lab.studies import STUDIES
from nsac.lab.studies.base import Setting, StudyRecord, found, settings


def links_html(records: Sequence[Record], studies: Sequence[StudyRecord], further: Sequence[Section] = ()) -> str:
    """Links of the navigation bar."""
    anchors = []
    if pictures(records):
        anchors.append("figures")
    if studies:
        anchors.append("studies")
    anchors += [section.anchor for section in further]
    return "".join(f'<a href="#{anchor}">{anchor}</a>' for anchor in anchors)


def sections_html(records: Sequence[Record], studies: Sequence[StudyRecord], further: Sequence[Section] = ()) -> str:
    """Figures of the grid, one section per study that has a record, and the further sections."""
    blocks = []
    if drawn := pictures(records):
        blocks.append('<h2 id="figures">Figures of the paper, from these records</h2>')
        blocks += [_picture_html(picture) for picture in drawn]
    if studies:
        blocks.append('<h2 id="studies">Studies</h2>')
    for name, study in STUDIES.items():
        if some := found(name, studies):
            blocks.append(f"<h3>{html.escape(study.title)} ({html.escape(study.place)})</h3>")
            blocks.append(f"<p class='facts'>{html.escape(_extent(name, some))}</p>")
            blocks += [_picture_html(picture) for picture in pictures([], studies) if picture.group == name]
            blocks += [_sheet_html(sheet) for sheet in study.sheets(some)]
    for section in further:
        blocks.append(f'<h2 id="{section.anchor}">{html.escape(section.title)}</h2>')
        blocks.append(f'<p class="text">{html.escape(section.text)}</p>')
        blocks += [_image_html(image.name, image.caption, image.content) for image in section.images]
        blocks += [_sheet_html(sheet) for sheet in section.sheets]
    return "\n".join(blocks)


def sections_markdown(
    records: Sequence[Record], studies: Sequence[StudyRecord], folder: str, further: Sequence[Section] = ()
) -> list[str]:
    """The same sections, with figures as files in `folder`."""
    blocks = []
    if drawn := pictures(records):
        blocks.append("## Figures of the paper, from these records")
        blocks += [_picture_markdown(picture, folder) for picture in drawn]
    if studies:
        blocks.append("## Studies")
    for name, study in STUDIES.items():
        if some := found(name, studies):
            blocks += [f"### {study.title} ({study.place})", _extent(name, some)]
            blocks += [_picture_markdown(picture, folder) for picture in pictures([], studies) if picture.group == name]
            blocks += [_sheet_markdown(sheet) for sheet in study.sheets(some)]
    for section in further:
        blocks += [f"## {section.title}", section.text]
        blocks += [f"![{image.caption}]({folder}/{image.name}.png)\n\n*{image.caption}*" for image in section.images]
        blocks += [_sheet_markdown(sheet) for sheet in section.sheets]
    return blocks


def table_markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


def cell_text(cell: Cell, brief: bool = False) -> str:
    """A cell as text; `brief` leaves out standard deviations."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Spread):
        if cell.mean is None:
            return "not finite"
        if brief:
            return f"{cell.mean:.3g}"
        return f"{cell.mean:.4g}" + (f" ± {cell.std:.2g}" if cell.std else "")
    if isinstance(cell, float) and not (cell.is_integer() and abs(cell) < 1e9):
        return f"{cell:.4g}"
    return f"{cell:.0f}"


def _extent(study: str, some: Sequence[tuple[Setting, StudyRecord]]) -> str:
    """Number of records of a study, their computing time, and the number of missing records."""
    planned = {setting.name for setting in settings(study)}
    records = {record.name: record for _, record in some}
    minutes = sum(record.seconds["cpu"] for record in records.values()) / 60
    left = len(planned) - len(records)
    missing = f"; {left} of {len(planned)} settings have no record" if left else ""
    return f"{len(records)} records, {minutes:.1f} minutes of one core{missing}."


def _picture_html(picture: Picture) -> str:
    return _image_html(picture.name, f"{picture.place}. {picture.caption}", picture.png())


def _image_html(name: str, caption: str, content: bytes) -> str:
    text = html.escape(caption)
    image = f'<img alt="{text}" src="data:image/png;base64,{b64encode(content).decode()}">'
    return f'<figure class="picture" id="{name}">{image}<figcaption>{text}</figcaption></figure>'


def _picture_markdown(picture: Picture, folder: str) -> str:
    return f"![{picture.caption}]({folder}/{picture.name}.png)\n\n*{picture.place}. {picture.caption}*"


def _sheet_markdown(sheet: Sheet) -> str:
    rows = [[cell_text(cell) for cell in row] for row in sheet.rows]
    return f"**{sheet.title}**\n\n{table_markdown(sheet.head, rows)}\n\n{sheet.note}"


def _sheet_html(sheet: Sheet) -> str:
    heads = "".join(f"<th><button>{html.escape(name)}</button></th>" for name in sheet.head)
    lines = []
    for row in sheet.rows:
        kind = "ours" if row[0] == "nsac" else ""
        lines.append(f'<tr class="{kind}">{"".join(_cell_html(cell) for cell in row)}</tr>')
    table = f'<table class="sortable"><thead><tr>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    note = f"<p class='facts'>{html.escape(sheet.note)}</p>"
    return f"<h4>{html.escape(sheet.title)}</h4><div class='scroll'>{table}</div>{note}"


def _cell_html(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{html.escape(cell)}</td>"
    value = cell.mean if isinstance(cell, Spread) else cell
    return f'<td data-value="{"" if value is None else value}">{html.escape(cell_text(cell))}</td>'
