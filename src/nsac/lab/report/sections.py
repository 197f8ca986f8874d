"""Sections of the report beside the tables of the grid, as HTML and as Markdown: figures, studies, further sections."""

import html
from base64 import b64encode
from collections.abc import Sequence

from nsac.lab.grid.sheet import Cell, Section, Sheet, Spread
from nsac.lab.grid.store import Record
from nsac.lab.report.gallery import Picture, pictures
from nsac.lab.studies import STUDIES
from nsac.lab.studies.base import StudyRecord, found, settings


def links_html(records: Sequence[Record], studies: Sequence[StudyRecord], further: Sequence[Section] = ()) -> str:
    """Entries of the page's list of places."""
    places = [("figures", "figures")] * bool(_of_grid(records)) + [("studies", "studies")] * bool(studies)
    places += [(section.anchor, section.anchor) for section in further]
    return "".join(f'<a href="#{place}">{text}</a>' for place, text in places)


def sections_html(records: Sequence[Record], studies: Sequence[StudyRecord], further: Sequence[Section] = ()) -> str:
    """Figures of the grid, a section per study with a record, and the further; empty if there is nothing to show."""
    made = []
    if drawn := _of_grid(records):
        made.append('<h2 id="figures">The paper\'s figures, from these records</h2>' + "".join(map(_figure, drawn)))
    if studies:
        made.append('<h2 id="studies">Studies</h2>')
    for name, study in STUDIES.items():
        if not (some := found(name, studies)):
            continue
        sheets = "".join(_sheet(sheet) for sheet in study.sheets(some))
        images = "".join(_figure(p) for p in pictures([], studies) if p.group == name)
        head = f"<h3>{html.escape(study.title)} ({html.escape(study.place)})</h3>"
        made.append(f"{head}<p class='facts'>{html.escape(_told(name, some))}</p>{images}{sheets}")
    for section in further:
        head = f'<h2 id="{section.anchor}">{html.escape(section.title)}</h2>'
        head += f'<p class="text">{html.escape(section.text)}</p>'
        images = "".join(_drawn(image.name, image.caption, image.content) for image in section.images)
        made.append(head + images + "".join(map(_sheet, section.sheets)))
    return "\n".join(made)


def sections_markdown(
    records: Sequence[Record], studies: Sequence[StudyRecord], folder: str, further: Sequence[Section] = ()
) -> list[str]:
    """The same, with pictures as files in `folder`."""
    made = []
    if drawn := _of_grid(records):
        made.append("## The paper's figures, from these records")
        made += [_image(picture, folder) for picture in drawn]
    if studies:
        made.append("## Studies")
    for name, study in STUDIES.items():
        if not (some := found(name, studies)):
            continue
        made += [f"### {study.title} ({study.place})", _told(name, some)]
        made += [_image(picture, folder) for picture in pictures([], studies) if picture.group == name]
        made += [text for sheet in study.sheets(some) for text in _sheet_markdown(sheet)]
    for section in further:
        made += [f"## {section.title}", section.text]
        made += [f"![{image.caption}]({folder}/{image.name}.png)\n\n*{image.caption}*" for image in section.images]
        made += [text for sheet in section.sheets for text in _sheet_markdown(sheet)]
    return made


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
    return _drawn(picture.name, f"{picture.place}. {picture.caption}", picture.png())


def _drawn(name: str, caption: str, content: bytes) -> str:
    told = html.escape(caption)
    image = f'<img alt="{told}" src="data:image/png;base64,{b64encode(content).decode()}">'
    return f'<figure class="picture" id="{name}">{image}<figcaption>{told}</figcaption></figure>'


def _image(picture: Picture, folder: str) -> str:
    return f"![{picture.caption}]({folder}/{picture.name}.png)\n\n*{picture.place}. {picture.caption}*"


def _sheet_markdown(sheet: Sheet) -> list[str]:
    lines = [sheet.head, ["---"] * len(sheet.head), *([cell_text(c) for c in row] for row in sheet.rows)]
    return [f"**{sheet.title}**", "\n".join("| " + " | ".join(line) + " |" for line in lines), sheet.note]


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
