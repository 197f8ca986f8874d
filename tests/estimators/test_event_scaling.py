import numpy as np
import pytest
import torch

from nsac.estimators.event_scaling import SeriesScale


def moments(values):
    values = torch.as_tensor(values, dtype=torch.float64)
    return torch.full((1, 1), float(len(values))), values.mean().view(1, 1), values.var(correction=0).view(1, 1)


def series(levels, spread, n=200, seed=0):
    random = np.random.default_rng(seed)
    values = np.concatenate([random.normal(level, spread(level), n) for level in levels])
    return values, np.zeros(len(values), dtype=int), np.repeat(np.arange(len(levels)), n)


@pytest.fixture
def proportional():
    return SeriesScale.fit(*series((15, 200, 2000), lambda level: 0.1 * level), 1)


@pytest.mark.parametrize("level", [15, 200, 2000])
def test_every_series_has_its_own_offset_and_scale(proportional, level):
    values = np.random.default_rng(1).normal(level, 0.1 * level, 50)
    offset, scale = proportional.offset_and_scale(*moments(values))
    assert abs(offset.item() - values.mean()) < 0.02 * level and 0.08 < scale.item() / level < 0.13


@pytest.mark.parametrize("level", [30, 5000])
def test_a_new_series_has_the_scale_of_series_of_its_size(proportional, level):
    offset, scale = proportional.offset_and_scale(*moments([float(level)]))
    assert offset.item() == pytest.approx(level, rel=0.1)
    assert 0.04 < scale.item() / level < 0.15


def test_the_scale_of_similar_series_does_not_depend_on_their_size():
    scale = SeriesScale.fit(*series(np.arange(80, 130, 4), lambda level: 5.0), 1)
    assert abs(scale.slope.item()) < 0.3
    assert scale.typical_std(torch.tensor([[100.0]])).item() == pytest.approx(5, rel=0.1)


def test_the_offset_of_noisy_series_is_shrunk_to_the_mean_of_all():
    scale = SeriesScale.fit(*series((9.0, 10.0, 11.0), lambda level: 5.0), 1)
    offset, _ = scale.offset_and_scale(*moments([20.0]))
    assert 9 < offset.item() < 15


def test_an_unknown_series_has_mean_and_standard_deviation_of_all():
    values, channel, number = series((0.0, 100.0), lambda level: 1.0)
    scale = SeriesScale.fit(values, channel, number, 1)
    offset, unit = scale.offset_and_scale(torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1, 1))
    assert offset.item() == pytest.approx(50, abs=1) and unit.item() == pytest.approx(50, abs=2)


def test_a_channel_without_a_value_has_scale_one():
    scale = SeriesScale.fit(np.ones(3), np.zeros(3, dtype=int), np.zeros(3, dtype=int), 2)
    assert scale.mean[1] == 0 and scale.std[1] == 1


def test_constant_series_have_a_finite_scale():
    scale = SeriesScale.fit(np.full(6, 7.0), np.zeros(6, dtype=int), np.repeat([0, 1], 3), 1)
    offset, unit = scale.offset_and_scale(*moments([7.0, 7.0]))
    assert offset.item() == pytest.approx(7) and 0 < unit.item() < np.inf


def test_one_error_code_does_not_change_the_scale_of_all_series():
    values, channel, names = series(np.arange(-10, 12, 2), lambda level: 2.0)
    expected = SeriesScale.fit(values, channel, names, 1)
    values[7] = 9999.0
    for name, found, clean in zip(expected._fields, SeriesScale.fit(values, channel, names, 1), expected, strict=True):
        assert abs(found - clean) < 0.25 * (1 + abs(clean)), name  # without the cut `between` is 157 instead of 40


def test_a_series_much_larger_than_the_others_is_no_outlier():
    values, channel, names = series((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 90_000), lambda level: 0.1 * level)
    scale = SeriesScale.fit(values, channel, names, 1)
    assert scale.typical_std(torch.tensor([90_000.0])).item() == pytest.approx(9_000, rel=0.5)


def test_a_small_variation_at_a_high_level_is_none_of_rounding():
    values, channel, names = series(1e9 + np.arange(-10, 12, 2), lambda level: 2.0)
    assert SeriesScale.fit(values, channel, names, 1).typical.item() == pytest.approx(2.0, rel=0.2)
