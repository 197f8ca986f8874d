import pytest
import torch

from nsac.training import TensorData
from nsac.training.data import Order, derive_seed


def test_columns_without_a_target_are_refused():
    with pytest.raises(ValueError, match="'y'"):
        TensorData(x=torch.zeros(3, 1))


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="equal numbers of rows"):
        TensorData(x=torch.zeros(3, 1), y=torch.zeros(2, 1))


def test_the_order_of_rows_depends_on_seed_and_epoch_alone(seed):
    forward, backward = Order(50, 8, seed), Order(50, 8, seed)
    steps = range(3 * forward.batches)
    seen = {step: forward.rows(step) for step in steps}
    assert all(torch.equal(seen[step], backward.rows(step)) for step in reversed(steps))
    assert not torch.equal(seen[0], Order(50, 8, seed + 1).rows(0))


def test_the_slices_of_all_processes_make_the_joint_batch(seed):
    whole, slices = Order(51, 8, seed), [Order(51, 8, seed, rank, 2) for rank in (0, 1)]
    for step in range(2 * whole.batches):
        assert torch.equal(whole.rows(step), torch.cat([part.rows(step) for part in slices]))


def test_seeds_differ_by_purpose():
    seeds = {derive_seed(seed, word, n) for seed in range(9) for word in ("order", "noise") for n in range(9)}
    assert len(seeds) == 9 * 2 * 9
