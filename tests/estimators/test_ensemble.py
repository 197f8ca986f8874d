import pytest
import torch

from nsac import Prediction
from nsac.estimators.ensemble import join, minimise_unimodal


@pytest.mark.parametrize("scores", [[3, 2, 1, 0], [0, 1, 2, 3], [3, 1, 2, 4], [3, 2, 1, 4], [1], [2, 1], [1, 2]])
def test_the_minimum_is_found_and_no_point_scored_twice(scores):
    seen = []

    def score(i):
        seen.append(i)
        return scores[i]

    assert minimise_unimodal(score, len(scores)) == scores.index(min(scores))
    assert len(seen) == len(set(seen)) and len(seen) <= max(1, len(scores) - 1) or len(scores) == 2


@pytest.mark.parametrize(("axis", "shape"), [(0, (4, 3)), (1, (2, 6))])
def test_predictions_are_joined_along_draws_or_rows(axis, shape):
    p = Prediction(torch.zeros(2, 3), torch.ones(2, 3))
    assert join([p, p], axis).mean_draws.shape == shape
