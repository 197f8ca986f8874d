import math

import pytest
import torch

from nsac.layers.inputs import (
    RESOLUTIONS,
    ROUGHNESS_FLOOR,
    Inputs,
    describe_queries,
    description_dim,
    local_statistics,
    take_rows,
)


def observations(generator, batch=2, length=30, features=2):
    x = torch.randn(batch, length, features, generator=generator)
    return x, torch.rand(batch, length, generator=generator).sort(-1).values


def test_local_statistics_are_a_weighted_linear_regression(generator):
    x, times = observations(generator, batch=1)
    width, at = 0.3, torch.tensor([[0.4]])
    found = local_statistics(x, times, torch.zeros(1, 1, 30, dtype=torch.bool), at, width)[0, 0]
    lag = times[0] - 0.4
    w = (-lag.abs() / width).exp()
    share = w / w.sum()
    mean, mean_lag = share @ x[0], share @ lag
    variance = share @ (lag - mean_lag) ** 2 + (0.1 * width) ** 2
    slope = (share * (lag - mean_lag)) @ x[0] / variance
    rest = (share @ x[0] ** 2 - mean**2 - slope**2 * (variance + (0.1 * width) ** 2)).clamp(min=0)
    roughness = (rest.mean().sqrt() + ROUGHNESS_FLOOR).log()
    expected = torch.cat([w.sum().log()[None], mean, mean_lag[None] / width, slope * width, roughness[None]])
    torch.testing.assert_close(found, expected)


def test_on_a_straight_line_the_slope_is_nearly_its_slope_and_nothing_remains(generator):
    _, times = observations(generator, length=200)
    x = torch.stack([3 * times, 1 - times], -1)
    found = local_statistics(x, times, torch.zeros(2, 1, 200, dtype=torch.bool), torch.tensor([[0.5], [0.5]]), 1.0)
    log_total, mean, mean_lag, slope, log_rest = found[:, 0].split([1, 2, 1, 2, 1], -1)
    torch.testing.assert_close(mean, torch.cat([3 * (0.5 + mean_lag), 0.5 - mean_lag], -1))
    torch.testing.assert_close(
        slope, torch.tensor([[3.0, -1.0]]).expand(2, 2), rtol=0.2, atol=0
    )  # the ridge shrinks it
    assert (log_total > 0).all() and (log_rest < math.log(0.5)).all()


def test_without_observations_the_statistics_are_finite(generator):
    x, times = observations(generator)
    found = local_statistics(x, times, torch.ones(2, 1, 30, dtype=torch.bool), torch.zeros(2, 1), 0.1)
    assert found.isfinite().all() and found[0, 0, 0] == -1e3


def test_a_hidden_observation_does_not_count(generator):
    x, times = observations(generator)
    hidden = torch.zeros(2, 1, 30, dtype=torch.bool)
    hidden[..., 20:] = True
    some = local_statistics(x[:, :20], times[:, :20], hidden[..., :20], torch.full((2, 1), 0.3), 0.1)
    torch.testing.assert_close(local_statistics(x, times, hidden, torch.full((2, 1), 0.3), 0.1), some)


@pytest.mark.parametrize("features", [1, 2, 5])
def test_a_description_has_the_documented_length(features, generator):
    x, times = observations(generator, features=features)
    assert describe_queries(Inputs(x, times), "all", 1.0).shape == (2, 30, description_dim(features))


def test_a_description_is_the_time_of_the_query_its_features_and_its_surroundings(generator):
    x, times = observations(generator)
    found = describe_queries(Inputs(x, times), "last", 0.5)
    tau = (times - times[:, :1]) / 0.5
    hidden = torch.zeros(2, 1, 30, dtype=torch.bool)
    around = [local_statistics(x, tau, hidden, tau[:, -1:], width) for width in RESOLUTIONS]
    torch.testing.assert_close(found, torch.cat([tau[:, -1:, None], x[:, -1:], *around], -1))


def test_the_last_query_is_the_last_of_all(generator):
    x, times = observations(generator)
    last, every = (describe_queries(Inputs(x, times), readout, 1.0) for readout in ("last", "all"))
    torch.testing.assert_close(last, every[:, -1:])


def test_a_query_that_is_a_time_has_no_features(generator):
    x, times = observations(generator)
    found = describe_queries(Inputs(x, times, query_times=torch.tensor([0.2, 0.7])), "last", 0.5)
    torch.testing.assert_close(found[..., 0], (torch.tensor([0.2, 0.7]) - times[:, :1]) / 0.5)
    assert found.shape[1] == 2 and (found[..., 1:3] == 0).all()


def test_a_query_with_features_is_described_by_them(generator):
    x, times = observations(generator)
    query = torch.randn(2, 3, 2, generator=generator)
    found = describe_queries(Inputs(x, times, query=query), "last", 1.0)
    torch.testing.assert_close(found[..., 1:3], query)
    torch.testing.assert_close(found[..., 0], (times[:, -1:] - times[:, :1]).expand(2, 3))


def test_learned_queries_are_described_at_the_last_time_without_features(generator):
    x, times = observations(generator)
    found = describe_queries(Inputs(x, times), 3, 1.0)
    assert found.shape[1] == 3 and (found[..., 1:3] == 0).all()
    torch.testing.assert_close(found[..., 0], (times[:, -1:] - times[:, :1]).expand(2, 3))


def test_the_description_of_a_causal_query_ignores_later_tokens(generator):
    x, times = observations(generator)
    causal = describe_queries(Inputs(x, times, causal=True), "all", 1.0)
    for place in (0, 7, 29):
        cut = Inputs(x[:, : place + 1], times[:, : place + 1])
        torch.testing.assert_close(causal[:, place : place + 1], describe_queries(cut, "last", 1.0))


def test_the_description_of_a_set_does_not_depend_on_its_order(generator):
    x, _ = observations(generator)
    query = torch.randn(2, 1, 2, generator=generator)
    found = [describe_queries(Inputs(z, query=query), "last", None) for z in (x, x.flip(1))]
    torch.testing.assert_close(*found)
    assert (found[0][..., 0] == 0).all()


def test_padding_does_not_change_the_description(generator):
    x, times = observations(generator)
    mask = torch.zeros(2, 33, dtype=torch.bool)
    mask[:, 30:] = True
    padded = Inputs(
        torch.cat([x, torch.full((2, 3, 2), 9.0)], 1), torch.cat([times, torch.full((2, 3), -7.0)], 1), mask
    )
    torch.testing.assert_close(describe_queries(padded, "last", 1.0), describe_queries(Inputs(x, times), "last", 1.0))


def test_the_latest_token_is_the_last_that_is_not_masked():
    mask = torch.tensor([[False, False, True], [False, True, True], [True, False, False]])
    assert Inputs(torch.zeros(3, 3, 1), mask=mask).latest.tolist() == [1, 0, 2]
    assert Inputs(torch.zeros(3, 3, 1)).latest is None


def test_rows_are_taken_of_tensors_with_a_batch_axis_only():
    shared, other = torch.arange(3), object()
    found = take_rows({"x": torch.arange(6).reshape(3, 2), "times": shared, "causal": other}, torch.tensor([2, 0]))
    assert found["x"].tolist() == [[4, 5], [0, 1]]
    assert found["times"] is shared and found["causal"] is other
