import torch

from nsac.lab.studies.measure import measure


def test_memory_is_the_peak_of_the_call():
    taken = measure(lambda: torch.ones(64 * 2**17).sum(), passes=2, enough=60)  # 64 MB
    assert 50 < taken["memory"] < 90


def test_later_passes_are_timed():
    assert measure(lambda: None, passes=2, enough=60)["passes"] == 2


def test_no_pass_starts_after_the_time_limit():
    assert measure(lambda: None, passes=3, enough=-1)["passes"] == 1
