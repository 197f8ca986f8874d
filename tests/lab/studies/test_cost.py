import pytest

from nsac.lab.grid.table import paper_table
from nsac.lab.studies.base import Outcome, settings
from nsac.lab.studies.cost import AUTHORS_PACKAGE, run, sheets
from support.studies import TINY

METRICS = {"seconds": 2.0, "seconds_std": 0.1, "throughput": 0.5, "memory": 9.0, "parameters": 7.0}


def results(*seconds):
    every = settings("cost")[: len(seconds)]
    return [(setting, Outcome({**METRICS, "seconds": s})) for setting, s in zip(every, seconds, strict=True)]


def test_times_are_relative_to_nsac():
    assert [row[2] for row in sheets(results(2.0, 1.0))[0].rows] == [1.0, 0.5]


def test_without_nsac_there_are_no_relative_times():
    assert [row[2] for row in sheets(results(2.0, 1.0)[1:])[0].rows] == [None]


def test_the_numbers_of_the_paper_are_beside_ours():
    assert sheets(results(2.0))[0].rows[0][-1] == paper_table("table_4")["nsac"]["parameters"]


def test_the_package_of_the_authors_is_measured_if_it_is_installed():
    pytest.importorskip("torch_nac")
    setting = next(s for s in settings("cost") if s.config["method"] == AUTHORS_PACKAGE)
    assert run({**setting.config, **TINY["cost"]}).metrics["seconds"] > 0
