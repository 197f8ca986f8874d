import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from nsac.uncertainty import Prediction, coverage, plot


@pytest.fixture
def axes():
    return Figure().subplots()


def problem(shape=(30, 4)):
    g = torch.Generator().manual_seed(0)
    mean, log_std = torch.randn(5, *shape, generator=g), torch.randn(5, *shape, generator=g) / 2
    return Prediction(mean, log_std), torch.randn(shape, generator=g)


def line(axes, label):
    return next(drawn for drawn in axes.lines if drawn.get_label().startswith(label)).get_ydata()


def test_reliability_shows_shares_below_quantiles(axes):
    p, y = problem()
    plot.reliability(p, y, axes)
    assert line(axes, "observed")[30] == pytest.approx((y <= p.quantile(0.3)).double().mean().item())


def test_the_pit_histogram_is_a_density(axes):
    plot.pit_histogram(*problem(), axes, bins=8)
    heights = axes.patches[0].get_data().values
    assert heights.mean() == pytest.approx(1) and len(heights) == 8


@pytest.mark.parametrize("shape", [(30, 4), (30, 4, 2)])
def test_coverage_is_shown_for_each_lead_time(axes, shape):
    p, y = problem(shape)
    plot.coverage_by_horizon(p, y, axes, coverage=(0.8,))
    expected = [coverage(p[:, h], y[:, h], 0.8) for h in range(4)]
    np.testing.assert_allclose(line(axes, "80 %"), expected)


def test_sparsification_starts_at_the_full_error(axes):
    plot.sparsification(*problem(), axes)
    assert all(line(axes, label)[0] == pytest.approx(1) for label in ("by std", "by epistemic", "by error"))


def test_bands_nest(axes):
    p, y = problem((50,))
    plot.bands(torch.arange(50), p, axes, y)
    inner, outer = (b.get_paths()[0].vertices[:, 1] for b in axes.collections)
    assert outer.min() < inner.min() and outer.max() > inner.max()
    torch.testing.assert_close(torch.tensor(line(axes, "mean")), p.mean)


def test_shapes_that_cannot_be_drawn_are_named(axes):
    p, y = problem()
    with pytest.raises(ValueError, match="horizon"):
        plot.coverage_by_horizon(p[:, 0], y[:, 0], axes)
    with pytest.raises(ValueError, match="Pick one series"):
        plot.bands(torch.arange(30), p, axes)
