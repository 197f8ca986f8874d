"""Comparisons of the splits of tasks, shared by tests."""

import torch

from nsac.lab.tasks.base import SplitData, Task
from nsac.uncertainty import Prediction

FITTED_SPLITS = ("train", "validation", "calibration")


def all_rows(split: SplitData) -> dict[str, torch.Tensor]:
    return split.batch(torch.arange(len(split)))


def perfect(batch: dict[str, torch.Tensor]) -> Prediction:
    """The targets themselves, with standard deviation 1."""
    return Prediction.gaussian(batch["y"], torch.ones_like(batch["y"]))


def assert_same_columns(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> None:
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=0, atol=0)


def assert_only_the_test_split_differs(task: Task, other: Task) -> None:
    """What is fitted must not change when the test split does."""
    for name in FITTED_SPLITS:
        mine, theirs = task.split(name), other.split(name)
        assert_same_columns(all_rows(mine), all_rows(theirs))
        rows = torch.arange(len(mine))
        for a, b in zip(mine.unit(rows), theirs.unit(rows), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert not torch.equal(all_rows(task.test)["x"], all_rows(other.test)["x"])
