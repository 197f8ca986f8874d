import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from nsac import Prediction
from nsac.core import decompose, mixture_cdf, mixture_log_prob, mixture_quantile
from nsac.uncertainty import prediction_columns
from support import ALPHA


def draws(n=7, shape=(3, 2), seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, *shape, generator=g), torch.randn(n, *shape, generator=g) / 2


def test_total_variance_is_the_variance_of_the_mixture():
    """Law of total variance, against an integral of the density."""
    mean, log_std = draws(shape=())

    def moment(power):
        return integrate.quad(
            lambda y: y**power * mixture_log_prob(mean, log_std.exp(), torch.tensor(y)).exp().item(), -20, 20
        )[0]

    first = moment(1)
    m, aleatoric, epistemic = decompose(mean, log_std)
    assert moment(0) == pytest.approx(1)
    assert m.item() == pytest.approx(first)
    assert (aleatoric + epistemic).item() == pytest.approx(moment(2) - first**2)


def test_one_draw_has_no_epistemic_variance():
    p = Prediction(*draws(n=1))
    assert (p.epistemic == 0).all()
    torch.testing.assert_close(p.std, p.log_std_draws[0].exp())


@given(st.floats(0.001, 0.999), st.integers(1, 20), st.integers(0, 2**31))
@settings(max_examples=50, deadline=None)
def test_quantile_inverts_the_cdf(q, n, seed):
    mean, log_std = draws(n, (4,), seed)
    p = Prediction(3 * mean, log_std)
    torch.testing.assert_close(p.cdf(p.quantile(q)), torch.full((4,), q), rtol=1e-9, atol=1e-12)


def test_quantiles_of_one_gaussian_are_scipys():
    p = Prediction(torch.tensor([[1.0]]), torch.tensor([[0.5]]))
    assert p.quantile(0.975).item() == pytest.approx(stats.norm(1, torch.tensor(0.5).exp()).ppf(0.975))


def test_an_interval_holds_its_share_of_the_mixture(generator):
    p = Prediction(*draws())
    lower, upper = p.interval(0.8)
    torch.testing.assert_close(p.cdf(upper) - p.cdf(lower), torch.full((3, 2), 0.8))
    sample = p.sample(100_000, generator)
    inside = ((sample >= lower) & (sample <= upper)).double().mean(0)
    assert ((inside - 0.8).abs() < 5 * (0.16 / 1e5) ** 0.5).all()


def test_samples_follow_the_cdf(generator):
    p = Prediction(*draws(shape=()))
    sample = p.sample(100_000, generator)
    assert stats.kstest(p.cdf(sample).numpy() if sample.ndim == 0 else mixture_cdf(
        p.mean_draws[:, None], p.log_std_draws.exp()[:, None], sample
    ).numpy(), "uniform").pvalue > ALPHA  # fmt: skip


def test_log_prob_is_the_slope_of_the_cdf():
    mean, log_std = draws(shape=())
    y = torch.linspace(-3, 3, 50, requires_grad=True)
    cdf = mixture_cdf(mean[:, None], log_std.exp()[:, None], y)
    (slope,) = torch.autograd.grad(cdf.sum(), y)
    torch.testing.assert_close(slope.log(), mixture_log_prob(mean[:, None], log_std.exp()[:, None], y))


def test_components_far_apart_have_the_quantile_between_them():
    """Two equal spikes: below one half the first, above it the second."""
    mean, std = torch.tensor([0.0, 1e6]), torch.tensor([1.0, 1.0])
    assert mixture_quantile(mean, std, torch.tensor(0.25)).item() == pytest.approx(0.0, abs=1e-6)
    assert mixture_quantile(mean, std, torch.tensor(0.75)).item() == pytest.approx(1e6, abs=1e-6)


def test_bad_arguments_are_named():
    mean, log_std = draws()
    with pytest.raises(ValueError, match="same shape"):
        Prediction(mean, log_std[:, :1])
    with pytest.raises(ValueError, match="`q`"):
        Prediction(mean, log_std).quantile(1.0)
    with pytest.raises(ValueError, match="`coverage`"):
        Prediction(mean, log_std).interval(90)


@pytest.mark.parametrize("shape", [(0, 3), ()], ids=["no draws", "no axis of draws"])
def test_a_prediction_has_at_least_one_draw(shape):
    with pytest.raises(ValueError, match="at least one draw"):
        Prediction(torch.zeros(shape), torch.zeros(shape))


def test_one_draw_of_one_number_is_a_prediction():
    assert Prediction(torch.zeros(1), torch.zeros(1)).shape == ()


def test_a_gaussian_is_one_draw():
    p = Prediction.gaussian(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 3.0]))
    assert p.shape == (2,) and p.mean_draws.shape == (1, 2)
    torch.testing.assert_close(p.std, torch.tensor([0.5, 3.0]))
    assert (p.epistemic == 0).all()


def test_a_gaussian_may_have_whole_numbers():
    p = Prediction.gaussian(torch.tensor([1, 2]), torch.tensor([1, 3]))
    assert p.mean.tolist() == [1, 2] and p.quantile(0.5).is_floating_point()


