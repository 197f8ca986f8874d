"""Code blocks, headings and links of the pages, and data that the pages name."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from support.events import stays

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    language: str
    code: str


def pages() -> list[Path]:
    """All pages of the repository; the changes are a record, not a page."""
    return sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def blocks(path: Path) -> list[Block]:
    return [Block(language, code) for _, language, code in FENCE.findall(path.read_text(encoding="utf-8"))]


def commands(code: str) -> list[str]:
    """Commands of a shell block, without comments; `a && b` are two."""
    lines = (re.sub(r"\s+#.*|^#.*", "", line).strip() for line in code.splitlines())
    return [command.strip() for line in lines if line for command in line.split("&&")]


def anchors(path: Path) -> set[str]:
    """Names of the headings of a page, as they are in links."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text)}


def links(path: Path) -> list[tuple[Path, str]]:
    """File and anchor of every relative link."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", path.read_text(encoding="utf-8")))
    found = [link for link in LINK.findall(text) if not re.match(r"[a-z]+:", link)]
    parts = (link.partition("#") for link in found)
    return [((path.parent / file).resolve() if file else path, anchor) for file, _, anchor in parts]


def write_data(folder: Path) -> None:
    """The files of a reader, which pages name and nobody ships."""
    vitals = stays(count=6)
    vitals.assign(ward=vitals["age"].mod(2).map({0: "A", 1: "B"})).to_csv(folder / "icu.csv", index=False)
    random = np.random.default_rng(0)
    machine, hours = np.repeat(np.arange(12), 20), random.uniform(0, 100, 240)
    wear = 0.1 * hours + random.gamma(2, 0.5, 12)[machine]
    table = {"machine": machine, "hours": hours, "trust": random.uniform(0.5, 1, 240), "wear": wear}
    pd.DataFrame(table).to_csv(folder / "wear.csv", index=False)
