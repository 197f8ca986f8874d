import json

import pytest

from nsac.lab.grid.config import run_config
from nsac.lab.grid.store import Store
from nsac.lab.studies import STUDIES
from nsac.lab.studies.base import StudyStore, settings
from support.cli import call
from support.runs import a_record, a_study_record


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Records of one run and of one study."""
    folder = tmp_path_factory.mktemp("results")
    config = run_config("boston", "paper", "nsac", 0)
    Store(folder / "bench").write(a_record(
        key=config.key, config=config.to_dict(), metrics={"mse": 0.1, "crps": 0.1}, versions={"torch": "2"},
        pit={"raw": [1], "calibrated": [1]},
    ))  # fmt: skip
    metrics = {"seconds_std": 0.0, "passes": 1.0, "memory": 2.0, "throughput": 1.0, "parameters": 9.0}
    store = StudyStore(folder / "studies")
    for setting in {setting.name: setting for setting in settings("lengths")}.values():
        store.write(a_study_record(setting, {"seconds": setting.config["length"] / 1e4, **metrics}))
    return folder


@pytest.fixture
def places(results, tmp_path):
    absent = tmp_path / "absent"
    return ("--studies", results / "studies", "--shifts", absent, "--driving", absent)


def test_an_html_page_has_the_studies_and_their_figures(results, places, tmp_path):
    call("bench", "report", "--records", results / "bench", *places, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert STUDIES["lengths"].title in page and "data:image/png" in page


def test_a_markdown_page_has_its_figures_beside_it(results, places, tmp_path):
    page = tmp_path / "docs" / "results.md"
    call("bench", "report", "--records", results / "bench", *places, "--out", page)
    assert "](figures/lengths.png)" in page.read_text() and (page.parent / "figures" / "lengths.png").exists()


def test_both_pages_are_written_if_both_are_named(results, places, tmp_path):
    pages = [str(tmp_path / "page.html"), str(tmp_path / "page.md")]
    arguments = ("--records", results / "bench", *places, "--out", pages[0], "--out", pages[1], "--json")
    found = json.loads(call("bench", "report", *arguments).stdout)
    assert found["files"] == pages and found["run_records"] == 1


def test_by_default_the_page_is_in_the_current_folder(results, places, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call("bench", "report", "--records", results / "bench", *places)
    assert (tmp_path / "bench-report.html").exists()


@pytest.mark.parametrize(("option", "name"), [("--page", "page.html"), ("--markdown", "page.md")])
def test_the_earlier_names_of_out_are_deprecated(results, places, tmp_path, option, name):
    result = call("bench", "report", "--records", results / "bench", *places, option, tmp_path / name)
    assert (tmp_path / name).exists() and f"`{option} FILE` is deprecated" in result.stderr


def test_out_as_the_folder_of_the_records_is_deprecated(results, places, tmp_path):
    pages = ("--out", tmp_path / "page.html")
    result = call("bench", "report", "--out", results / "bench", *places, *pages)
    assert (tmp_path / "page.html").exists() and "Use `--records FOLDER`" in result.stderr


def test_a_folder_without_records_is_one_line(tmp_path):
    lines = call("bench", "report", "--records", tmp_path / "none", code=2).output.splitlines()
    assert len(lines) == 1 and "has no such records" in lines[0]
