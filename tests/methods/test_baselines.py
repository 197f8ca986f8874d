import pytest
import torch

from nsac.methods import METHODS, WindowProblem
from support.problems import walk


def test_persistence_predicts_the_last_value_with_its_training_error(generator):
    split = walk(generator=generator)
    baseline = METHODS["persistence"](split.problem)
    baseline.solve(split.train, split.validation)
    p = baseline.predict(split.test.columns)
    assert (p.mean == 0).all()  # no change
    torch.testing.assert_close(p.variance[0], split.train.columns["y"].square().mean(0))
    assert (p.variance[0].diff() > 0).all()  # the variance of a random walk grows


def test_a_baseline_names_the_key_that_a_batch_lacks():
    baseline = METHODS["seasonal"](WindowProblem(1, 2, lookback=4))
    with pytest.raises(ValueError, match="'seasonal'"):
        baseline.predict({"x": torch.zeros(1, 4, 1)})
