import numpy as np
import pytest

from nsac.estimators.stacked import (
    BATCH_SIZES,
    LARGE_FOLDS,
    MAX_STEPS_PER_ROW,
    MIN_MEMBER_DRAWS,
    SMALL_FOLDS,
    SMALL_TABLE_ROWS,
    make_splits,
    member_draws,
    resample,
    split_groups,
    training_fields,
)
from nsac.training import TrainConfig


@pytest.mark.parametrize("members", [1, 2, 4, 10])
@pytest.mark.parametrize("rows", [5, 40, 2000])
def test_a_member_trains_on_all_rows_but_those_it_leaves_out(rows, members):
    splits = make_splits(rows, members, np.random.RandomState(0))
    folds = SMALL_FOLDS if rows <= SMALL_TABLE_ROWS else LARGE_FOLDS
    assert len(splits) == min(members, rows)
    for train, left_out in splits:
        assert np.array_equal(np.sort(np.concatenate([train, left_out])), np.arange(rows))
        assert 1 <= len(left_out) <= -(-rows // min(rows, max(members, folds)))


def test_no_row_is_left_out_twice():
    left_out = np.concatenate([out for _, out in make_splits(53, 4, np.random.RandomState(0))])
    assert len(left_out) == len(np.unique(left_out))


@pytest.mark.parametrize("count", [3, 8, 25])
def test_a_group_is_never_separated_and_left_out_once(count):
    groups = np.random.default_rng(0).integers(count, size=400)
    splits = split_groups(groups, np.random.RandomState(0))
    assert len(splits) == min(LARGE_FOLDS, count)
    for train, left_out in splits:
        assert not set(groups[train]) & set(groups[left_out])
        assert np.array_equal(np.sort(np.concatenate([train, left_out])), np.arange(400))
    assert np.array_equal(np.sort(np.concatenate([out for _, out in splits])), np.arange(400))


def test_groups_of_any_size_make_folds_of_similar_size():
    groups = np.repeat(np.arange(40), np.arange(1, 41))
    sizes = [len(left_out) for _, left_out in split_groups(groups, np.random.RandomState(0))]
    assert max(sizes) < 1.1 * min(sizes)


def test_one_large_group_is_left_out_alone():
    groups = np.repeat(np.arange(12), [500, *[10] * 11])
    assert any(set(groups[left_out]) == {0} for _, left_out in split_groups(groups, np.random.RandomState(0)))


def test_the_random_state_decides_which_groups_go_together():
    groups = np.repeat(np.arange(30), 5)
    one, same, other = (split_groups(groups, np.random.RandomState(seed)) for seed in (0, 0, 1))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(one, other, strict=True))


def test_rows_are_drawn_in_proportion_to_their_weight():
    rows, weight = np.array([2, 5, 7, 8]), np.zeros(9)
    weight[[2, 5, 8]] = 1.0, 2.0, 1.0
    assert resample(rows, weight).tolist() == [2, 5, 5, 8]


def test_equal_weights_keep_every_row_once():
    rows = np.array([4, 1, 3])
    assert resample(rows, np.full(5, 0.7)).tolist() == rows.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_weights_to_the_nearest_whole_number(seed):
    random = np.random.default_rng(seed)
    weight = random.exponential(size=200) * (random.random(200) > 0.3)
    rows = np.sort(random.choice(200, 150, replace=False))
    drawn = resample(rows, weight)
    counts = np.bincount(drawn, minlength=200)[rows]
    expected = weight[rows] / weight[rows].sum() * len(rows)
    assert len(drawn) == len(rows) and (np.abs(counts - expected) < 1).all() and not weight[drawn].min() == 0


@pytest.mark.parametrize("effort", ["fast", "default", "best"])
@pytest.mark.parametrize("rows", [4, 100, 1000, 100_000])
def test_training_fields_are_those_of_a_configuration(rows, effort):
    config = TrainConfig.from_dict(training_fields(rows, effort))
    assert 1 <= config.validate_every <= config.max_steps
    assert config.batch_size == min(rows, next(size for limit, size in BATCH_SIZES if rows < limit))


def test_more_rows_and_more_effort_are_trained_longer_but_not_in_proportion():
    steps = [training_fields(rows, "default")["max_steps"] for rows in (10, 100, 1000, 10_000)]
    assert steps == sorted(steps) and steps[3] < 10 * steps[2]
    assert steps[0] <= MAX_STEPS_PER_ROW * 10
    efforts = [training_fields(1000, effort)["max_steps"] for effort in ("fast", "default", "best")]
    assert efforts == sorted(set(efforts))


@pytest.mark.parametrize(("num_samples", "members"), [(20, 4), (20, 3), (1, 4), (1000, 8)])
def test_all_members_together_have_the_draws_and_each_enough_for_a_variance(num_samples, members):
    draws = member_draws(num_samples, members)
    assert draws >= MIN_MEMBER_DRAWS and members * draws >= num_samples
    assert draws == MIN_MEMBER_DRAWS or members * (draws - 1) < num_samples
