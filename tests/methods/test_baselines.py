import pytest
import torch

from nsac.methods import METHODS, WindowProblem, fit
from support.problems import scattered, sine, walk


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


def test_the_prediction_is_mean_and_standard_deviation_of_the_training_targets(generator):
    split = sine(generator=generator)
    baseline = METHODS["mean"](split.problem)
    fit(baseline, split.train, split.validation)
    p = baseline.predict(split.test.columns)
    y = split.train.columns["y"]
    torch.testing.assert_close(p.mean[:2, 0], y.mean().expand(2))
    torch.testing.assert_close(p.std[0], y.std(0, correction=0))


def test_the_prediction_of_series_depends_on_the_query_time(generator):
    split = scattered(n=3000, generator=generator)
    columns = {**split.train.columns, "y": split.train.columns["query_times"].unsqueeze(-1)}
    baseline = METHODS["mean"](split.problem)
    fit(baseline, type(split.train)(**columns), split.validation)
    query_times = split.test.columns["query_times"]
    assert (baseline.predict(split.test.columns).mean.squeeze(-1) - query_times).abs().max() < 1 / 200  # a bin
