import re
import subprocess
import sys
from pathlib import Path

import pytest

import nsac

ROOT = Path(__file__).parents[1]


def test_the_api_page_lists_what_is_public():
    listed = re.findall(r"^### `(?:nsac\.)?(\w+)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(nsac.__all__)


def test_every_public_name_has_a_docstring():
    assert all(getattr(nsac, name).__doc__ for name in nsac.__all__)


def test_importing_leaves_the_heavy_things_out():
    """Plots, tables and command line come only when they are asked for."""
    heavy = ("matplotlib", "pandas", "typer", "sklearn", "lightning_fabric")
    code = f"import sys, nsac; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_help_waits_for_no_torch():
    code = "import sys; from nsac.cli import main; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"


def test_what_is_not_public_is_not_there():
    assert set(nsac.__all__) <= set(dir(nsac))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        nsac.nothing  # noqa: B018  # pyright: ignore
