"""Hooks of mkdocs: pages from the root of the repository, links between them, and formulas as MathML.

Formulas are converted while the site is built, so that neither the build nor a page needs a network connection.
"""

import html
import os
import re
from pathlib import Path, PurePosixPath

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the root that are pages of the site, and their names there."""
COPIES = ("CITATION.cff", "LICENSE", "examples/*.py")
"""Files outside `docs` that pages link to; they are copied as they are."""
LINK = re.compile(r"(?<!!)(\[[^\]]*\]\()([^)#:\s]+)((?:#[^)]*)?\))")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
SPACING = {
    '<mo stretchy="false">&#x0007C;</mo>': '<mo stretchy="false" lspace="0" rspace="0">&#x0007C;</mo>',
    "<mi>&#x02032;</mi>": '<mo lspace="0" rspace="0">&#x02032;</mo>',
}
"""Bars of an absolute value, and primes, without the space of an operator between two terms."""
MAX_INLINE = 45
"""Characters of a formula in a line of text; a longer one can be scrolled on a narrow screen."""
TAG = re.compile(r"\\tag\{(\w+)\}")


def on_files(files, config):
    """Add the pages and copies of files outside `docs`."""
    for source, target in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, target, content=relink(text, PurePosixPath(source), target)))
    for pattern in COPIES:
        for path in ROOT.glob(pattern):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links from `docs` to files outside it."""
    source = page.file.src_uri
    return markdown if source in PAGES.values() else relink(markdown, PurePosixPath("docs") / source, source)


def on_page_content(content, page, config, files):
    """Formulas as MathML."""
    return FORMULA.sub(lambda found: formula(html.unescape(found[3]), block=found[2] == "["), content)


def relink(text: str, source: PurePosixPath, page: str) -> str:
    """The text with relative links as they are on the site; code blocks stay as they are."""

    def site_path(link: str) -> str:
        target = PurePosixPath(os.path.normpath(source.parent / link))
        if target.parts[:1] == ("docs",):
            place = target.relative_to("docs").as_posix()
        else:
            place = PAGES.get(str(target), str(target))
        return os.path.relpath(place, os.path.dirname(page) or ".")

    def outside_code(piece: str) -> str:
        piece = LINK.sub(lambda found: found[1] + site_path(found[2]) + found[3], piece)
        return re.sub(r"(!\[[^\]]*\]\()([^):]+)\)", lambda found: f"{found[1]}{site_path(found[2])})", piece)

    pieces, end = [], 0
    for fence in FENCE.finditer(text):
        pieces += [outside_code(text[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*pieces, outside_code(text[end:])])


def formula(latex: str, block: bool) -> str:
    r"""MathML of a formula; a block with `\tag{3}` is numbered."""
    tag = TAG.search(latex)
    math = convert(TAG.sub("", latex).strip(), display="block" if block else "inline")
    for wrong, right in SPACING.items():
        math = math.replace(wrong, right)
    if not block:
        return f'<span class="wide-formula">{math}</span>' if len(latex) > MAX_INLINE else math
    number = f'<span class="number">({tag[1]})</span>' if tag else ""
    return f'<div class="equation">{math}{number}</div>'
