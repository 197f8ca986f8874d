import math

import pytest
import torch

from nsac.layers.times import (
    CYCLES,
    POSITION_SCALE,
    T_MIN,
    Clock,
    Times,
    encode_times,
    first_valid,
    last_token,
    raw_times,
    same_precision,
    time_features,
)

X = torch.zeros(2, 4, 3)
TIMES = torch.tensor([[5.0, 3.0, 4.0, 9.0], [2.0, 2.5, 8.0, 1.0]])
MASK = torch.tensor([[False, True, False, False], [False, False, False, True]])


def test_time_features_are_sines_and_cosines_of_whole_and_half_periods():
    found = time_features(torch.tensor([0.0, 0.125]))
    turns = 0.125 * torch.tensor(CYCLES)
    expected = torch.stack([torch.zeros(len(CYCLES)), 2 * math.pi * turns])
    torch.testing.assert_close(found, torch.cat([expected.sin(), expected.cos()], -1))


def test_features_have_from_a_quarter_period_to_eight_per_time_scale_each_twice_the_last():
    assert time_features(torch.tensor(1.0))[0].item() == pytest.approx(1.0)  # sin of a quarter turn
    assert CYCLES[-1] == 8 and all(fast == 2 * slow for slow, fast in zip(CYCLES, CYCLES[1:], strict=False))


def test_the_first_valid_time_is_the_earliest_that_is_not_masked():
    assert first_valid(TIMES, None).tolist() == [[3.0], [1.0]]
    assert first_valid(TIMES, MASK).tolist() == [[4.0], [2.0]]


def test_a_row_without_valid_times_starts_at_zero():
    assert first_valid(TIMES, torch.tensor([[True] * 4, [False] * 4])).tolist() == [[0.0], [1.0]]


def test_the_last_token_is_that_of_the_index():
    z = torch.arange(8.0).reshape(2, 4)
    assert last_token(z, None).tolist() == [[3.0], [7.0]]
    assert last_token(z, torch.tensor([1, 0])).tolist() == [[1.0], [4.0]]
    assert last_token(z[..., None].expand(2, 4, 2), torch.tensor([1, 0])).tolist() == [[[1.0, 1.0]], [[4.0, 4.0]]]


def test_without_times_positions_are_in_steps_of_the_position_scale():
    raw, scale = raw_times(X, None, 3.0)
    assert raw.tolist() == [[0.0, 1.0, 2.0, 3.0]] * 2 and scale == POSITION_SCALE
    assert raw_times(X, TIMES, 3.0)[1] == 3.0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_positions_are_represented_in_any_precision(dtype):
    raw, _ = raw_times(torch.zeros(1, 1000, 1, dtype=dtype), None, 1.0)
    assert raw.unique().numel() == 1000


@pytest.mark.parametrize(
    ("times", "others", "converted"),
    [
        (torch.float32, torch.float32, torch.float32),
        (torch.float32, None, torch.float32),
        (torch.int64, None, torch.float64),
        (torch.int64, torch.int64, torch.float64),
        (torch.float32, torch.float64, torch.float64),
        (torch.int64, torch.float32, torch.float64),
    ],
)
def test_times_of_two_types_are_compared_in_double_precision(times, others, converted):
    two = None if others is None else torch.ones(2).to(others)
    for found in same_precision(torch.ones(2).to(times), two):
        assert found is None or found.dtype == converted


def test_without_times_there_is_nothing_to_convert():
    assert same_precision(None, None) == (None, None)


def test_times_are_relative_to_the_first_valid_one_in_units_of_the_time_scale():
    tokens, queries = encode_times(X, TIMES, MASK, torch.tensor([6.0]), "elapsed", 2.0)
    assert tokens.clock.tolist() == [[0.5, 0.0, 0.0, 2.5], [0.0, 0.25, 3.0, 0.0]]  # masked: at the first
    assert queries.clock.tolist() == [[1.0], [2.0]]
    torch.testing.assert_close(tokens.features, time_features(tokens.clock))
    torch.testing.assert_close(queries.features, time_features(queries.clock))


def test_an_absolute_clock_reads_the_time_itself():
    tokens, _ = encode_times(X, TIMES, None, None, "absolute", 2.0)
    torch.testing.assert_close(tokens.clock, TIMES / 2)
    torch.testing.assert_close(tokens.features, time_features((TIMES - first_valid(TIMES, None)) / 2))


def test_tokens_without_times_have_positions_and_no_clock():
    tokens, queries = encode_times(X, None, None, None, "elapsed", 2.0)
    assert tokens.clock is None and queries == Times()
    torch.testing.assert_close(tokens.features[0], time_features(torch.arange(4) / POSITION_SCALE))
    assert tokens.order.tolist() == [0, 1, 2, 3]


def test_a_set_has_an_order_and_no_features():
    tokens, queries = encode_times(X, None, None, None, "none", 2.0)
    assert tokens.features is None and tokens.clock is None and tokens.order.tolist() == [0, 1, 2, 3]
    assert queries == Times()


def test_one_token_per_row_is_taken_with_its_time():
    tokens, _ = encode_times(X, TIMES, None, None, "elapsed", 1.0)
    one = tokens.take(torch.tensor([2, 1]))
    assert one.clock.tolist() == [[1.0], [1.5]] and one.order.tolist() == [[4.0], [2.5]]
    assert one.features.shape == (2, 1, 2 * len(CYCLES))
    assert encode_times(X, None, None, None, "elapsed", 1.0)[0].take(None).order is None


def test_slopes_of_the_clock_are_even_from_minus_one_to_one():
    torch.testing.assert_close(Clock(5).t_a.detach(), torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0]))
    assert Clock(1).t_a.tolist() == [-1.0] and Clock(2).t_a.tolist() == [-1.0, 1.0]
    assert Clock(3).t_b.tolist() == [0.0, 0.0, 0.0]


def test_the_clock_is_the_sigmoid_of_its_line():
    clock = Clock(2)
    with torch.no_grad():
        clock.t_b.copy_(torch.tensor([0.5, -0.5]))
    t = torch.tensor([[0.0, 2.0]])  # one row of two queries, for both heads
    torch.testing.assert_close(clock(t), torch.sigmoid(torch.tensor([[0.5, 2.5], [-0.5, -2.5]])))
    torch.testing.assert_close(clock(None), torch.sigmoid(torch.tensor([[1.5], [-1.5]])))


def test_internal_time_is_never_below_its_minimum():
    assert Clock(2)(torch.tensor([[1e6]]))[1].item() == T_MIN
    assert 0 < T_MIN < 1e-3
