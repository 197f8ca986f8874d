import itertools
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nsac import NAC, NSAC, NSACLoss
from nsac.core import masked_softmax, ou_moments, weigh

SMALL = {"d_model": 16, "num_heads": 4, "topk": 4, "circuit_units": 12}


def make(readout="last", **more):
    return NSAC(3, 2, readout=readout, **{**SMALL, **more})


def series(batch=2, length=9, generator=None):
    x = torch.randn(batch, length, 3, generator=generator)
    return x, torch.rand(batch, length, generator=generator).cumsum(-1) / length


def drawn(layer, *args, seed=0, **kwargs):
    return layer(*args, generator=torch.Generator().manual_seed(seed), **kwargs)


# --- what it computes ---


@pytest.mark.parametrize(
    ("readout", "asks", "shape"),
    [
        ("last", {}, (5, 2, 2)),
        ("all", {}, (5, 2, 9, 2)),
        (3, {}, (5, 2, 3, 2)),
        ("last", {"query_times": 4}, (5, 2, 4, 2)),
        ("all", {"query": 4}, (5, 2, 4, 2)),
        ("all", {"query": 4, "query_times": 4}, (5, 2, 4, 2)),
    ],
)
def test_draws_have_the_promised_shape(readout, asks, shape, generator):
    x, times = series(generator=generator)
    asked = {"query_times": torch.rand(2, 4, generator=generator), "query": torch.randn(2, 4, 3, generator=generator)}
    draws = make(readout)(x, times, num_samples=5, **{name: asked[name] for name in asks})
    assert draws.mean.shape == draws.log_std.shape == shape


def test_the_layer_is_its_equations(generator):
    x, times = series(generator=generator)
    layer = make("all", topk=3)
    cell = layer.trace(x, times)
    mu, var = ou_moments(cell["phi"], cell["kappa"], cell["psi"], cell["t"])
    torch.testing.assert_close((cell["mu"], cell["sigma"] ** 2), (mu, var))
    torch.testing.assert_close(cell["weights"], mu.softmax(-1))
    values = cell["v"].unsqueeze(2).expand(-1, -1, 9, -1, -1)
    values = values.gather(3, cell["index"][..., None].expand(-1, -1, -1, -1, values.shape[-1]))
    heads = torch.einsum("bhqk,bhqkd->bqhd", cell["weights"], values).flatten(-2)
    mean, log_std = layer.streams(heads).chunk(2, -1)
    draws = layer(x, times, num_samples=0)
    torch.testing.assert_close(tuple(draws), (layer.mean(mean)[None], layer.log_std(log_std)[None]))


def test_the_clock_sees_elapsed_time(generator):
    x, times = series(generator=generator)
    layer = make("all", time_scale=0.5)
    cell = layer.trace(x, times)
    key_times = times[:, None, None].expand(2, 4, 9, 9).gather(-1, cell["index"])
    elapsed = (times[:, None, :, None] - key_times).abs() / 0.5
    t_a, t_b = (p[:, None, None] for p in (layer.attention.clock.t_a, layer.attention.clock.t_b))
    torch.testing.assert_close(cell["t"], torch.sigmoid(-t_a * elapsed + t_b))


def test_without_times_the_clock_stands_at_one(generator):
    x, _ = series(generator=generator)
    layer = make("all")
    clock = layer.attention.clock
    expected = torch.sigmoid(-clock.t_a + clock.t_b)[:, None, None].expand(2, 4, 9, 4)
    torch.testing.assert_close(layer.trace(x)["t"], expected)


def test_draws_scatter_around_the_moments_of_the_logits(generator):
    """With two keys the difference of logits is the log-odds of the weights, so noise can be read off the output."""
    x, _ = series(1, 2, generator)
    layer = NSAC(3, 1, d_model=4, num_heads=1, topk=2)
    cell = layer.trace(x)
    attended = layer.attention(x, noise=torch.randn(100_000, 2, 1, 1, 1, generator=generator))[:, 0, 0]
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


