import math

import pytest
import torch

from nsac.training.schedule import Order, derive_seed, learning_rate_factor


def test_the_cosine_schedule_rises_linearly_and_falls_to_zero():
    shares = [learning_rate_factor(step, 1000, 0.1, "cosine") for step in range(1000)]
    assert shares[0] == pytest.approx(1 / 101) and shares[100] == 1 == max(shares)
    assert shares[:101] == sorted(shares[:101]) and shares[100:] == sorted(shares[100:], reverse=True)
    assert shares[550] == pytest.approx(0.5, abs=1e-3) and 0 < shares[-1] < 1e-5
    assert [shares[i + 1] - shares[i] for i in (3, 70)] == pytest.approx([1 / 101] * 2)


def test_without_warm_up_the_first_step_is_at_the_peak():
    assert learning_rate_factor(0, 10, 0.0, "cosine") == 1 and learning_rate_factor(0, 1, 0.0, "cosine") == 1


@pytest.mark.parametrize("steps, warmup", [(100, 0.1), (37, 0.3), (3, 0.1)])
def test_one_cycle_agrees_with_torch(steps, warmup):
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    oracle = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1.0, steps, pct_start=warmup, cycle_momentum=False)
    for step in range(steps):
        assert learning_rate_factor(step, steps, warmup, "one-cycle") == pytest.approx(oracle.get_last_lr()[0])
        optimiser.step()
        if step < steps - 1:
            oracle.step()


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("schedule", ["cosine", "one-cycle"])
@pytest.mark.parametrize("warmup", [0.0, 0.5, 0.99])
def test_every_step_of_a_short_run_has_a_positive_learning_rate(steps, schedule, warmup):
    assert all(0 < learning_rate_factor(s, steps, warmup, schedule) <= 1 and math.isfinite(s) for s in range(steps))


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
