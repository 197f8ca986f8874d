import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from nsac.uncertainty import ood_aupr, ood_auroc, ood_fpr95

SCORES = st.lists(st.integers(0, 12), min_size=1, max_size=60)  # few values: many ties


@given(SCORES, SCORES)
@settings(max_examples=100, deadline=None)
def test_scikit_learn_agrees_with_ties(inside, outside):
    label, score = np.repeat([0, 1], [len(inside), len(outside)]), np.array(inside + outside, float)
    inside, outside = torch.tensor(inside).double(), torch.tensor(outside).double()
    assert ood_auroc(inside, outside) == pytest.approx(roc_auc_score(label, score))
    assert ood_aupr(inside, outside) == pytest.approx(average_precision_score(label, score))
    false, true, _ = roc_curve(label, score, drop_intermediate=False)
    assert ood_fpr95(inside, outside) == pytest.approx(false[true >= 0.95 - 1e-12].min())


@pytest.mark.parametrize(
    "inside, outside, auroc, aupr, fpr95",
    [
        ([1, 2, 3], [4, 5, 6], 1, 1, 0),  # apart
        ([4, 5, 6], [1, 2, 3], 0, 1 / 3 * (1 / 4 + 2 / 5 + 3 / 6), 1),  # the wrong way round
        ([1, 1], [1, 1], 0.5, 0.5, 1),  # ties only
        ([0, 1], [1, float("inf")], 0.875, 0.5 * 1 + 0.5 * 2 / 3, 0.5),  # infinite is a score
    ],
)
def test_toys_by_hand(inside, outside, auroc, aupr, fpr95):
    inside, outside = torch.tensor(inside).double(), torch.tensor(outside).double()
    assert ood_auroc(inside, outside) == pytest.approx(auroc)
    assert ood_aupr(inside, outside) == pytest.approx(aupr)
    assert ood_fpr95(inside, outside) == pytest.approx(fpr95)


@pytest.mark.parametrize("score", [ood_auroc, ood_aupr, ood_fpr95])
@pytest.mark.parametrize(
    "inside, outside, named",
    [
        ([], [1.0], "`score_id` must have at least one"),
        ([1.0], [], "`score_ood` must have at least one"),
        ([1.0], [1.0, float("nan")], "`score_ood` must be numbers. Got nan at index .1,."),
        ([float("nan")], [1.0], "`score_id` must be numbers"),
    ],
)
def test_missing_scores_are_named(score, inside, outside, named):
    with pytest.raises(ValueError, match=named):
        score(torch.tensor(inside), torch.tensor(outside))
