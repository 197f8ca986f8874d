import re
import subprocess
import sys
from pathlib import Path

import pytest

import nsac

ROOT = Path(__file__).parents[1]
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]


def test_the_api_page_lists_the_public_names():
    listed = re.findall(r"^### `(?:nsac\.)?(\w+)", API, re.MULTILINE)
    assert sorted(listed) == sorted(nsac.__all__)


@pytest.mark.parametrize(("package", "folder"), [("nsac", "src/nsac"), ("nsac.lab", "src/nsac/lab")])
def test_the_api_page_lists_the_packages(package: str, folder: str):
    listed = re.findall(rf"^\| `{re.escape(package)}\.(\w+)` \|", API, re.MULTILINE)
    packages = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
    assert set(listed) == packages - {"lab"}


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_files_that_a_page_names_exist(path: Path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [path.parent / link for link in re.findall(r"\]\(([^)#:]+)\)", text)]
    files = [ROOT / name for name in re.findall(r"`((?:src|tests|benchmarks|examples|docs)/[\w./-]+)`", text)]
    assert [str(file) for file in links + files if not file.exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_tests_that_a_page_names_exist(path: Path):
    sources = "".join(file.read_text(encoding="utf-8") for file in ROOT.glob("tests/**/*.py"))
    named = re.findall(r"`(test_\w+)`", path.read_text(encoding="utf-8"))
    assert [name for name in named if f"def {name}(" not in sources] == []


def test_every_public_name_has_a_docstring():
    assert all(getattr(nsac, name).__doc__ for name in nsac.__all__)


def test_importing_nsac_does_not_import_heavy_packages():
    heavy = ("matplotlib", "pandas", "typer", "sklearn", "lightning_fabric")
    code = f"import sys, nsac; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_the_help_does_not_import_heavy_packages():
    heavy = ("torch", "pandas", "numpy", "sklearn", "scipy", "matplotlib")
    code = (
        "import atexit, sys; sys.argv = ['nsac', '--help']; from nsac.cli import main\n"
        f"atexit.register(lambda: print([name for name in {heavy} if name in sys.modules])); main()"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "Usage" in out and out.splitlines()[-1] == "[]"


def test_public_names_are_listed_by_dir():
    assert set(nsac.__all__) <= set(dir(nsac))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        nsac.nothing  # noqa: B018  # pyright: ignore
