import inspect
import warnings

import pytest
import torch

from nsac import NAC, NSAC, NSACLoss
from nsac.core import ou_moments, select_topk
from nsac.layers import Attention, Inputs
from support.layers import drawn, make, series


@pytest.mark.parametrize(
    ("readout", "inputs", "shape"),
    [
        ("last", {}, (5, 2, 2)),
        ("all", {}, (5, 2, 9, 2)),
        (3, {}, (5, 2, 3, 2)),
        ("last", {"query_times": 4}, (5, 2, 4, 2)),
        ("all", {"query": 4}, (5, 2, 4, 2)),
        ("all", {"query": 4, "query_times": 4}, (5, 2, 4, 2)),
    ],
)
def test_draws_have_the_documented_shape(readout, inputs, shape, generator):
    x, times = series(generator=generator)
    asked = {"query_times": torch.rand(2, 4, generator=generator), "query": torch.randn(2, 4, 3, generator=generator)}
    draws = make(readout)(x, times, num_samples=5, **{name: asked[name] for name in inputs})
    assert draws.mean.shape == draws.log_std.shape == shape


@pytest.mark.parametrize("head", ["linear", "paper"])
def test_the_layer_agrees_with_its_equations(head, generator):
    x, times = series(generator=generator)
    layer = make("all", topk=3, head=head)
    cell = layer.trace(x, times)
    mu, var = ou_moments(cell["phi"], cell["kappa"], cell["psi"], cell["t"])
    torch.testing.assert_close((cell["mu"], cell["sigma"] ** 2), (mu, var))
    torch.testing.assert_close(cell["weights"], mu.softmax(-1))
    values = cell["v"].unsqueeze(2).expand(-1, -1, 9, -1, -1)
    values = values.gather(3, cell["index"][..., None].expand(-1, -1, -1, -1, values.shape[-1]))
    heads = torch.einsum("bhqk,bhqkd->bqhd", cell["weights"], values).flatten(-2)
    if head == "paper":
        mean, log_std = layer.streams(heads).chunk(2, -1)
        mean, log_std = layer.mean(mean), layer.log_std(log_std)
    else:
        query, reader = cell["q"].transpose(1, 2).flatten(-2), layer.reader
        h = torch.nn.functional.gelu(reader.hidden(torch.cat([query, heads], -1)))
        mean, log_std = (reader.attended((1 + reader.gate(h)) * heads) + reader.direct(h)).chunk(2, -1)
    draws = layer(x, times, num_samples=0)
    torch.testing.assert_close(tuple(draws), (mean[None], log_std[None]))


def test_zero_samples_give_the_noise_free_pass(generator):
    x, times = series(generator=generator)
    layer = make("all")
    quiet = layer(x, times, num_samples=0)
    silence = layer(x, times, noise=torch.zeros(3, 4, 2, 4, 9))
    assert quiet.mean.shape[0] == 1
    torch.testing.assert_close(silence.mean, quiet.mean.expand(3, -1, -1, -1))


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


@pytest.mark.parametrize("readout", ["last", "all", 2])
def test_a_batch_is_a_stack_of_singles(readout, generator):
    layer = make(readout)
    x, times = series(3, 9, generator)
    noise = torch.randn(5, *layer.attention.noise_shape(Inputs(x)), generator=generator)
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


def test_the_same_generator_gives_the_same_bits(generator):
    x, times = series(generator=generator)
    layer = make("all")
    one, two, other = (drawn(layer, x, times, seed=s) for s in (1, 1, 2))
    assert torch.equal(one.mean, two.mean) and torch.equal(one.log_std, two.log_std)
    assert not torch.equal(one.mean, other.mean)


def test_a_generator_replaces_the_global_random_state(generator):
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


def test_loading_weights_also_loads_their_wiring(generator):
    x, times = series(generator=generator)
    layer, other = make(seed=1), make(seed=2)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(drawn(layer, x, times).mean, drawn(other, x, times).mean)


