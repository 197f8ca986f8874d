import pytest
import torch

from nsac.estimators.columns import LINEAR_RANGE
from nsac.estimators.kernel import Kernel
from nsac.estimators.ranges import DEFAULT_SLOPE, MIN_SLOPE, Ranges


def fitted(x: torch.Tensor, y: torch.Tensor) -> Ranges:
    targets = ((y - y.mean()) / y.std())[:, None]
    _, left_out = Kernel.fit(x.nan_to_num(), targets, range(x.shape[1]), None, torch.Generator().manual_seed(0))
    return Ranges.fit(x, left_out, targets)


def spread(n: int = 60, columns: int = 1) -> torch.Tensor:
    x = torch.rand(n, columns, generator=torch.Generator().manual_seed(0))
    return (x - x.mean(0)) / x.std(0)


def ranges() -> Ranges:
    """From -1 to 1; slopes 0.5 and 3."""
    return Ranges(*(torch.tensor([each]) for each in (-1.0, 1.0, 0.5, 3.0)))


@pytest.mark.parametrize("value", [-1.0, 0.0, 1.0])
def test_the_variance_is_zero_inside(value):
    assert ranges().variance(torch.tensor([[value]])).item() == 0


@pytest.mark.parametrize(("value", "variance"), [(-1.5, 0.0625), (-2.0, 0.25), (1.5, 2.25), (2.0, 9.0)])
def test_the_variance_grows_with_the_square_of_the_distance_outside(value, variance):
    assert ranges().variance(torch.tensor([[value]])).item() == pytest.approx(variance)


def test_variances_of_columns_add_up():
    both = Ranges(*(torch.cat([getattr(ranges(), name)] * 2) for name in vars(ranges())))
    assert both.variance(torch.tensor([[2.0, -2.0]])).item() == pytest.approx(9.25)


def test_the_distance_of_values_that_were_compressed_is_that_of_the_values():
    far = LINEAR_RANGE + torch.log1p(torch.tensor([[7.0]]))  # 7 standard deviations beyond the linear range
    assert ranges().distance(far).item() == pytest.approx(LINEAR_RANGE + 7 - 1)


def test_values_of_any_size_have_a_finite_variance():
    assert ranges().variance(torch.tensor([[1e6], [-1e6]])).isfinite().all()


def test_a_missing_value_is_not_outside():
    assert ranges().variance(torch.tensor([[torch.nan]])).item() == 0
    assert not ranges().outside(torch.tensor([[torch.nan]])).item()


@pytest.mark.parametrize(("value", "outside"), [(1.0, False), (1.05, False), (1.15, True), (-1.15, True)])
def test_a_row_is_outside_from_a_twentieth_of_the_range_on(value, outside):
    assert ranges().outside(torch.tensor([[value]])).item() is outside


def test_the_range_is_that_of_the_training_rows():
    x = spread(columns=2)
    x[3, 0] = torch.nan
    found = fitted(x, spread()[:, 0])
    torch.testing.assert_close(found.lower, x.nan_to_num(nan=9.0).amin(0), rtol=1e-4, atol=0)
    torch.testing.assert_close(found.upper, x.nan_to_num(nan=-9.0).amax(0), rtol=1e-4, atol=0)
    assert found.variance(x).max() == 0


def test_a_straight_line_has_a_smaller_slope_than_a_curve():
    x = spread()
    straight, curved = fitted(x, x[:, 0]), fitted(x, torch.exp(2 * x[:, 0]))
    assert curved.slope_upper.item() > 3 * straight.slope_upper.item()
    assert straight.slope_upper.item() < 0.5 and straight.slope_lower.item() >= MIN_SLOPE


def test_a_curve_is_measured_at_the_end_where_it_is_steep():
    x = spread()
    found = fitted(x, torch.exp(2 * x[:, 0]))
    assert found.slope_upper.item() > 3 * found.slope_lower.item()


def test_a_constant_column_has_the_slope_of_the_others():
    x = spread(columns=2)
    x[:, 1] = 0
    found = fitted(x, torch.exp(2 * x[:, 0]))
    assert found.slope_upper[1] == found.slope_upper[0] and found.variance(x).max() == 0


def test_a_table_of_constant_columns_has_the_default_slope():
    found = fitted(torch.zeros(20, 1), spread(20)[:, 0])
    assert found.slope_lower.item() == found.slope_upper.item() == DEFAULT_SLOPE


def test_a_table_without_numbers_has_no_range():
    found = Ranges.fit(torch.zeros(5, 0), None, torch.zeros(5, 1))  # pyright: ignore[reportArgumentType]
    assert torch.equal(found.variance(torch.zeros(3, 0)), torch.zeros(3))
    assert not found.outside(torch.zeros(3, 0)).any()


def test_tensors_come_back():
    again = Ranges.from_tensors(ranges().to_tensors(), 1)
    assert all(torch.equal(getattr(again, name), each) for name, each in vars(ranges()).items())


def test_wrong_tensors_are_refused():
    with pytest.raises(ValueError, match="must have 2 numbers"):
        Ranges.from_tensors(ranges().to_tensors(), 2)