def test_no_samples_means_the_noise_free_pass(generator):
    x, times = series(generator=generator)
    layer = make("all")
    quiet = layer(x, times, num_samples=0)
    silence = layer(x, times, noise=torch.zeros(3, 4, 2, 4, 9))
    assert quiet.mean.shape[0] == 1
    torch.testing.assert_close(silence.mean, quiet.mean.expand(3, -1, -1, -1))


def test_chunks_of_queries_give_what_one_pass_gives(generator, monkeypatch):
    x, times = series(2, 40, generator)
    layer = make("all")
    whole = drawn(layer, x, times)
    monkeypatch.setattr("nsac.layers.attention.CHUNK", 12)
    torch.testing.assert_close(drawn(layer, x, times), whole)


# --- faults that must be impossible ---


def test_gates_vary_with_the_input(generator):
    cell = make("all").trace(*series(generator=generator))
    for gate in ("kappa", "phi", "psi"):
        assert cell[gate].std() > 0.01, gate


@pytest.mark.parametrize("readout", ["last", "all", 2])
@pytest.mark.parametrize("with_times", [False, True])
@pytest.mark.parametrize("time", ["elapsed", "absolute", "none"])
def test_every_parameter_has_a_gradient_after_one_backward(readout, with_times, time, generator):
    if time == "none" and with_times:
        pytest.skip("such a layer takes no times")
    x, times = series(8, 12, generator)
    layer = NSAC(3, 2, readout=readout, time=time)
    inputs = {"times": times} if with_times else {}
    y = torch.randn_like(layer(x, num_samples=0, **inputs).mean[0])
    NSACLoss()(layer, x, y, generator=generator, **inputs).backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).all(), name  # every single number, not only every tensor


def test_every_parameter_of_nac_has_a_gradient(generator):
    x, times = series(8, 12, generator)
    layer = NAC(3)
    layer(x, times).square().sum().backward()
    assert all((p.grad != 0).all() for p in layer.parameters())


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
def test_padding_length_and_side_change_nothing(length, before, after, with_times, seed):
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
def test_causal_means_no_influence_of_the_future(selection, generator):
    layer = make("all", selection=selection)
    x, times = series(1, 300, generator)
    later = x.clone()
    later[:, 151:] = torch.randn(1, 149, 3, generator=generator)
    one, two = (drawn(layer, z, times, causal=True) for z in (x, later))
    assert torch.equal(one.mean[:, :, :151], two.mean[:, :, :151])
    assert not torch.equal(one.mean[:, :, 151:], two.mean[:, :, 151:])


def test_causal_queries_see_only_earlier_observations(generator):
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
def test_causal_means_time_and_not_place_when_observations_come_unsorted(selection, generator):
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
    """Seconds since 1970 have no exact float32; a query in float32 must not see the next minute."""
    layer, x = make(), torch.randn(1, 40, 3, generator=generator)
    times, asked = torch.arange(40) + 1_700_000_000, torch.tensor([1_700_000_020.0], dtype=torch.float32)
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


def test_absolute_time_does_see_a_shift(generator):
    layer = make(time="absolute")
    x, times = series(generator=generator)
    assert not torch.allclose(drawn(layer, x, times).mean, drawn(layer, x, times + 1).mean)


def test_scaling_times_and_time_scale_together_changes_nothing(generator):
    x, times = series(generator=generator)
    seconds, hours = make(time_scale=3600.0), make(time_scale=1.0)
    torch.testing.assert_close(drawn(seconds, x, times * 3600), drawn(hours, x, times))


@pytest.mark.parametrize("readout", ["last", "all", 2])
def test_a_batch_is_a_stack_of_singles(readout, generator):
    layer = make(readout)
    x, times = series(3, 9, generator)
    noise = torch.randn(5, *layer.attention.noise_shape(x, None, None), generator=generator)
    together = layer(x, times, noise=noise)
    for i in range(3):
        alone = layer(x[i : i + 1], times[i : i + 1], noise=noise[:, :, i : i + 1])
        torch.testing.assert_close(
            (alone.mean[:, 0], alone.log_std[:, 0]), (together.mean[:, i], together.log_std[:, i])
        )