@pytest.mark.parametrize(
    "mean, std, named",
    [
        ([1.0, 2.0], [1.0, 0.0], "`std` must be finite and above 0. Got 0.0 at index .1,."),
        ([1.0, 2.0], [1.0, -1.0], "`std`.*Got -1.0"),
        ([1.0, 2.0], [1.0, float("nan")], "`std`.*Got nan"),
        ([1.0, 2.0], [1.0, float("inf")], "`std`.*Got inf"),
        ([1.0, float("nan")], [1.0, 1.0], "`mean`.*Got nan"),
        ([1.0, 2.0], [1.0], "`std` must have shape .2,."),
        ([], [], "`mean` must have at least one entry"),
    ],
)
def test_a_gaussian_refuses_what_is_not_one(mean, std, named):
    with pytest.raises(ValueError, match=named):
        Prediction.gaussian(torch.tensor(mean), torch.tensor(std))


@pytest.mark.parametrize("levels", [[0.1, 0.5, 0.9], (0.1, 0.5, 0.9), torch.tensor([0.1, 0.5, 0.9])])
def test_several_quantiles_are_stacked(levels):
    p = Prediction(*draws())
    several = p.quantile(levels)
    assert several.shape == (3, 3, 2)
    torch.testing.assert_close(several[2], p.quantile(0.9), rtol=0, atol=0)


@pytest.mark.parametrize("levels", [[], [[0.5]], [0.5, 1.5], [float("nan")]])
def test_levels_that_are_none_are_refused(levels):
    with pytest.raises(ValueError, match="`q`"):
        Prediction(*draws()).quantile(levels)


def test_the_matched_gaussian_has_the_moments_of_the_mixture():
    p = Prediction(*draws())
    torch.testing.assert_close((p.moment_matched().mean, p.moment_matched().variance), (p.mean, p.variance))


@pytest.mark.parametrize(
    "index", [0, slice(1, 3), [0, 2], torch.tensor([True, False, True]), (slice(None), 1), (0, 1), ..., -1]
)
def test_indexing_picks_entries_and_keeps_the_draws(index):
    p = Prediction(*draws())
    torch.testing.assert_close(p[index].mean, p.mean[index])
    torch.testing.assert_close(p[index].epistemic, p.epistemic[index])
    assert len(p[index].mean_draws) == 7


@pytest.mark.parametrize(
    "shape, n, first, last, rows",
    [
        ((4,), 5, "mean", "upper_90", 4),  # one output: plain names
        ((4, 1), 5, "mean", "upper_90", 4),
        ((4, 2), 5, "mean_0", "upper_90_1", 4),
        ((4, 3, 2), 5, "mean_0_0", "upper_90_2_1", 4),  # horizon and output
        ((4,), 1, "mean", "upper_90", 4),  # one draw: no epistemic variance
        ((), 5, "mean", "upper_90", 1),
    ],
)
def test_a_frame_has_a_row_per_row(shape, n, first, last, rows):
    frame = Prediction(*draws(n, shape)).to_frame()
    assert (frame.columns[0], frame.columns[-1], len(frame)) == (first, last, rows)
    assert len(frame.columns) == 6 * max(1, torch.Size(shape[1:]).numel())


def test_a_frame_holds_the_numbers_of_the_prediction():
    p = Prediction(*draws())
    frame = p.to_frame(0.975, names=["x", "y"])
    assert list(frame)[6:] == ["mean_y", "std_y", "aleatoric_y", "epistemic_y", "lower_97.5_y", "upper_97.5_y"]
    torch.testing.assert_close(torch.tensor(frame["std_x"] ** 2), p.variance[:, 0])
    torch.testing.assert_close(torch.tensor(frame["lower_97.5_y"]), p.interval(0.975)[0][:, 1])
    with pytest.raises(ValueError, match="`names` must have one name per output"):
        p.to_frame(names=["x"])


def test_an_affine_map_scales_and_shifts_the_distribution():
    p, y = Prediction(*draws()), torch.zeros(3, 2)
    q = p.affine(torch.tensor([2.0, 0.5]), torch.tensor([1.0, -3.0]))
    torch.testing.assert_close(q.cdf(torch.tensor([2.0, 0.5]) * y + torch.tensor([1.0, -3.0])), p.cdf(y))


def test_columns_are_named_by_coverage_level_and_output():
    p = Prediction(*draws(shape=(4, 2)))
    columns = prediction_columns(p, {0.9: (p.mean, p.mean)}, {0.1: p.mean}, ["a", "b"])
    first = ["mean_a", "std_a", "aleatoric_a", "epistemic_a", "lower_90_a", "upper_90_a", "quantile_10_a"]
    assert list(columns)[:7] == first and list(columns)[7] == "mean_b"


def test_one_empty_name_makes_a_row_of_every_entry():
    p = Prediction(*draws(shape=(3, 4)))
    columns = prediction_columns(p, {0.5: p.interval(0.5)})
    np.testing.assert_array_equal(columns["lower_50"], p.interval(0.5)[0].flatten())


def test_the_columns_of_an_output_are_its_values():
    p = Prediction(*draws(shape=(3, 2)))
    columns = prediction_columns(p, {}, outputs=["a", "b"])
    np.testing.assert_array_equal(columns["epistemic_b"], p.epistemic[:, 1])