def test_repr_lists_the_settings():
    text = repr(make("all"))
    for part in ("topk=4", "num_heads=4", "readout='all'", "output_dim=2", "synapses"):
        assert part in text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("readout", ["last", "all"])
def test_every_precision_is_supported(dtype, readout, generator):
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


def test_gradients_agree_with_finite_differences(generator):
    layer = NSAC(2, 1, d_model=4, num_heads=2, topk=3, circuit_units=8, readout="all")
    x = torch.randn(2, 4, 2, generator=generator, requires_grad=True)
    times = torch.rand(2, 4, generator=generator).cumsum(-1)
    noise = torch.randn(2, *layer.attention.noise_shape(Inputs(x)), generator=generator)
    parameters = dict(layer.named_parameters())

    def run(x, *values):
        named = dict(zip(parameters, values, strict=True))
        return tuple(torch.func.functional_call(layer, named, (x, times), {"noise": noise}))

    assert torch.autograd.gradcheck(run, (x, *parameters.values()), fast_mode=True)


def test_predict_is_the_mixture_of_draws_whose_noise_all_rows_share(generator):
    x, times = series(generator=generator)
    layer = make("all")
    p = layer.predict(x, times, num_samples=6, generator=torch.Generator().manual_seed(3))
    noise = torch.randn(6, 4, 1, 4, 9, generator=torch.Generator().manual_seed(3))
    noise[:, 0, :, 0] -= noise[:, 0, :, 0].mean(0)
    draws = layer(x, times, noise=noise.expand(-1, -1, 2, -1, -1))
    torch.testing.assert_close(p.mean, draws.mean.mean(0))
    torch.testing.assert_close(p.epistemic, draws.mean.var(0, correction=0))
    torch.testing.assert_close(p.aleatoric, (2 * draws.log_std).exp().mean(0))
    assert not p.mean.requires_grad


def test_two_predictions_are_the_same(generator):
    x, times = series(generator=generator)
    layer = make()
    assert torch.equal(layer.predict(x, times).mean_draws, layer.predict(x, times).mean_draws)


def test_the_prediction_of_a_row_does_not_depend_on_other_rows(generator):
    x, times = series(3, 9, generator)
    layer = make("all")
    torch.testing.assert_close(layer.predict(x[1:2], times[1:2]).mean[0], layer.predict(x, times).mean[1])