@pytest.mark.parametrize(
    ("topk", "length", "mask"),
    [(4, 1, None), (1, 5, None), (4, 2, torch.tensor([[False, False], [True, False]]))],
    ids=["one token", "topk of one", "one token left by the mask"],
)
def test_a_single_key_warns_that_it_has_no_epistemic_variance(topk, length, mask, generator):
    layer = make(topk=topk)
    with pytest.warns(UserWarning, match="epistemic variance is 0"):
        p = layer.predict(torch.randn(2, length, 3, generator=generator), mask=mask)
    assert (p.epistemic[-1] < 1e-30).all()  # rounding of a mean of equal numbers


def test_several_keys_have_epistemic_variance_and_do_not_warn(generator):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (make().predict(series(generator=generator)[0]).epistemic > 0).all()


def test_all_keys_masked_gives_no_attention_and_finite_gradients(generator):
    layer = make("all")
    x, times = series(generator=generator)
    mask = torch.zeros(2, 9, dtype=torch.bool)
    mask[0] = True
    x.requires_grad_()
    draws = layer(x, times, mask)
    nothing = layer.mean(layer.streams(torch.zeros(16)).chunk(2, -1)[0])
    torch.testing.assert_close(draws.mean[:, 0], nothing.expand(5, 9, 2))
    (draws.mean.sum() + draws.log_std.sum()).backward()
    assert all(p.grad.isfinite().all() for p in (x, *layer.parameters()))


def test_times_far_apart_leave_gradients_finite(generator):
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


# --- an ordinary module ---


def test_the_same_generator_gives_the_same_bits(generator):
    x, times = series(generator=generator)
    layer = make("all")
    one, two, other = (drawn(layer, x, times, seed=s) for s in (1, 1, 2))
    assert torch.equal(one.mean, two.mean) and torch.equal(one.log_std, two.log_std)
    assert not torch.equal(one.mean, other.mean)


def test_a_generator_leaves_the_global_one_alone(generator):
    before = torch.get_rng_state()
    make().predict(series(generator=generator)[0], generator=generator)
    NSAC(3, 1, seed=5)
    assert torch.equal(before, torch.get_rng_state())


def test_the_same_seed_builds_the_same_layer():
    one, same, other = (make(seed=s).state_dict() for s in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(one[name].shape != other[name].shape or not torch.equal(one[name], other[name]) for name in one)


def test_train_and_eval_are_the_same(generator):
    x, times = series(generator=generator)
    layer = make()
    assert torch.equal(drawn(layer.train(), x, times).mean, drawn(layer.eval(), x, times).mean)


def test_state_dict_restores_the_bits_and_holds_nothing_twice(generator, tmp_path):
    x, times = series(generator=generator)
    layer, other = make(seed=1), make(seed=1)
    for parameter in other.parameters():
        torch.nn.init.zeros_(parameter)
    state = layer.state_dict()
    storages = [tensor.untyped_storage().data_ptr() for tensor in state.values()]
    assert len(storages) == len(set(storages))
    other.load_state_dict(state)
    assert torch.equal(drawn(layer, x, times).mean, drawn(other, x, times).mean)


def test_a_layer_takes_the_wiring_that_comes_with_the_weights(generator):
    x, times = series(generator=generator)
    layer, other = make(seed=1), make(seed=2)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(drawn(layer, x, times).mean, drawn(other, x, times).mean)


def test_repr_says_what_it_is():
    text = repr(make("all"))
    for part in ("topk=4", "num_heads=4", "readout='all'", "output_dim=2", "synapses"):
        assert part in text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("readout", ["last", "all"])
def test_dtypes(dtype, readout, generator):
    layer = make(readout).to(dtype)
    x, times = series(2, 30, generator)  # times stay in double precision, as time stamps do
    draws = layer(x.to(dtype), times)
    assert draws.mean.dtype == draws.log_std.dtype == dtype
    draws.mean.sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)
    exact = make(readout)(x, times, num_samples=0).mean
    found = layer(x.to(dtype), times, num_samples=0).mean.double()
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.3}[dtype]
    assert (found - exact).abs().median() < tolerance  # the median: near ties, rounding may select another key


