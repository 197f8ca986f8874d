import pytest
import torch

from nsac.training import TensorData


def test_columns_without_a_target_are_refused():
    with pytest.raises(ValueError, match="'y'"):
        TensorData(x=torch.zeros(3, 1))


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="equal numbers of rows"):
        TensorData(x=torch.zeros(3, 1), y=torch.zeros(2, 1))
