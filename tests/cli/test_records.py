import pytest
import typer

from nsac.cli.records import choose_folder, grid_records, study_records
from nsac.lab.grid.config import run_config
from nsac.lab.grid.store import Store
from nsac.lab.studies.base import StudyStore, settings
from support.runs import a_record, a_study_record, pretended


@pytest.fixture
def folder(tmp_path):
    for protocol in ("paper", "sound"):
        Store(tmp_path).write(pretended(run_config("boston", protocol, "nsac", 0)))
    return tmp_path


def test_all_current_records_are_read_by_default(folder):
    assert len(grid_records(folder)) == 2


def test_records_are_chosen_by_protocol(folder):
    assert [record.protocol for record in grid_records(folder, protocol="sound")] == ["sound"]


def test_records_are_chosen_by_task(folder):
    with pytest.raises(typer.Exit):
        grid_records(folder, ["spiral"])


def test_stale_records_are_counted_in_a_note(folder, capsys):
    Store(folder).write(a_record())
    assert len(grid_records(folder)) == 2
    expected = "Note: Ignored 1 stale records (the configuration or code has changed).\n"
    assert capsys.readouterr().err == expected


def test_stale_records_of_studies_are_ignored(tmp_path):
    setting, *_ = settings("cost")
    StudyStore(tmp_path).write(a_study_record(setting, {"seconds": 1.0}))
    assert [record.name for record in study_records(tmp_path)] == [setting.name]


def test_the_deprecated_option_names_the_folder_too(tmp_path, capsys):
    assert choose_folder(tmp_path / "default", tmp_path / "old") == tmp_path / "old"
    assert "`--out FOLDER` is deprecated" in capsys.readouterr().err
