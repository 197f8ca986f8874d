"""Pages: their code runs, their links resolve, and what is generated is current."""

import importlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import typer

from nsac.cli.main import app
from support.browser import Browser, installed
from support.pages import ROOT, anchors, blocks, commands, links, pages, write_data

PAGES = pages()
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
TUTORIALS = ROOT / "docs" / "tutorials"
RUN = [path for path in PAGES if path.parent != TUTORIALS and any(block.language for block in blocks(path))]
POLICY = "needs the policy of that recording"
LONG = {
    "nsac bench run": "hours",
    "nsac bench study": "minutes",
    "nsac bench shifts": "hours",
    "nsac bench growth": "hours",
    "nsac bench report": "minutes",
    "nsac data fetch": "downloads",
    "nsac drive record --frames 30000": "minutes",
    "nsac drive train carracing --method": "needs that recording",
    "nsac drive train udacity": "minutes",
    "nsac drive lap policy": POLICY,
    "nsac drive test": POLICY,
    "nsac drive saliency": POLICY,
    "nsac drive cells": POLICY,
    "nsac drive udacity": "needs the simulator",
}
"""Commands that are parsed and not run, and why. A dry run of one of them is run."""
SETUP = ("make ", "pip install", ". .venv/")
"""Commands that set up an environment: their targets and extras must exist."""
PRELUDE = {
    "docs/explain.md": """
import pandas as pd
import nsac
X = pd.read_csv("diabetes.csv")
y = X.pop("progression")
regressor = nsac.NSACRegressor(effort="fast", members=2, random_state=0).fit(X[:200], y[:200])
""",
}
"""What a page takes as given."""
NEEDS_DATA = {"docs/datasets.md", "docs/quick-start.md", "docs/command-line.md"}
"""Pages with code that reads real data."""


def load(name: str):
    """A script of `docs/scripts` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shell_environment() -> dict[str, str]:
    """The variables of a shell in which the environment of the tests is active."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def is_run(command: str) -> bool:
    return "--dry-run" in command or not command.startswith((*LONG, *SETUP))


def shell_commands() -> list[str]:
    found = [commands(block.code) for path in PAGES for block in blocks(path) if block.language == "bash"]
    return sorted({command for group in found for command in group if not is_run(command)})


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_links_resolve(path: Path):
    missing = []
    for file, anchor in links(path):
        known = file.exists() and (not anchor or file.suffix != ".md" or anchor in anchors(file) or _documented(anchor))
        if not known:
            missing.append(f"{file.relative_to(ROOT)}#{anchor}")
    assert not missing


def _documented(anchor: str) -> bool:
    """Whether an anchor is that of an object of the library, on a page of its reference."""
    module, _, name = anchor.rpartition(".")
    return module.startswith("nsac") and hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_every_block_has_a_language_that_the_tests_run_or_is_output(path: Path):
    assert {block.language for block in blocks(path)} <= {"python", "bash", "text"}


@pytest.mark.parametrize("command", shell_commands())
def test_a_command_that_is_not_run_is_valid(command: str):
    words = shlex.split(command)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    elif words[:2] == ["pip", "install"]:
        extras = re.findall(r"\[(\w+)\]", words[2])
        text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        assert words[2][0] == "." and all(re.search(rf"^{extra} = \[", text, re.MULTILINE) for extra in extras)
    elif words[0] == "nsac":
        parse(words[1:])


