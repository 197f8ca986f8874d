import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nsac import NSAC
from nsac.layers import Inputs
from support.layers import SMALL, drawn, make, series


def test_the_clock_reads_elapsed_time(generator):
    x, times = series(generator=generator)
    layer = make("all", time_scale=0.5)
    cell = layer.trace(x, times)
    key_times = times[:, None, None].expand(2, 4, 9, 9).gather(-1, cell["index"])
    elapsed = (times[:, None, :, None] - key_times).abs() / 0.5
    t_a, t_b = (p[:, None, None] for p in (layer.attention.clock.t_a, layer.attention.clock.t_b))
    torch.testing.assert_close(cell["t"], torch.sigmoid(-t_a * elapsed + t_b))


def test_without_times_the_clock_reads_one(generator):
    x, _ = series(generator=generator)
    layer = make("all")
    clock = layer.attention.clock
    expected = torch.sigmoid(-clock.t_a + clock.t_b)[:, None, None].expand(2, 4, 9, 4)
    torch.testing.assert_close(layer.trace(x)["t"], expected)


def test_draws_have_the_moments_of_the_logits(generator):
    """With two keys the difference of logits is the log-odds of the weights, so noise can be read off the output."""
    x, _ = series(1, 2, generator)
    layer = NSAC(3, 1, d_model=4, num_heads=1, topk=2)
    cell = layer.trace(x)
    attended = layer.attention(Inputs(x), noise=torch.randn(100_000, 2, 1, 1, 1, generator=generator))[:, 0, 0]
    v = cell["v"][0, 0]
    weight = ((attended - v[1]) / (v[0] - v[1])).mean(-1)
    odds = torch.logit(weight)
    mean = (cell["mu"][..., 0] - cell["mu"][..., 1]).item()
    var = (cell["sigma"] ** 2).sum().item()
    assert odds.mean().item() == pytest.approx(mean, abs=5 * (var / 1e5) ** 0.5)  # five standard errors
    assert odds.var().item() == pytest.approx(var, rel=5 * (2 / 1e5) ** 0.5)


def test_one_draw_of_many_uses_the_gates_of_one_pass(generator, monkeypatch):
    layer = make()
    calls = []
    forward = layer.attention.backbone.forward
    monkeypatch.setattr(layer.attention.backbone, "forward", lambda *a: calls.append(1) or forward(*a))
    layer(series(generator=generator)[0], num_samples=50)
    assert len(calls) == 1


@pytest.mark.parametrize("pairs", [1, 12, 80, 156, 160], ids=["singles", "fourteen", "halves", "rest of one", "whole"])
@pytest.mark.parametrize("outputs", [1, 20], ids=["project values", "read attended"])
def test_chunks_of_queries_agree_with_one_pass(outputs, pairs, generator, monkeypatch):
    x, times = series(2, 40, generator)
    layer = NSAC(3, outputs, readout="all", **SMALL)
    whole = drawn(layer, x, times)
    monkeypatch.setattr("nsac.layers.attention.CHUNK_PAIRS", pairs)
    torch.testing.assert_close(drawn(layer, x, times), whole)


def test_gates_vary_with_the_input(generator):
    cell = make("all").trace(*series(generator=generator))
    for gate in ("kappa", "phi", "psi"):
        assert cell[gate].std() > 0.01, gate


@pytest.mark.parametrize("poison", [1e30, float("inf"), float("nan")])
@pytest.mark.parametrize("readout", ["last", "all", 2])
def test_a_masked_value_changes_no_output_and_no_gradient(readout, poison, generator):
    layer = make(readout)
    x, times = series(2, 12, generator)
    mask = torch.zeros(2, 12, dtype=torch.bool)
    mask[0, [0, 5, 11]] = mask[1, 3:] = True
    results = []
    for value in (0.0, poison):
        z = x.masked_fill(mask[..., None], value).requires_grad_()
        layer.zero_grad()
        draws = drawn(layer, z, times.masked_fill(mask, value), mask)
        (draws.mean.sum() + draws.log_std.sum()).backward()
        results.append((draws.mean, draws.log_std, z.grad, *(p.grad for p in layer.parameters())))
    for clean, poisoned in zip(*results, strict=True):
        assert torch.equal(clean, poisoned)
    assert (results[0][2][mask] == 0).all()


