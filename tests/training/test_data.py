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


def test_batches_of_rows_with_sizes_have_rows_of_similar_size(seed):
    sizes = torch.randint(0, 1000, (400,), generator=torch.Generator().manual_seed(seed))
    order = Order(400, 10, seed, sizes=sizes)
    batches = [order.rows(step) for step in range(order.batches)]
    assert torch.cat(batches).sort().values.tolist() == list(range(400))
    spans = torch.stack([sizes[rows].max() - sizes[rows].min() for rows in batches]).double()
    assert spans.mean() < 400


def test_the_order_of_rows_with_sizes_can_be_read_from_any_step(seed):
    sizes = torch.arange(57)
    one, two = Order(57, 8, seed, sizes=sizes), Order(57, 8, seed, sizes=sizes)
    forward = [one.rows(step) for step in range(21)]
    assert all(torch.equal(two.rows(step), forward[step]) for step in reversed(range(21)))
    assert not torch.equal(forward[0], forward[7])
