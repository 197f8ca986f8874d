import math

import pytest
import torch

from nsac import Prediction
from nsac.estimators.evaluation import SCORES, evaluate_rows


def evaluation(y):
    n = len(y)
    p = Prediction.gaussian(torch.zeros(n), torch.ones(n))
    baseline = Prediction.gaussian(torch.ones(n), torch.ones(n))
    return evaluate_rows("y", p, (-torch.ones(n), torch.ones(n)), y, baseline, "one", step=torch.arange(n))


def test_rows_without_an_observed_value_are_left_out():
    e = evaluation(torch.tensor([0.5, math.nan, 2.0]))
    assert e.y.tolist() == [0.5, 2.0] and e.step is not None and e.step.tolist() == [0, 2]


def test_the_coverage_of_the_model_is_that_of_its_conformal_interval():
    assert evaluation(torch.tensor([0.5, -0.5, 2.0, 0.0])).scores["model"]["coverage_90"] == 0.75


def test_model_and_baseline_have_the_same_scores():
    scores = evaluation(torch.tensor([0.5, 2.0])).scores
    assert list(scores["model"]) == list(scores["baseline"]) == list(SCORES)


def test_a_target_that_was_never_observed_is_an_error():
    with pytest.raises(ValueError, match="The target 'y' must be known in at least one row"):
        evaluation(torch.tensor([math.nan]))