@pytest.mark.parametrize("readout", ["last", "all"])
def test_export_keeps_the_numbers_for_any_batch(readout, generator):
    layer = make(readout).eval()
    x, times = series(2, 9, generator)
    noise = torch.randn(3, *layer.attention.noise_shape(Inputs(x)), generator=generator)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(
        layer,
        (x, times),
        {"noise": noise},
        dynamic_shapes={"x": {0: batch}, "times": {0: batch}, "noise": {2: batch}},
    )
    for rows in (2, 5):
        x, times = series(rows, 9, generator)
        noise = torch.randn(3, *layer.attention.noise_shape(Inputs(x)), generator=generator)
        torch.testing.assert_close(tuple(program.module()(x, times, noise=noise)), tuple(layer(x, times, noise=noise)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_compile_keeps_the_numbers_and_the_gradients(generator):
    layer = make("all")
    x, times = series(2, 9, generator)
    noise = torch.randn(3, *layer.attention.noise_shape(Inputs(x)), generator=generator)
    results = []
    for run in (layer, torch.compile(layer)):
        layer.zero_grad()
        out = run(x, times, noise=noise)
        (out.mean.sum() + out.log_std.sum()).backward()
        results.append((out.mean.detach(), *(p.grad.clone() for p in layer.parameters())))
    torch.testing.assert_close(*results)


def fitted(generator, **more):
    """A layer with novelty, and the series it was fitted to."""
    x, times = series(120, 9, generator)
    y = torch.randn(120, 2, generator=generator)
    layer = make(**more)
    layer.fit_novelty({"x": x[:80], "times": times[:80]}, {"x": x[80:], "times": times[80:], "y": y[80:]})
    return layer, x, times


def test_epistemic_variance_rises_away_from_the_training_inputs(generator):
    layer, x, times = fitted(generator)
    near, far = layer.predict(x[80:], times[80:]).epistemic, layer.predict(4 * x[80:], times[80:]).epistemic
    assert far.median() > 5 * near.median()


def test_novelty_does_not_change_the_mean(generator):
    layer, x, times = fitted(generator)
    with_novelty = layer.predict(x, times).mean
    layer.novelty = None
    torch.testing.assert_close(with_novelty, layer.predict(x, times).mean)


def test_in_training_mode_draws_are_those_of_the_network_alone(generator):
    layer, x, times = fitted(generator)
    trained, evaluated = drawn(layer.train(), x, times).mean, drawn(layer.eval(), x, times).mean
    layer.novelty = None
    assert torch.equal(drawn(layer, x, times).mean, trained) and not torch.equal(evaluated, trained)


def test_epistemic_variance_of_a_causal_layer_does_not_depend_on_the_future(generator):
    x, times = series(60, 9, generator)
    layer = make("all")
    inputs = {"x": x, "times": times, "causal": True}
    layer.fit_novelty(inputs, {**inputs, "y": torch.randn(60, 9, 2, generator=generator)})
    later = x.clone()
    later[:, 6:] += 3.0
    before, after = layer.predict(**inputs).epistemic, layer.predict(**{**inputs, "x": later}).epistemic
    torch.testing.assert_close(after[:, :6], before[:, :6])


def test_a_masked_value_changes_no_epistemic_variance(generator):
    layer, x, times = fitted(generator)
    mask = torch.zeros(120, 9, dtype=torch.bool)
    mask[:, 3] = True
    poisoned = x.clone()
    poisoned[:, 3] = torch.inf
    expected = layer.predict(x, times, mask).epistemic
    assert torch.equal(layer.predict(poisoned, times, mask).epistemic, expected)


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_shifting_all_times_changes_no_epistemic_variance(shift, generator):
    layer, x, times = fitted(generator)
    torch.testing.assert_close(layer.predict(x, times + shift).epistemic, layer.predict(x, times).epistemic)


@pytest.mark.parametrize(
    "inputs",
    [{"readout": "all"}, {"readout": 3}, {"query_times": 4}, {"query": 4, "query_times": 4}, {"time": "none"}],
    ids=str,
)
def test_every_read_out_has_novelty(inputs, generator):
    x, times = series(60, 9, generator)
    queries = {
        "query_times": torch.rand(60, 4, generator=generator),
        "query": torch.randn(60, 4, 3, generator=generator),
    }
    layer = make(**{name: value for name, value in inputs.items() if name in ("readout", "time")})
    given = {"x": x} if "time" in inputs else {"x": x, "times": times}
    given |= {name: queries[name] for name in inputs if name in queries}
    y = torch.zeros_like(layer.predict(**given).mean)
    p = layer.fit_novelty(given, {**given, "y": y}).predict(**given)
    assert p.epistemic.shape == y.shape and (p.epistemic > 0).all() and p.epistemic.isfinite().all()


def test_novelty_is_saved_with_the_weights(generator, tmp_path):
    layer, x, times = fitted(generator)
    other = make(seed=1)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.predict(x, times).epistemic, layer.predict(x, times).epistemic)


def test_the_paper_head_has_no_novelty(generator):
    x, _ = series(generator=generator)
    with pytest.raises(ValueError, match="`head` must be 'linear'"):
        make(head="paper").fit_novelty({"x": x}, {"x": x, "y": torch.zeros(2, 2)})


def test_novelty_needs_targets_of_validation(generator):
    x, _ = series(generator=generator)
    with pytest.raises(ValueError, match="targets 'y'"):
        make().fit_novelty({"x": x}, {"x": x})


def test_layers_share_their_defaults():
    """A layer and the attention inside it are the same whichever of them is built."""
    defaults = [
        {name: p.default for name, p in inspect.signature(kind).parameters.items() if p.default is not p.empty}
        for kind in (NSAC, NAC, Attention)
    ]
    for name in set(defaults[0]) & set(defaults[1]):
        assert len({one[name] for one in defaults}) == 1, name
    documented = {"d_model": 64, "num_heads": 16, "topk": 8, "sparsity": 0.5, "circuit_units": 32, "unfolds": 1}
    assert documented.items() <= defaults[0].items()


def test_a_layer_makes_five_draws_and_a_prediction_twenty(generator):
    x, times = series(generator=generator)
    assert len(make()(x, times).mean) == 5 and len(make().predict(x, times).mean_draws) == 20


def test_the_noise_of_a_prediction_is_that_of_seed_zero(generator):
    x, times = series(generator=generator)
    layer = make()
    expected = layer.predict(x, times, generator=torch.Generator().manual_seed(0))
    assert torch.equal(layer.predict(x, times).mean_draws, expected.mean_draws)


def test_a_prediction_without_noise_is_one_draw(generator):
    x, times = series(generator=generator)
    p = make().predict(x, times, num_samples=0)
    torch.testing.assert_close(p.mean_draws, make()(x, times, num_samples=0).mean)
    assert (p.epistemic == 0).all()


@pytest.mark.parametrize("rows", [7, 20, 39, 40])
def test_novelty_is_the_same_in_batches_of_any_size(rows, generator, monkeypatch):
    expected, x, times = fitted(torch.Generator().manual_seed(0))
    monkeypatch.setattr("nsac.layers.nsac.NOVELTY_BATCH", rows)
    found, _, _ = fitted(torch.Generator().manual_seed(0))
    torch.testing.assert_close(found.predict(x, times).epistemic, expected.predict(x, times).epistemic)


def test_aleatoric_and_epistemic_variance_add_up_to_the_squared_error(generator):
    x, times = series(400, 9, generator)
    layer = make()
    plain = layer.predict(x[200:], times[200:])
    spread = (1.3 * plain.aleatoric).sqrt()
    y = plain.mean + spread * torch.randn(200, 2, generator=generator)
    layer.fit_novelty({"x": x[:200], "times": times[:200]}, {"x": x[200:], "times": times[200:], "y": y})
    p = layer.predict(x[200:], times[200:])
    assert p.variance.mean().item() <= 1.001 * (p.mean - y).square().mean().item()
    assert p.epistemic.mean() > 0


@pytest.mark.parametrize("length, method", [(9, "exact"), (10, "sqrt")])
def test_selection_is_exact_up_to_a_length(length, method, generator, monkeypatch):
    seen = []
    monkeypatch.setattr("nsac.layers.attention.EXACT_UP_TO", 9)
    monkeypatch.setattr("nsac.layers.attention.select_topk", lambda *a: seen.append(a[5]) or select_topk(*a))
    x, times = series(2, length, generator)
    for selection in ("auto", "exact", "sqrt"):
        make(selection=selection)(x, times)
    assert seen == [method, "exact", "sqrt"]


@pytest.mark.parametrize("topk", [8, 9, 10])
def test_a_query_may_attend_to_all_keys(topk, generator):
    x, times = series(generator=generator)
    cell = make("all", topk=topk).trace(x, times)
    kept = min(topk, 9)
    assert cell["index"].shape == (2, 4, 9, kept) and cell["q"].shape == (2, 4, 9, 4)
    if topk >= 9:
        assert torch.equal(cell["index"], torch.arange(9).expand(2, 4, 9, 9))


def test_a_query_may_have_other_features_than_tokens(generator):
    x, times = series(generator=generator)
    attention = Attention(3, 16, 4, 4, circuit_units=12, query_dim=5)
    query = torch.randn(2, 6, 5, generator=generator)
    inputs = attention.checked(Inputs(x, times, query=query, query_times=torch.rand(2, 6, generator=generator)))
    assert attention.noise_shape(inputs) == (4, 2, 4, 6)
    assert attention(inputs).shape == (1, 2, 6, 16)


def test_the_circuit_may_be_without_recurrence():
    assert make(unfolds=0).attention.backbone.recurrent is None
    with pytest.raises(ValueError, match="`unfolds`"):
        make(unfolds=-1)
