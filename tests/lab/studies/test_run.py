import pytest

from nsac.lab.studies import run
from nsac.lab.studies.base import StudyStore, expand
from nsac.lab.studies.run import execute_studies, run_setting
from support.runs import a_study_record
from support.studies import NUMBERS, tiny_setting


@pytest.fixture
def todo():
    return [setting for setting in expand("s", NUMBERS) if setting.seed == 0]


@pytest.fixture
def ran(monkeypatch):
    """Names of the settings that were run; one of them fails."""
    names = []

    def pretend(setting):
        names.append(setting.name)
        if setting.point.get("b") == 4:
            raise FloatingPointError("it diverged")
        return a_study_record(setting, {"x": 1.0})

    monkeypatch.setattr(run, "run_setting", pretend)
    return names


def test_a_failure_does_not_stop_the_others(todo, ran, tmp_path):
    events = list(execute_studies(reversed(todo), StudyStore(tmp_path)))
    assert [event.kind for event in events] == ["failed", "done", "done", "done"]


def test_a_failure_is_reported_with_its_error(todo, ran, tmp_path):
    assert list(execute_studies(todo, StudyStore(tmp_path)))[-1].error == "FloatingPointError: it diverged"


def test_a_setting_with_a_record_is_not_run_again(todo, ran, tmp_path):
    store = StudyStore(tmp_path)
    list(execute_studies(todo, store))
    ran.clear()
    list(execute_studies(todo, store))
    assert ran == [todo[-1].name]  # the one that failed


def test_a_record_is_written_before_its_event(todo, ran, tmp_path):
    store = StudyStore(tmp_path)
    event = next(iter(execute_studies(todo, store)))
    assert store.read(todo[0].name).metrics == event.record.metrics == {"x": 1.0}


def test_a_setting_gives_the_same_numbers_again():
    tiny = tiny_setting("freezing")
    one, other = run_setting(tiny), run_setting(tiny)
    assert (one.metrics, one.series, one.name) == (other.metrics, other.series, tiny.name)


@pytest.mark.slow
def test_a_study_may_run_each_setting_in_its_own_process():
    assert 0 < run_setting(tiny_setting("lengths")).metrics["seconds"] < 10