def test_half_precision_tells_all_positions_apart_and_has_intervals(generator):
    layer = make(readout="all").to(torch.bfloat16)
    x = torch.zeros(1, 1000, 3, dtype=torch.bfloat16)
    q = layer.trace(x)["q"].float()
    assert (q[0, :, 600] - q[0, :, 601]).abs().max() > 0
    lower, upper = layer.predict(x[:, :20]).interval(0.9)
    assert (lower < upper).all()


def test_gradcheck(generator):
    layer = NSAC(2, 1, d_model=4, num_heads=2, topk=3, circuit_units=8, readout="all")
    x = torch.randn(2, 4, 2, generator=generator, requires_grad=True)
    times = torch.rand(2, 4, generator=generator).cumsum(-1)
    noise = torch.randn(2, *layer.attention.noise_shape(x, None, None), generator=generator)
    parameters = dict(layer.named_parameters())

    def run(x, *values):
        named = dict(zip(parameters, values, strict=True))
        return tuple(torch.func.functional_call(layer, named, (x, times), {"noise": noise}))

    assert torch.autograd.gradcheck(run, (x, *parameters.values()), fast_mode=True)


def test_nac_is_deterministic_and_needs_no_noise(generator):
    x, times = series(generator=generator)
    layer = NAC(3, d_model=16, num_heads=4, topk=4)
    assert torch.equal(layer(x, times), layer(x, times))
    cell = layer.trace(x, times)
    gamma, omega, t = cell["gamma"], cell["omega"], cell["t"]
    torch.testing.assert_close(cell["mu"], gamma / omega * (1 - torch.exp(-omega * t)))
    assert "sigma" not in cell


def test_predict_is_the_mixture_of_the_draws(generator):
    x, times = series(generator=generator)
    layer = make("all")
    p = layer.predict(x, times, num_samples=6, generator=torch.Generator().manual_seed(3))
    draws = drawn(layer, x, times, num_samples=6, seed=3)
    torch.testing.assert_close(p.mean, draws.mean.mean(0))
    torch.testing.assert_close(p.epistemic, draws.mean.var(0, correction=0))
    torch.testing.assert_close(p.aleatoric, (2 * draws.log_std).exp().mean(0))
    assert not p.mean.requires_grad


def test_softmax_with_nothing_kept_is_zero_and_its_gradient_finite():
    logits = torch.randn(3, 4, requires_grad=True)
    keep = torch.tensor([[True] * 4, [True, False, False, True], [False] * 4])
    weights = masked_softmax(logits, keep)
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 1.0, 0.0]))
    assert (weights[~keep] == 0).all()
    weights.square().sum().backward()
    assert logits.grad.isfinite().all() and (logits.grad[~keep] == 0).all()


def test_weigh_is_a_sum_over_keys(generator):
    weights, values = torch.rand(2, 3, 4, 5, generator=generator), torch.randn(6, 3, 4, 5, generator=generator)
    torch.testing.assert_close(weigh(weights, values), torch.einsum("nkab,dkab->ndab", weights, values))


# --- bad input ---

