import pytest
import torch

from nsac.methods import METHODS, EventsProblem
from nsac.models import EventsEncoder
from nsac.models.channels import LINEAR_RANGE, channel_statistics, compress, expand, read_events
from support.problems import sporadic

ALL = ("x", "channel", "times", "mask")


def batch_of(generator, n=40):
    return dict(sporadic(n, generator=generator).train.columns)


def encoder_of(**changes):
    return EventsEncoder(**{"channels": 3, "static_dim": 2, "future_dim": 1, **changes})


def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one, two, strict=True) if a is not None)


def test_the_order_of_observations_changes_nothing(generator):
    batch, encoder = batch_of(generator), encoder_of()
    order = torch.randperm(20, generator=generator)
    shuffled = {**batch, **{name: batch[name][:, order] for name in ALL}}
    assert same(encoder(batch), encoder(shuffled))
    assert torch.equal(encoder.describe(batch), encoder.describe(shuffled))


def test_draws_do_not_depend_on_the_order_of_observations(generator):
    batch = batch_of(generator)
    order = torch.randperm(20, generator=generator)
    shuffled = {**batch, **{name: batch[name][:, order] for name in ALL}}
    method = METHODS["nsac"](EventsProblem(channels=3, static_dim=2, future_dim=1))
    assert torch.equal(method.predict(batch).mean_draws, method.predict(shuffled).mean_draws)


def test_a_masked_observation_changes_nothing(generator):
    batch, encoder = batch_of(generator), encoder_of()
    mask = batch["mask"]
    other = {
        "x": batch["x"].masked_fill(mask, 1e6),
        "times": batch["times"].masked_fill(mask, 50.0),
        "channel": batch["channel"].masked_fill(mask, 2),
    }
    assert same(encoder(batch), encoder({**batch, **other}))
    assert torch.equal(encoder.describe(batch), encoder.describe({**batch, **other}))


def test_padding_changes_nothing(generator):
    batch = batch_of(generator)
    method = METHODS["nsac"](EventsProblem(channels=3, static_dim=2, future_dim=1))
    wide = dict(batch)
    for name in ALL:
        wide[name] = torch.nn.functional.pad(batch[name], (3, 4), value=1)
    torch.testing.assert_close(method.predict(wide).mean_draws, method.predict(batch).mean_draws)


def test_a_channel_that_was_not_observed_has_no_part_in_other_queries(generator):
    batch, encoder = batch_of(generator), encoder_of()
    batch["mask"] = batch["mask"] | (batch["channel"] == 2)
    before = encoder(batch)
    with torch.no_grad():
        encoder.identity.weight[2] += 1
        encoder.state[0].weight[:, -18:-4] += 1  # the statistics of the third channel; the attributes follow
    assert torch.equal(before.query, encoder(batch).query)


def test_a_query_does_not_depend_on_other_queries(generator):
    batch = batch_of(generator)
    method = METHODS["nsac"](EventsProblem(channels=3, static_dim=2, future_dim=1))
    few = {n: v[:, 2:4] if n.startswith("query") or n in ("y", "future") else v for n, v in batch.items()}
    torch.testing.assert_close(method.predict(few).mean_draws, method.predict(batch).mean_draws[:, :, 2:4])


def test_an_observation_after_the_origin_is_refused(generator):
    batch = batch_of(generator)
    batch["times"] = batch["times"] + 0.5
    with pytest.raises(ValueError, match="`times` must be at most 0"):
        encoder_of()(batch)


def test_a_channel_that_does_not_exist_is_refused(generator):
    batch = batch_of(generator)
    with pytest.raises(ValueError, match="`channel` must be from 0 to 1. Got 2"):
        encoder_of(channels=2)({**batch, "query_channel": batch["query_channel"].clamp(max=1)})
    with pytest.raises(ValueError, match="`query_channel` must be from 0 to 2. Got 3"):
        encoder_of()({**batch, "query_channel": batch["query_channel"] + 2})


def test_a_batch_without_a_needed_column_is_refused(generator):
    batch = batch_of(generator)
    for name in ("channel", "query_channel", "static", "future"):
        rest = {key: value for key, value in batch.items() if key != name}
        with pytest.raises(ValueError, match=f"must contain '{name}'"):
            encoder_of()(rest)


