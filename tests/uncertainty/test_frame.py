import numpy as np
import torch

from nsac.uncertainty import Prediction, prediction_columns


def prediction(*shape):
    g = torch.Generator().manual_seed(0)
    return Prediction(torch.randn(5, *shape, generator=g), torch.randn(5, *shape, generator=g))


def test_columns_are_named_by_coverage_level_and_output():
    p = prediction(4, 2)
    columns = prediction_columns(p, {0.9: (p.mean, p.mean)}, {0.1: p.mean}, ["a", "b"])
    first = ["mean_a", "std_a", "aleatoric_a", "epistemic_a", "lower_90_a", "upper_90_a", "quantile_10_a"]
    assert list(columns)[:7] == first and list(columns)[7] == "mean_b"


def test_one_empty_name_makes_a_row_of_every_entry():
    p = prediction(3, 4)
    columns = prediction_columns(p, {0.5: p.interval(0.5)})
    np.testing.assert_array_equal(columns["lower_50"], p.interval(0.5)[0].flatten())


def test_the_columns_of_an_output_are_its_values():
    p = prediction(3, 2)
    columns = prediction_columns(p, {}, outputs=["a", "b"])
    np.testing.assert_array_equal(columns["epistemic_b"], p.epistemic[:, 1])