X, TIMES = torch.randn(2, 9, 3), torch.rand(2, 9)
SPOILT = X.clone()
SPOILT[1, 4, 2] = float("nan")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": X[0]}, ["`x`", "(batch, time, features)", "(9, 3)"]),
        ({"x": X[..., :2]}, ["`x`", "3", "(2, 9, 2)", "input_dim"]),
        ({"x": X[:, :0]}, ["`x`", "at least one time step"]),
        ({"x": X.long()}, ["`x`", "floating", "float()"]),
        ({"x": SPOILT}, ["`x`", "finite", "nan", "(1, 4, 2)", "mask"]),
        ({"x": X[:0]}, ["`x`", "at least one row"]),
        ({"x": X.float()}, ["`x`", "precision", "float32", "float64"]),
        ({"x": X, "times": TIMES, "query_times": torch.empty(0)}, ["`query_times`", "at least one query"]),
        ({"x": X, "times": TIMES[:, :5]}, ["`times`", "(2, 9)", "(2, 5)"]),
        ({"x": X, "times": TIMES / 0}, ["`times`", "finite", "inf"]),
        ({"x": X, "mask": torch.zeros(2, 8, dtype=torch.bool)}, ["`mask`", "(2, 9)", "(2, 8)"]),
        ({"x": X, "mask": torch.zeros(2, 9)}, ["`mask`", "boolean", "bool()"]),
        ({"x": X, "query_times": TIMES}, ["`times`", "query_times"]),
        ({"x": X, "times": TIMES, "query_times": TIMES[:1]}, ["`query_times`", "(1, 9)"]),
        ({"x": X, "query": X[..., :1]}, ["`query`", "(2, 9, 1)"]),
        ({"x": X, "query": X, "causal": True}, ["`query_times`", "causal"]),
        ({"x": X, "num_samples": -1}, ["`num_samples`", "-1"]),
        ({"x": X, "noise": torch.randn(5, 3, 2, 4, 1)}, ["`noise`", "(5, 3, 2, 4, 1)"]),
    ],
)
def test_bad_input_is_named_with_the_rule_and_the_way_out(arguments, words):
    with pytest.raises(ValueError) as caught:
        make()(**arguments)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"topk": 0}, ["`topk`", "at least 1", "0"]),
        ({"d_model": 10}, ["`d_model`", "divisible", "num_heads"]),
        ({"readout": "first"}, ["`readout`", "'last'", "'first'"]),
        ({"readout": 0}, ["`readout`", "at least 1"]),
        ({"time": "relative"}, ["`time`", "'elapsed'"]),
        ({"selection": "block"}, ["`selection`", "'auto'"]),
        ({"sparsity": 1.0}, ["`sparsity`", "0.9"]),
        ({"circuit_units": 3}, ["`circuit_units`", "at least"]),
        ({"time_scale": 0.0}, ["`time_scale`", "above 0"]),
        ({"output_dim": 0}, ["`output_dim`", "at least 1"]),
        ({"num_heads": 2.0}, ["`num_heads`", "whole number", "2.0"]),
    ],
)
def test_bad_settings_are_named(arguments, words):
    with pytest.raises(ValueError) as caught:
        NSAC(**{"input_dim": 3, "output_dim": 2, **SMALL, **arguments})
    for word in words:
        assert word in str(caught.value)


def test_layers_that_cannot_take_a_query_say_so():
    with pytest.raises(ValueError, match="learned queries"):
        make(2)(X, TIMES, query_times=TIMES)
    with pytest.raises(ValueError, match="time='none'"):
        make(time="none")(X, TIMES)
    with pytest.raises(ValueError, match="learned queries"):
        make(2)(X, TIMES, causal=True)


# --- compilers ---


@pytest.mark.parametrize("readout", ["last", "all"])
def test_export_keeps_the_numbers_for_any_batch(readout, generator):
    layer = make(readout).eval()
    x, times = series(2, 9, generator)
    noise = torch.randn(3, *layer.attention.noise_shape(x, None, None), generator=generator)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(
        layer,
        (x, times),
        {"noise": noise},
        dynamic_shapes={"x": {0: batch}, "times": {0: batch}, "noise": {2: batch}},
    )
    for rows in (2, 5):
        x, times = series(rows, 9, generator)
        noise = torch.randn(3, *layer.attention.noise_shape(x, None, None), generator=generator)
        torch.testing.assert_close(tuple(program.module()(x, times, noise=noise)), tuple(layer(x, times, noise=noise)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_compile_keeps_the_numbers_and_the_gradients(generator):
    layer = make("all")
    x, times = series(2, 9, generator)
    noise = torch.randn(3, *layer.attention.noise_shape(x, None, None), generator=generator)
    results = []
    for run in (layer, torch.compile(layer)):
        layer.zero_grad()
        out = run(x, times, noise=noise)
        (out.mean.sum() + out.log_std.sum()).backward()
        results.append((out.mean.detach(), *(p.grad.clone() for p in layer.parameters())))
    torch.testing.assert_close(*results)


def test_masks_and_times_go_together_in_every_combination(generator):
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
