import pytest

from nsac.lab.tasks import baselines
from nsac.lab.tasks.base import load_task
from nsac.lab.tasks.baselines import baseline_scores, lacking


def test_every_task_of_a_source_is_scored():
    scored = [(row["task"], row["protocol"], row["method"]) for row in baseline_scores("spiral")]
    assert scored == [("spiral", "paper", "mean"), ("spiral", "sound", "mean")]


def test_a_row_has_the_unit_and_the_text_of_its_task():
    row = baseline_scores("spiral")[0]
    task = load_task("spiral", "paper")
    assert (row["unit"], row["text"]) == (task.unit, task.text)


@pytest.fixture
def only_hust(monkeypatch):
    monkeypatch.setattr(baselines, "present", lambda source: source == "hust")


def test_a_task_that_lacks_another_source_is_listed_with_it(only_hust):
    assert lacking("hust") == {("hust", "paper"): ["xjtu"], ("hust", "sound"): ["xjtu"]}


def test_a_task_that_lacks_another_source_is_not_scored(only_hust):
    assert baseline_scores("hust") == []
