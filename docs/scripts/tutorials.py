"""Run tutorials and write their pages: `python docs/scripts/tutorials.py [NAME ...]`.

A tutorial is a script in `docs/tutorials` with cells: text follows a line `# %% [markdown]`, code a line `# %%`. Its
page has the text, the code, what the code prints, and the pictures that it saves.
"""

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "tutorials"
NAMES = ("tables", "series", "glucose", "prognostics", "driving", "explain")
OUTPUT = re.compile(r"\n```text\n.*?\n```\n", re.DOTALL)
"""What a cell has printed."""


class Cell(NamedTuple):
    """Text in Markdown, or code."""

    is_text: bool
    source: str


def cells(script: str) -> list[Cell]:
    """The cells of a script, in order; what stands before the first one is left out."""
    found = re.split(r"^# %%( \[markdown\])?\n", script, flags=re.MULTILINE)[1:]
    pairs = zip(found[::2], found[1::2], strict=True)
    uncomment = re.compile(r"^# ?", re.MULTILINE)
    return [Cell(bool(mark), (uncomment.sub("", body) if mark else body).strip("\n")) for mark, body in pairs]


def run(script: str, folder: Path) -> list[str]:
    """Run the code in a folder, in one namespace; what each cell has printed (nothing for text)."""
    namespace, printed = {"__name__": "__main__"}, []
    with contextlib.chdir(folder):
        for cell in cells(script):
            with contextlib.redirect_stdout(io.StringIO()) as output:
                if not cell.is_text:
                    exec(compile(cell.source, "<tutorial>", "exec"), namespace)
            printed.append(output.getvalue().rstrip())
    return printed


def page(name: str, script: str, printed: list[str] | None = None) -> str:
    """The page of a tutorial."""
    pieces = []
    for i, cell in enumerate(cells(script)):
        pieces.append(cell.source if cell.is_text else f"```python\n{cell.source}\n```")
        if printed and printed[i]:
            pieces.append(f"```text\n{printed[i]}\n```")
    pieces.append(f"This page is made from [{name}.py]({name}.py) by `docs/scripts/tutorials.py`.")
    return "\n\n".join(pieces) + "\n"


def without_output(text: str) -> str:
    """A page without what its code has printed."""
    return OUTPUT.sub("", text)


def main(names: list[str]) -> None:
    """Run the tutorials, write their pages, and keep the pictures."""
    os.environ["PATH"] = str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]  # for the command `nsac`
    for name in names or NAMES:
        script = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            text = page(name, script, run(script, Path(folder)))
            for picture in Path(folder).glob("*.png"):
                shutil.copy(picture, FOLDER / picture.name)
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
