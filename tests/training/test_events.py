import math

import numpy as np
import torch

from nsac.training import ChannelScale, EventsData, Queries, cut_origins


def made(n_series=5, channels=3, **options):
    """Sorted events of a few series, an origin at time 6 of each, and queries up to time 10."""
    rng = np.random.default_rng(0)
    counts = rng.integers(20, 40, n_series)
    series = np.repeat(np.arange(n_series), counts)
    times = np.concatenate([np.sort(rng.uniform(0, 10, c)) for c in counts])
    channel = rng.integers(0, channels, len(series))
    values = rng.normal(size=len(series)) + 10 * channel
    origins = np.full(n_series, 6.0)
    start, stop, first, last = cut_origins(series, times, np.arange(n_series), origins, 4.0, 4.0)
    values, channel, times = torch.tensor(values), torch.tensor(channel), torch.tensor(times)
    scale = ChannelScale.fit(values, channel, channels)
    queries = Queries(channel, times, values, first, last)
    return EventsData(values, channel, times, torch.tensor(origins), start, stop, queries, scale, **options), series


def test_past_and_future_of_an_origin_are_in_its_series_and_on_their_side(generator):
    data, series = made()
    for row in range(len(data)):
        past, future = slice(data.start[row], data.stop[row]), slice(data.queries.start[row], data.queries.stop[row])
        inside = (series == row) & (data.times.numpy() > 2) & (data.times.numpy() <= 6)
        assert data.times[past].tolist() == data.times.numpy()[inside].tolist()
        inside = (series == row) & (data.times.numpy() > 6) & (data.times.numpy() <= 10)
        assert data.times[future].tolist() == data.times.numpy()[inside].tolist()


def test_an_origin_of_a_series_without_observations_has_an_empty_row():
    start, stop, first, last = cut_origins(np.array([1, 1]), np.array([0.0, 1.0]), np.array([7]), np.ones(1), 1.0, 1.0)
    assert start.tolist() == stop.tolist() == first.tolist() == last.tolist() == [0]


def test_without_any_observation_every_row_is_empty():
    nothing = np.empty(0, dtype=np.int64), np.empty(0)
    assert all(each.tolist() == [0, 0] for each in cut_origins(*nothing, np.arange(2), np.ones(2), 1.0, 1.0))


def test_a_batch_restores_the_values_and_times():
    data, _ = made(dtype=torch.float64)
    rows = torch.tensor([3, 0])
    batch = data.batch(rows)
    offset, scale = data.offset_and_scale(rows)
    y = (offset + scale * batch["y"])[..., 0]
    for i, row in enumerate(rows.tolist()):
        past, future = slice(data.start[row], data.stop[row]), slice(data.queries.start[row], data.queries.stop[row])
        kept, asked = ~batch["mask"][i], ~batch["query_mask"][i]
        assert (batch["times"][i][kept] + 6).tolist() == data.times[past].tolist()
        assert batch["channel"][i][kept].tolist() == data.channel[past].tolist()
        torch.testing.assert_close(y[i][asked], data.values[future])
        assert y[i][~asked].isnan().all()
        mean, std = data.scale.mean[data.channel[past]], data.scale.std[data.channel[past]]
        torch.testing.assert_close(batch["x"][i][kept] * std + mean, data.values[past])


def test_a_row_does_not_depend_on_the_other_rows_of_its_batch():
    data, _ = made()
    alone, together = data.batch(torch.tensor([2])), data.batch(torch.arange(5))
    for name, value in alone.items():
        width = value.shape[1]
        assert torch.equal(value[0].nan_to_num(), together[name][2, :width].nan_to_num())


def test_chosen_queries_depend_on_the_seed_and_the_rows_alone():
    data, _ = made(max_queries=4)
    rows = torch.tensor([0, 1, 2])
    one, two = data.batch(rows), data.batch(rows)
    assert torch.equal(one["query_times"], two["query_times"]) and one["y"].shape == (3, 4, 1)
    assert not torch.equal(one["query_times"], data.subset(range(5), seed=1).batch(rows)["query_times"])
    assert not torch.equal(one["query_times"][:2], data.batch(torch.tensor([0, 1]))["query_times"])
    assert (one["query_times"].diff() >= 0).all() and not one["query_mask"].any()
    offset, _ = data.offset_and_scale(rows)
    torch.testing.assert_close(offset[..., 0], data.scale.mean[one["query_channel"]])


def test_a_channel_of_large_weight_is_chosen_first():
    data, _ = made(max_queries=2, weight=torch.tensor([1e-9, 1e-9, 1.0]))
    assert (data.batch(torch.arange(5))["query_channel"] == 2).float().mean() > 0.8


def test_moments_of_a_row_are_those_of_its_observations():
    data, _ = made(dtype=torch.float64)
    count, mean, variance = data.moments(torch.tensor([3, 1]), 3)
    past = slice(data.start[1], data.stop[1])
    for channel in range(3):
        values = data.values[past][data.channel[past] == channel]
        assert count[1, channel] == len(values)
        torch.testing.assert_close(mean[1, channel], values.mean())
        torch.testing.assert_close(variance[1, channel], values.var(correction=0))


def test_a_channel_that_is_not_seen_has_no_effect():
    data, _ = made(dtype=torch.float64)
    until = torch.full((len(data), 3), math.inf, dtype=torch.float64)
    until[1, 2], until[3, 0] = -math.inf, data.origins[3] - 1
    hidden = data.subset(range(len(data)), until=until).subset([1, 3])
    other = data.subset([1, 3])
    row = torch.bucketize(torch.arange(len(data.values)), hidden.start, right=True) - 1
    unseen = hidden.times > hidden.until[row, hidden.channel]
    other.values = torch.where(unseen, 1e6, data.values)
    assert unseen[hidden.start[0] : hidden.stop[0]].any() and unseen[hidden.start[1] : hidden.stop[1]].any()
    other.until = hidden.until
    for name, value in hidden.batch(torch.arange(2)).items():
        assert torch.equal(value.nan_to_num(), other.batch(torch.arange(2))[name].nan_to_num()), name
    for one, two in zip(hidden.moments(torch.arange(2), 3), other.moments(torch.arange(2), 3), strict=True):
        assert torch.equal(one, two)
    assert hidden.moments(torch.arange(2), 3)[0][0, 2] == 0


def test_a_constant_or_absent_channel_keeps_its_unit():
    values = torch.tensor([2.0, 2.0, 5.0, 7.0])
    scale = ChannelScale.fit(values, torch.tensor([0, 0, 1, 1]), 3)
    assert scale.std.tolist() == [1, 1, 1] and scale.mean.tolist() == [2, 6, 0]
    assert all(math.isfinite(v) for each in scale for v in each.tolist())


def test_rows_without_observations_or_queries_are_padding():
    data, _ = made()
    data.stop, data.queries = data.start.clone(), data.queries._replace(stop=data.queries.start)
    batch = data.batch(torch.arange(2))
    assert batch["mask"].all() and batch["query_mask"].all() and batch["y"].isnan().all()
