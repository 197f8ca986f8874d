"""Sections of the report besides the tables of the grid, as HTML and as Markdown: figures, studies, further ones."""

import html
from base64 import b64encode
from collections.abc import Sequence
from typing import NamedTuple

from nsac.lab.grid.sheet import Cell, Section, Sheet, Spread
from nsac.lab.grid.store import Record
from nsac.lab.report.figures import Picture, pictures
from nsac.lab.report.tables import html_table
from nsac.lab.studies import STUDIES
from nsac.lab.studies.base import Setting, StudyRecord, found, settings


class Block(NamedTuple):
    """A section under a heading of some level, and pictures that are drawn when they are needed."""

    level: int
    section: Section
    drawn: Sequence[Picture] = ()


def report_sections(
    records: Sequence[Record], studies: Sequence[StudyRecord], further: Sequence[Section]
) -> list[Block]:
    """Figures of the grid, one section per study that has a record, and the further sections."""
    blocks = []
    if drawn := pictures(records):
        blocks.append(Block(2, Section("figures", "Figures of the paper, from these records", "", ()), drawn))
    if studies:
        blocks.append(Block(2, Section("studies", "Studies", "", ())))
    for name, study in STUDIES.items():
        if some := found(name, studies):
            section = Section("", f"{study.title} ({study.place})", _extent(name, some), study.sheets(some))
            blocks.append(Block(3, section, [each for each in pictures([], studies) if each.group == name]))
    return blocks + [Block(2, section) for section in further]


def links_html(blocks: Sequence[Block]) -> str:
    """Links of the navigation bar."""
    anchors = [block.section.anchor for block in blocks if block.section.anchor]
    return "".join(f'<a href="#{anchor}">{anchor}</a>' for anchor in anchors)


def sections_html(blocks: Sequence[Block]) -> str:
    """The sections with their images inside."""
    lines = []
    for level, section, drawn in blocks:
        anchor = f' id="{section.anchor}"' if section.anchor else ""
        lines.append(f"<h{level}{anchor}>{html.escape(section.title)}</h{level}>")
        if section.text:
            lines.append(f'<p class="{"text" if level == 2 else "facts"}">{html.escape(section.text)}</p>')
        lines += [_image_html(each.name, f"{each.place}. {each.caption}", each.png()) for each in drawn]
        lines += [_image_html(image.name, image.caption, image.content) for image in section.images]
        lines += [_sheet_html(sheet) for sheet in section.sheets]
    return "\n".join(lines)


def sections_markdown(blocks: Sequence[Block], folder: str) -> list[str]:
    """The sections with their images as files in `folder`."""
    lines = []
    for level, section, drawn in blocks:
        lines.append(f"{'#' * level} {section.title}")
        if section.text:
            lines.append(section.text)
        captions = [(each.name, each.caption, f"{each.place}. {each.caption}") for each in drawn]
        captions += [(image.name, image.caption, image.caption) for image in section.images]
        lines += [f"![{short}]({folder}/{name}.png)\n\n*{caption}*" for name, short, caption in captions]
        for sheet in section.sheets:
            table = table_markdown(sheet.head, [[cell_text(cell) for cell in row] for row in sheet.rows])
            lines.append(f"**{sheet.title}**\n\n{table}\n\n{sheet.note}")
    return lines


def table_markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


def cell_text(cell: Cell, brief: bool = False) -> str:
    """A cell as text; `brief` leaves out standard deviations."""
    if cell is None or isinstance(cell, str):
        return cell or ""
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


def _image_html(name: str, caption: str, content: bytes) -> str:
    text = html.escape(caption)
    image = f'<img alt="{text}" src="data:image/png;base64,{b64encode(content).decode()}">'
    return f'<figure class="picture" id="{name}">{image}<figcaption>{text}</figcaption></figure>'


def _sheet_html(sheet: Sheet) -> str:
    lines = [("ours" if row[0] == "nsac" else "", [_cell_html(cell) for cell in row]) for row in sheet.rows]
    note = f"<p class='facts'>{html.escape(sheet.note)}</p>"
    return f"<h4>{html.escape(sheet.title)}</h4>{html_table(sheet.head, lines)}{note}"


def _cell_html(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{html.escape(cell)}</td>"
    value = cell.mean if isinstance(cell, Spread) else cell
    return f'<td data-value="{"" if value is None else value}">{html.escape(cell_text(cell))}</td>'