@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 30), st.booleans(), st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
@pytest.mark.filterwarnings("ignore:A query with a single key")  # length 1 is one of the cases
def test_padding_does_not_change_the_output(length, before, after, with_times, seed):
    g = torch.Generator().manual_seed(seed)
    layer = make()
    x, times = series(2, length, g)
    times = times if with_times else None
    plain = drawn(layer, x, times)
    pad = torch.nn.functional.pad
    mask = pad(torch.zeros(2, length, dtype=torch.bool), (before, after), value=True)
    padded_times = None if times is None else pad(times, (before, after), value=7.0)
    padded = drawn(layer, pad(x, (0, 0, before, after), value=9.0), padded_times, mask)
    torch.testing.assert_close(padded, plain)


@pytest.mark.parametrize("selection", ["exact", "sqrt"])
def test_causal_outputs_do_not_depend_on_the_future(selection, generator):
    layer = make("all", selection=selection)
    x, times = series(1, 300, generator)
    later = x.clone()
    later[:, 151:] = torch.randn(1, 149, 3, generator=generator)
    one, two = (drawn(layer, z, times, causal=True) for z in (x, later))
    assert torch.equal(one.mean[:, :, :151], two.mean[:, :, :151])
    assert not torch.equal(one.mean[:, :, 151:], two.mean[:, :, 151:])


def test_causal_queries_depend_only_on_earlier_observations(generator):
    layer = make()
    x, times = series(2, 30, generator)
    asked = times[:, 14:15] + 1e-9
    later = x.clone()
    later[:, 15:] += 1
    one, two = (drawn(layer, z, times, query_times=asked, causal=True) for z in (x, later))
    assert torch.equal(one.mean, two.mean)


def test_causal_outputs_have_no_gradient_from_the_future(generator):
    x, times = series(1, 20, generator)
    x.requires_grad_()
    make("all")(x, times, causal=True, num_samples=0).mean[:, :, 7].sum().backward()
    assert (x.grad[:, 8:] == 0).all() and (x.grad[:, :8] != 0).any()


@pytest.mark.parametrize("selection", ["exact", "sqrt"])
def test_causal_refers_to_time_and_not_position_for_unsorted_observations(selection, generator):
    x = torch.randn(1, 4, 3, generator=generator)
    asked = torch.tensor([3.0])
    for readout, now in (("all", slice(1, 4)), ("last", slice(0, 1))):
        layer = make(readout, selection=selection)
        results = []
        for late, value in ((5.0, 0.0), (6.3, 9.0)):  # the first token lies in the future of all others
            times = torch.tensor([late, 1.0, 2.0, 2.5])
            z = torch.cat([x[:, :1] + value, x[:, 1:]], 1)
            out = layer(z, times, causal=True, num_samples=0).mean
            results.append(
                (
                    out[:, :, now] if readout == "all" else out,
                    layer(z, times, query_times=asked, causal=True, num_samples=0).mean,
                )
            )
        torch.testing.assert_close(*results)


def test_whole_number_times_are_compared_exactly(generator):
    layer, x = make(), torch.randn(1, 40, 3, generator=generator)
    times, asked = torch.arange(40) + 1_700_000_000, torch.tensor([1_700_000_020.0])
    later = x.clone()
    later[:, 21:] += 1
    one, two = (drawn(layer, z, times, query_times=asked, causal=True) for z in (x, later))
    assert torch.equal(one.mean, two.mean)


@pytest.mark.parametrize("readout", ["last", "all"])
def test_shifting_all_times_changes_nothing(readout, generator):
    layer = make(readout)
    x, times = series(generator=generator)
    asked = torch.rand(2, 4, generator=generator) * 2
    for more in ({}, {"query_times": asked}):
        moved = {name: value + 1024.0 for name, value in more.items()}  # times in 2^-52 of 1024: rounding, not error
        here, there = drawn(layer, x, times, **more), drawn(layer, x, times + 1024.0, **moved)
        torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_a_single_precision_layer_subtracts_the_first_time_before_it_rounds(dtype, generator):
    layer = make("all", time_scale=3600.0).float()
    x = torch.randn(2, 9, 3, generator=generator).float()
    times = torch.randint(1, 600, (2, 9), generator=generator).cumsum(-1).to(dtype)
    asked = times + 30
    here, there = (drawn(layer, x, t, query_times=q) for t, q in ((times, asked), (times + 2**31, asked + 2**31)))
    assert torch.equal(here.mean, there.mean) and torch.equal(here.log_std, there.log_std)