def test_a_row_without_observations_has_a_finite_prediction(generator):
    batch = batch_of(generator)
    batch["mask"] = torch.ones_like(batch["mask"])
    for name in ("nsac", "gmle", "persistence"):
        p = METHODS[name](EventsProblem(channels=3, static_dim=2, future_dim=1)).predict(batch)
        assert p.mean.isfinite().all() and p.std.isfinite().all()


def test_a_single_observation_raises_no_warning(generator):
    batch = batch_of(generator)
    one = {**batch, **{name: batch[name][:, :1] for name in ALL}}
    p = METHODS["nsac"](EventsProblem(channels=3, static_dim=2, future_dim=1)).predict(one)
    assert p.mean.isfinite().all()


def test_statistics_are_those_of_the_observations_of_a_channel():
    batch = {
        "x": torch.tensor([[1.0, 4.0, 2.0, 7.0, 9.0]]),
        "channel": torch.tensor([[0, 1, 0, 0, 1]]),
        "times": torch.tensor([[-3.0, -2.0, -1.0, -1.0, 0.0]]),
        "mask": torch.tensor([[False, False, False, False, True]]),
        "query_times": torch.ones(1, 1),
    }
    s = channel_statistics(read_events(batch, 3, time_scale=2.0), 3)
    assert s.count.tolist() == [[3, 1, 0]]
    assert s.last.tolist() == [[4.5, 4, 0]]  # the mean of two values at the same time
    assert s.age.tolist() == [[0.5, 1, 0]]
    torch.testing.assert_close(s.mean, torch.tensor([[10 / 3, 4, 0]]))
    torch.testing.assert_close(s.std, torch.tensor([[torch.tensor([1.0, 2, 7]).std(correction=0).item(), 0, 0]]))
    assert s.low.tolist() == [[1, 4, 0]] and s.high.tolist() == [[7, 4, 0]]
    assert s.observed.tolist() == [[True, True, False]]


def test_the_first_mean_lies_between_the_values_of_the_channel(generator):
    batch, encoder = batch_of(generator), encoder_of()
    statistics = channel_statistics(read_events(batch, 3, 1.0), 3)
    low = statistics.low.clamp(max=0).gather(1, batch["query_channel"])
    high = statistics.high.clamp(min=0).gather(1, batch["query_channel"])
    anchor = encoder(batch).skip[..., 0]
    assert ((anchor >= low - 1e-9) & (anchor <= high + 1e-9)).all()


def test_compressed_values_are_smooth_odd_monotone_and_can_be_expanded():
    x = torch.linspace(-1e4, 1e4, 200_001, dtype=torch.float64)
    z = compress(x)
    assert torch.equal(z[x.abs() <= LINEAR_RANGE], x[x.abs() <= LINEAR_RANGE])
    assert (z.diff() > 0).all()
    torch.testing.assert_close(z, -z.flip(0))
    torch.testing.assert_close(expand(z), x, rtol=1e-12, atol=0)
    edge = torch.tensor(LINEAR_RANGE * (1 + 1e-9), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(compress(edge), edge)
    assert slope.item() == pytest.approx(1)


@pytest.mark.parametrize("name", ["nsac", "gmle"])
def test_one_wrong_entry_does_not_ruin_the_forecasts_of_other_channels(generator, name):
    batch = batch_of(generator)
    method = METHODS[name](EventsProblem(channels=3, static_dim=2, future_dim=1))
    wrong = {**batch, "x": torch.where(batch["channel"] == 0, 1e5, batch["x"])}
    other = (batch["query_channel"] != 0).unsqueeze(-1)
    change = (method.predict(wrong).mean - method.predict(batch).mean)[other]
    assert change.abs().max() < 20  # 8e3 (gmle) and 3e7 (nsac) without compression


def test_the_last_value_is_an_anchor_however_large(generator):
    batch, encoder = batch_of(generator), encoder_of()
    with torch.no_grad():
        encoder.anchor.weight.zero_()
        encoder.anchor.bias.zero_()
        encoder.anchor.bias[0] = 200  # all weight on the last value
    batch["x"] = batch["x"] * 1e3
    last = channel_statistics(read_events(batch, 3, 1.0), 3).last.gather(1, batch["query_channel"])
    torch.testing.assert_close(encoder(batch).skip[..., 0], last, rtol=1e-4, atol=1e-4)