def parse(words: list[str]) -> None:
    """Raise an error if the words are no command with valid options."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("nsac", words)


def test_an_unknown_option_is_not_valid():
    with pytest.raises(Exception, match="No such option"):
        parse(["bench", "run", "boston", "--nothing"])


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN, ids=[str(path.relative_to(ROOT)) for path in RUN])
def test_code_runs_as_it_is(path: Path, tmp_path: Path, request):
    name = str(path.relative_to(ROOT))
    if name in NEEDS_DATA:
        request.getfixturevalue("data")
    write_data(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")
    pieces = [
        "import subprocess",
        'subprocess.run("nsac example tables && nsac example series", shell=True, check=True)',
    ]
    pieces.append(PRELUDE.get(name, ""))
    for block in blocks(path):
        if block.language == "python":
            pieces.append(block.code)
        elif block.language == "bash":
            run = [command for command in commands(block.code) if is_run(command)]
            pieces += [f"subprocess.run({command!r}, shell=True, check=True)" for command in run]
    script = tmp_path / "page.py"
    script.write_text("\n".join(pieces), encoding="utf-8")
    command = [sys.executable, str(script)]
    result = subprocess.run(command, cwd=tmp_path, env=shell_environment(), capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_table_of_the_readme_is_that_of_the_records(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    table = importlib.import_module("uci").markdown_of(ROOT / "results" / "uci")
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_forecasters_is_that_of_the_records(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    forecast, folder = importlib.import_module("forecast"), ROOT / "results" / "forecast"
    page = (ROOT / "docs" / "forecasting.md").read_text(encoding="utf-8")
    for table in forecast.tables_of(folder):
        assert table in page, "run `python benchmarks/forecast.py --markdown`"


def test_the_table_of_irregular_series_is_that_of_the_records(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    irregular, folder = importlib.import_module("irregular"), ROOT / "results" / "irregular"
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    for table in (irregular.markdown_of(folder), irregular.differences_markdown_of(folder)):
        assert table in page, "run `python benchmarks/irregular.py`"


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```|^\|.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert 350 <= len(prose.split()) <= 550


def test_the_page_of_commands_is_that_of_the_help():
    script = load("commands")
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run `python docs/scripts/commands.py`"


@pytest.mark.parametrize("name", load("tutorials").NAMES)
def test_the_page_of_a_tutorial_is_that_of_its_script(name: str):
    script = load("tutorials")
    expected = script.page(name, (TUTORIALS / f"{name}.py").read_text(encoding="utf-8"))
    written = script.without_output((TUTORIALS / f"{name}.md").read_text(encoding="utf-8"))
    assert written == expected, f"run `python docs/scripts/tutorials.py {name}`"


@pytest.mark.slow
@pytest.mark.parametrize("name", load("tutorials").NAMES)
def test_a_tutorial_runs_and_draws_its_pictures(name: str, tmp_path: Path):
    if name == "driving":
        pytest.importorskip("gymnasium", reason="needs the extra `drive`")
    if name == "glucose" and not (Path(os.environ.get("NSAC_DATA", "")) / "glucose").is_dir():
        pytest.skip("needs readings of glucose in the folder NSAC_DATA")
    code = "from pathlib import Path; import tutorials; "
    code += f"tutorials.run((tutorials.FOLDER / '{name}.py').read_text(encoding='utf-8'), Path('.'))"
    environment = shell_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "docs" / "scripts"), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert {path.name for path in tmp_path.glob("*.png")} == {path.name for path in TUTORIALS.glob(f"{name}-*.png")}


def test_all_pages_of_the_site_are_in_its_navigation():
    listed = set(re.findall(r"([\w/-]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed >= {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob("**/*.md")}


@pytest.mark.slow
def test_pages_of_the_site_fit_a_wide_and_a_narrow_screen(tmp_path: Path):
    pytest.importorskip("mkdocs", reason="needs the extra `docs`")
    if not installed():
        pytest.skip("needs Chromium")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(site)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True, capture_output=True)
    shown = sorted(path.relative_to(site).as_posix() for path in site.glob("**/*.html"))
    too_wide = []
    with served(site) as address, Browser(tmp_path, 1280) as browser:
        for width in (1280, 390):
            browser.resize(width, 900)
            for page in shown:
                browser.send("Page.navigate", url=f"{address}/{page}")
                browser.wait(f"document.readyState === 'complete' && location.pathname === '/{page}'")
                if browser.run("document.documentElement.scrollWidth") > width:
                    too_wide.append((page, width))
        assert not too_wide and not browser.errors


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine, since the search of a site needs a server; its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
