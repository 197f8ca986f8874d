"""What a release needs: one version, names that every system can store, and a bill of materials."""

import ast
import importlib
import json
import re
import sys
from pathlib import Path

import pytest

import nsac

ROOT = Path(__file__).parents[1]
SOURCE = Path(nsac.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
POSIX_ONLY = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*[<>:\"|?*\\\\].*|.*[. ]", re.IGNORECASE)
"""Names of files that Windows refuses."""


def test_the_citation_has_the_version_of_the_package():
    assert f"\nversion: {nsac.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["aux.py", "a:b", "what?", "end."])
def test_a_name_that_windows_refuses_is_recognised(name):
    assert RESERVED.fullmatch(name)


def test_every_file_has_a_name_that_every_system_can_store():
    names = [str(path.relative_to(SOURCE)) for path in FILES]
    assert not [name for name in names for part in Path(name).parts if RESERVED.fullmatch(part)]
    assert len({name.lower() for name in names}) == len(names)


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".py"], ids=lambda p: str(p.relative_to(SOURCE)))
def test_modules_that_not_every_system_has_are_imported_only_where_they_are_used(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            assert not POSIX_ONLY & {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module not in POSIX_ONLY


@pytest.fixture(scope="module")
def sbom():
    folder = ROOT / "tools"
    if not folder.exists():
        pytest.skip("the tools are not beside the tests")
    sys.path.insert(0, str(folder))
    yield importlib.import_module("sbom")
    sys.path.remove(str(folder))


def test_the_bill_of_materials_lists_direct_and_indirect_dependencies_without_extras(sbom):
    packages = sbom.closure("nsac")
    assert {"torch", "scikit-learn", "scipy"} <= set(packages)  # scipy by way of scikit-learn
    assert not {"pytest", "ray"} & set(packages)


def test_every_dependency_has_a_licence(sbom):
    assert not [name for name, found in sbom.closure("nsac").items() if sbom.licence(found) == "see its files"]


def test_every_reference_in_the_bill_of_materials_is_a_component_of_it(sbom):
    bill = sbom.bill(sbom.closure("nsac"))
    known = {each["bom-ref"] for each in [*bill["components"], bill["metadata"]["component"]]}
    assert {link["ref"] for link in bill["dependencies"]} == known
    assert {ref for link in bill["dependencies"] for ref in link["dependsOn"]} <= known


def test_the_files_of_the_bill_of_materials_are_written(sbom, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sbom.py", str(tmp_path / "dist")])
    sbom.main()
    assert json.loads((tmp_path / "dist" / "sbom.json").read_text())["bomFormat"] == "CycloneDX"
    rows = (tmp_path / "dist" / "licences.csv").read_text().splitlines()
    assert rows[0] == "package,version,licence" and f"{len(rows) - 1} packages" in capsys.readouterr().out
