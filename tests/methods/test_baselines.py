import pytest
import torch

from nsac.methods import METHODS, EventsProblem, WindowProblem, fit
from support.problems import scattered, sine, sporadic, walk


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


def one_wave():
    """A line in the first channel, a constant in the second; the third was not observed."""
    times = torch.tensor([[-3.0, -2.0, -1.0, 0.0, -2.0]])
    return {
        "x": torch.tensor([[1.0, 2.0, 3.0, 4.0, 7.0]]),
        "channel": torch.tensor([[0, 0, 0, 0, 1]]),
        "times": times,
        "query_channel": torch.tensor([[0, 1, 2]]),
        "query_times": torch.full((1, 3), 2.0),
        "y": torch.zeros(1, 3, 1),
    }


def test_baselines_of_events_are_those_of_the_channel():
    problem = EventsProblem(channels=3, time_scale=100.0)
    values = {}
    for name in ("persistence", "half-mean", "extrapolation"):
        values[name] = METHODS[name](problem).predict(one_wave()).mean.flatten()
    torch.testing.assert_close(values["persistence"], torch.tensor([4.0, 7.0, 0.0]))
    torch.testing.assert_close(values["half-mean"], torch.tensor([3.25, 7.0, 0.0]))
    assert 5 < values["extrapolation"][0] < 6.01 and values["extrapolation"][1:].tolist() == [7.0, 0.0]


def test_the_error_of_a_channel_is_that_of_the_lead_time(generator):
    split = sporadic(600, generator=generator)
    baseline = METHODS["persistence"](split.problem)
    baseline.solve(split.train, split.validation)
    columns = split.train.columns
    error = (baseline._value(columns) - columns["y"])[..., 0]
    early = (columns["query_channel"] == 0) & (columns["query_times"] < 1 / 12)
    batch = {**columns, "query_times": torch.full_like(columns["query_times"], 0.04)}
    expected = error[early].square().mean().sqrt()
    torch.testing.assert_close(
        baseline.predict(batch).std[batch["query_channel"] == 0][0, 0], expected, rtol=0.1, atol=0
    )
