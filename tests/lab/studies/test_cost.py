import pytest
import torch

from nsac.lab.grid.table import paper_table
from nsac.lab.studies.base import Outcome, settings
from nsac.lab.studies.cost import AUTHORS_PACKAGE, measure, run, sheets
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


def measured(predict=torch.sum, **changes):
    return measure(predict, 1, {"length": 40, "seed": 0, "passes": 2, "enough": 60, **changes})


def test_memory_is_the_peak_of_the_prediction():
    taken = measured(lambda x: torch.ones(64 * 2**17).sum() if x.shape[1] == 40 else None)  # 64 MB, not in the warm-up
    assert 50 < taken["memory"] < 90


def test_later_passes_are_timed():
    assert measured()["passes"] == 2


def test_no_pass_starts_after_the_time_limit():
    assert measured(passes=3, enough=-1)["passes"] == 1
