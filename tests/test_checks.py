import pytest
import torch

from nsac import NAC, NSAC, NSACLoss
from support.layers import SMALL, make

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
def test_an_invalid_input_is_refused_with_the_rule_and_the_remedy(arguments, words):
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
def test_an_invalid_setting_is_refused_by_name(arguments, words):
    with pytest.raises(ValueError) as caught:
        NSAC(**{"input_dim": 3, "output_dim": 2, **SMALL, **arguments})
    for word in words:
        assert word in str(caught.value)


MINUTES = 1_600_000_000 + 60 * torch.arange(9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"times": MINUTES.float()}, ["`times`", "float32", "1.6e+09", "128", "float64", "subtract"]),
        ({"times": MINUTES, "query_times": MINUTES[:3].float() + 60}, ["`query_times`", "float32", "float64"]),
        ({"times": torch.linspace(0, 3600, 9).bfloat16()}, ["`times`", "bfloat16", "16"]),
        (
            {"times": MINUTES * 10**9 + 10 * torch.arange(9)},
            ["`times`", "int64"],
        ),  # double precision cannot represent them either
    ],
    ids=["times", "query_times", "half", "int64"],
)
def test_times_that_their_type_rounds_to_coarse_steps_are_refused(arguments, words):
    with pytest.raises(ValueError) as caught:
        make(time_scale=3600.0)(X, **arguments)
    for word in words:
        assert word in str(caught.value)


def test_rounding_of_masked_times_is_not_refused():
    mask = torch.zeros(2, 9, dtype=torch.bool)
    mask[:, 7:] = True
    times = torch.linspace(0, 1, 9, dtype=torch.float32).repeat(2, 1).masked_fill(mask, 1e9)
    make()(X, times, mask)


def test_large_whole_numbers_that_single_precision_represents_are_accepted():
    make()(X, torch.arange(1e5, 1e5 + 9, dtype=torch.float32))


@pytest.mark.parametrize("name", ["x", "times", "mask", "query", "query_times", "noise"])
def test_an_array_is_refused_with_the_call_that_converts_it(name):
    arguments = {"x": X, "times": TIMES, "mask": TIMES < 0, "query": X, "query_times": TIMES}
    arguments |= {"noise": torch.randn(5, 4, 2, 4, 9)}
    with pytest.raises(TypeError, match=rf"`{name}` .* numpy.ndarray .*torch.from_numpy\({name}\)"):
        make()(**{**arguments, name: arguments[name].numpy()})


@pytest.mark.parametrize("call", [NAC(3), NAC(3).trace, make().predict, make().trace])
def test_every_method_of_a_layer_refuses_an_array(call):
    with pytest.raises(TypeError, match="torch.from_numpy"):
        call(X.numpy())


def test_novelty_is_not_fitted_on_arrays():
    with pytest.raises(TypeError, match="torch.from_numpy"):
        make().fit_novelty({"x": X.numpy()}, {"x": X, "y": X[:, 0, :2]})


def test_a_list_is_refused_with_the_call_that_converts_it():
    with pytest.raises(TypeError, match=r"`times` .* list .*torch.as_tensor\(times\)"):
        make()(X, TIMES.tolist())


def test_the_loss_refuses_an_array_of_targets():
    with pytest.raises(TypeError, match=r"torch.from_numpy\(y\)"):
        NSACLoss()(make(), X, X[:, 0, :2].numpy())


def test_times_are_refused_by_a_layer_without_time():
    with pytest.raises(ValueError, match="time='none'"):
        make(time="none")(X, TIMES)


def test_a_layer_with_learned_queries_takes_no_other_query():
    with pytest.raises(ValueError, match="learned queries"):
        make(2)(X, TIMES, query_times=TIMES)


def test_a_layer_with_learned_queries_is_not_causal():
    with pytest.raises(ValueError, match="learned queries"):
        make(2)(X, TIMES, causal=True)
