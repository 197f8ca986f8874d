import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from nsac.uncertainty import Adversarial, FeatureShuffle, GaussianNoise, ood_aupr, ood_auroc, ood_fpr95
from nsac.uncertainty.ood import average_ranks, make_surrogate

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


def test_equal_values_share_the_mean_of_their_ranks():
    assert average_ranks(torch.tensor([5.0, 1.0, 5.0, 3.0, 5.0])).tolist() == [4.0, 1.0, 4.0, 2.0, 4.0]


@pytest.mark.parametrize("n, misses", [(19, 0), (20, 1), (40, 2), (41, 2)])
def test_at_least_95_percent_of_ood_rows_are_above_the_threshold(n, misses):
    """Of n OOD scores 0, ..., n - 1 the lowest `misses` may be missed."""
    inside, outside = torch.arange(n).double() - 0.5, torch.arange(n).double()
    assert ood_fpr95(inside, outside) == pytest.approx((n - misses - 1) / n)


def test_surrogates_are_found_by_name_with_the_noise_of_the_paper_by_default():
    assert make_surrogate("gaussian") == GaussianNoise(0.0, 5.0) == GaussianNoise()
    assert make_surrogate("adversarial") == Adversarial(0.0, 5.0, 0.5, 1) == Adversarial()
    assert make_surrogate("shuffle") == FeatureShuffle()
    assert make_surrogate("gaussian", 1.0, 2.0) == GaussianNoise(1.0, 2.0)
    assert make_surrogate("adversarial", 1.0, 2.0) == Adversarial(1.0, 2.0)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_an_adversarial_step_goes_against_the_sign_of_the_slope_at_the_same_length(steps):
    x, slope = torch.ones(4, 2, 3), torch.tensor([1.0, -2.0, 0.0])
    one, two = (torch.Generator().manual_seed(0) for _ in range(2))
    found = Adversarial(0.5, 2.0, 0.3, steps)(x, lambda z: (z @ slope).sum(-1).exp(), one) - x
    noise = GaussianNoise(0.5, 2.0)(x, None, two) - x  # pyright: ignore[reportArgumentType]
    length = noise.square().mean((1, 2), keepdim=True).sqrt()
    for _ in range(steps):
        noise = noise - 0.3 * length * torch.tensor([1.0, -1.0, 0.0])
        noise = noise * length / noise.square().mean((1, 2), keepdim=True).sqrt()
    torch.testing.assert_close(found, noise)


@pytest.mark.parametrize("shape", [(30, 4, 6), (30, 6)], ids=["sequences", "table"])
def test_shuffling_takes_each_feature_of_all_times_from_one_row(shape, generator):
    rows = torch.arange(30.0).reshape(30, *(1,) * (len(shape) - 1)).expand(shape)
    mixed = FeatureShuffle()(rows, None, generator)  # pyright: ignore[reportArgumentType]
    donors = mixed.reshape(30, -1, 6)
    assert (donors == donors[:, :1]).all()
    assert torch.equal(donors[:, 0].sort(0).values, torch.arange(30.0)[:, None].expand(30, 6))
    assert (donors[:, 0].std(1) > 0).double().mean() > 0.9
