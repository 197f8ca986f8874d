"""Margins of classes of rows, alone and in a `Calibration`."""

import numpy as np
import pytest
import torch
from scipy import stats

from nsac.uncertainty import Calibration, Prediction, conformal_margin
from nsac.uncertainty.mondrian import class_margins
from support import ALPHA


def two_classes(rows, generator, sets=()):
    """Errors of a prediction of 0 with std 1; those of class 1, a fifth of the rows, are twice as large."""
    classes = (torch.arange(rows) % 5 == 0).long()
    error = torch.randn(rows, *sets, generator=generator)
    return error * (1 + classes).reshape(-1, *(1,) * len(sets)), classes


def standard_normal(like):
    return Prediction.gaussian(torch.zeros_like(like), torch.ones_like(like))


def test_each_class_has_the_margin_of_its_own_scores(generator):
    y, classes = two_classes(200, generator, (2,))
    y[0, 1] = torch.nan
    margins = class_margins(y.abs(), classes, 0.8)
    for number in (0, 1):
        assert torch.equal(margins[number], conformal_margin(y[classes == number].abs(), 0.8))
    assert torch.equal(margins[2], conformal_margin(y.abs(), 0.8))


def test_each_class_is_covered_where_the_margin_of_all_rows_fails_the_rarer_one(generator):
    """2000 calibration sets of 300 rows, with a new row of class 1 each."""
    y, classes = two_classes(300, generator, (2000,))
    margins, new = class_margins(y.abs(), classes, 0.9), 2 * torch.randn(2000, generator=generator).abs()
    covered, by_all = int((new <= margins[1]).sum()), int((new <= margins[2]).sum())
    assert stats.binomtest(covered, 2000, 0.9, alternative="less").pvalue > ALPHA
    assert stats.binomtest(covered, 2000, 0.9 + 1 / 61, alternative="greater").pvalue > ALPHA
    assert stats.binomtest(by_all, 2000, 0.8, alternative="less").pvalue < ALPHA


def test_a_class_of_few_rows_has_its_largest_score_if_that_is_above_the_margin_of_all():
    scores = torch.cat([torch.linspace(0.01, 1, 100), torch.tensor([0.1, 5.0]), torch.tensor([0.2, 0.3])])
    classes = torch.tensor([0] * 100 + [1] * 2 + [2] * 2)
    margins = class_margins(scores, classes, 0.9)
    assert margins[1].item() == 5.0
    assert margins[2] == margins[3] == conformal_margin(scores, 0.9)


def test_too_few_rows_in_all_stay_infinite():
    assert class_margins(torch.ones(3), torch.tensor([0, 1, 1]), 0.9).tolist() == [torch.inf] * 3


def test_rows_of_a_class_have_its_interval_and_others_that_of_all(generator):
    y, classes = two_classes(300, generator, (1,))
    calibration = Calibration.fit(standard_normal(y), y, rescale=False, classes=classes)
    new = standard_normal(torch.zeros(4, 1))
    _, upper = calibration.scaled_interval(new, 0.9, torch.tensor([1, 0, 2, 9]))
    margins = class_margins(y.abs().double(), classes, 0.9).to(upper)
    torch.testing.assert_close(upper, margins[[1, 0, 2, 2]])
    torch.testing.assert_close(calibration.scaled_interval(new, 0.9)[1], margins[[2, 2, 2, 2]])


def test_a_calibration_with_classes_survives_its_tensors(generator):
    y, classes = two_classes(50, generator, (1,))
    calibration = Calibration.fit(standard_normal(y), y, classes=classes)
    again = Calibration.from_tensors(calibration.to_tensors())
    assert again.classes is not None and torch.equal(again.classes, classes)
    assert torch.equal(again.scores, calibration.scores)
    assert "classes" not in Calibration.fit(standard_normal(y), y).to_tensors()


@pytest.mark.parametrize("classes", [[0, -1, 0], [0, 3, 0], [0, 1], [0.0, 1.0, 2.0]])
def test_classes_that_do_not_fit_the_scores_are_refused(classes):
    tensors = {"scale": torch.ones(1), "scores": torch.ones(3, 1), "classes": torch.tensor(classes)}
    with pytest.raises(ValueError, match="must"):
        Calibration.from_tensors(tensors)


def test_classes_beside_groups_are_refused():
    codes = torch.from_numpy(np.arange(3))
    tensors = {"scale": torch.ones(1), "scores": torch.ones(3, 1), "classes": codes, "groups": codes}
    with pytest.raises(ValueError, match="without `groups`"):
        Calibration.from_tensors(tensors)
