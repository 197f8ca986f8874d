import pytest
import torch

from nsac import NSAC
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


def test_times_are_refused_by_a_layer_without_time():
    with pytest.raises(ValueError, match="time='none'"):
        make(time="none")(X, TIMES)


def test_a_layer_with_learned_queries_takes_no_other_query():
    with pytest.raises(ValueError, match="learned queries"):
        make(2)(X, TIMES, query_times=TIMES)


def test_a_layer_with_learned_queries_is_not_causal():
    with pytest.raises(ValueError, match="learned queries"):
        make(2)(X, TIMES, causal=True)
