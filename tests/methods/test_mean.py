import torch

from nsac.methods import METHODS, fit
from support.problems import scattered, sine


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