def test_with_absolute_time_a_shift_changes_the_output(generator):
    layer = make(time="absolute")
    x, times = series(generator=generator)
    assert not torch.allclose(drawn(layer, x, times).mean, drawn(layer, x, times + 1).mean)


def test_scaling_times_and_time_scale_together_changes_nothing(generator):
    x, times = series(generator=generator)
    seconds, hours = make(time_scale=3600.0), make(time_scale=1.0)
    torch.testing.assert_close(drawn(seconds, x, times * 3600), drawn(hours, x, times))


def test_all_keys_masked_gives_no_attention_and_finite_gradients(generator):
    layer = make("all", head="paper")
    x, times = series(generator=generator)
    mask = torch.zeros(2, 9, dtype=torch.bool)
    mask[0] = True
    x.requires_grad_()
    draws = layer(x, times, mask)
    nothing = layer.mean(layer.streams(torch.zeros(16)).chunk(2, -1)[0])
    torch.testing.assert_close(draws.mean[:, 0], nothing.expand(5, 9, 2))
    (draws.mean.sum() + draws.log_std.sum()).backward()
    assert all(p.grad.isfinite().all() for p in (x, *layer.parameters()))


def test_gradients_are_finite_for_distant_times(generator):
    layer = make("all", time_scale=1e-6)
    x, times = series(generator=generator)
    sum(part.sum() for part in layer(x, times)).backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_order_matters_without_times_unless_tokens_are_a_set(generator):
    x, _ = series(generator=generator)
    turned = x[:, torch.randperm(9, generator=generator)]
    query = torch.randn(2, 1, 3, generator=generator)
    ordered, unordered = make(topk=9), make(topk=9, time="none")
    assert not torch.allclose(
        ordered(x, query=query, num_samples=0).mean, ordered(turned, query=query, num_samples=0).mean
    )
    torch.testing.assert_close(unordered(x, query=query, num_samples=0), unordered(turned, query=query, num_samples=0))


def test_selection_prefers_near_keys_from_the_start(generator):
    """Selection has no gradient, so this must hold by construction, whatever the seed of the layer."""
    x, times = 0.1 * torch.randn(4, 100, 3, generator=generator), torch.linspace(0, 1, 100)
    distances = []
    for seed in range(3):
        index = NSAC(3, 1, readout="all", seed=seed).trace(x, times)["index"]
        distances.append((index - torch.arange(100)[:, None]).abs().double().mean())
    assert max(distances) < 20  # 33 for keys chosen at random


def test_half_precision_distinguishes_all_positions_and_has_intervals(generator):
    layer = make(readout="all").to(torch.bfloat16)
    x = torch.zeros(1, 1000, 3, dtype=torch.bfloat16)
    q = layer.trace(x)["q"].float()
    assert (q[0, :, 600] - q[0, :, 601]).abs().max() > 0
    lower, upper = layer.predict(x[:, :20]).interval(0.9)
    assert (lower < upper).all()


def test_every_combination_of_masks_and_times_is_supported(generator):
    x, times = series(2, 9, generator)
    mask = torch.zeros(2, 9, dtype=torch.bool)
    mask[0, 6:] = True
    asked = torch.rand(3, generator=generator)
    for readout, with_times, with_mask, ask, causal in itertools.product(
        ("last", "all"), (False, True), (False, True), (False, True), (False, True)
    ):
        if ask and not with_times:
            continue
        draws = make(readout)(
            x, times if with_times else None, mask if with_mask else None,
            query_times=asked if ask else None, causal=causal,
        )  # fmt: skip
        assert draws.mean.isfinite().all() and draws.log_std.isfinite().all()
