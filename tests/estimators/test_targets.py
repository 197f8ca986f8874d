import numpy as np
import pytest
import torch

from nsac.estimators.targets import MAX_LOG_STD, check_range, choose_link, max_epistemic
from nsac.uncertainty import Link


def chosen(y: np.ndarray, x: np.ndarray, target_range=None):
    design, order = torch.from_numpy(x), np.random.RandomState(0).permutation(len(y))
    return choose_link(design, y.reshape(len(y), -1), target_range, range(x.shape[1]), order)


def rows(n: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, a smooth function of them, and noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 2))
    return x, np.sin(x[:, 0]) + x[:, 1], random.normal(size=n)


@pytest.mark.parametrize("seed", range(2))
def test_lognormal_targets_are_learned_as_logarithms(seed):
    x, f, noise = rows(seed=seed)
    link = chosen(np.exp(f + 0.3 * noise), x)
    assert (link.name, link.lower, link.upper) == ("log", 0.0, None)


@pytest.mark.parametrize("seed", range(2))
def test_gaussian_targets_are_learned_as_they_are(seed):
    x, f, noise = rows(seed=seed)
    y = f + 0.3 * noise
    assert chosen(y - y.min() + 0.5, x).name == "identity"


@pytest.mark.parametrize("shift", [-0.5, 0.0, 100.0])
def test_targets_with_a_sign_zero_or_a_narrow_range_are_learned_as_they_are(shift):
    x, f, noise = rows(40)
    y = np.exp(f + 0.3 * noise)
    assert chosen(y - y.min() + shift, x).name == "identity"


def test_one_of_several_targets_below_zero_keeps_all_as_they_are():
    x, f, noise = rows(40)
    assert chosen(np.stack([np.exp(f), f], 1), x).name == "identity"


@pytest.mark.parametrize(
    ("target_range", "names"),
    [
        ((0, None), {"log", "softplus"}),
        ((None, 50), {"log", "softplus"}),
        ((0, 50), {"logit"}),
        ([-1, None], {"log", "softplus"}),
    ],
)
def test_the_range_decides_which_links_are_compared(target_range, names):
    x, f, noise = rows(60)
    link = chosen(np.exp(0.5 * f + 0.1 * noise), x, target_range)
    assert link.name in names and [link.lower, link.upper] == list(target_range)


def test_a_range_without_bounds_is_no_range():
    x, f, noise = rows(30)
    assert chosen(f, x, (None, None)).name == "identity"


def test_targets_outside_the_range_are_refused_with_its_name():
    x, f, _ = rows(30)
    with pytest.raises(ValueError, match="`target_range`.*at least 0"):
        chosen(f, x, (0, None))


@pytest.mark.parametrize("value", [(1, 1), (2, 1), 3, (0,), (0, 1, 2), ("a", None), "ab", (np.nan, 1)])
def test_a_wrong_range_is_named(value):
    with pytest.raises(ValueError, match="`target_range` must be a lower and a larger upper bound"):
        check_range(value)


@pytest.mark.parametrize(
    ("value", "bounds"), [(None, (None, None)), ((0, None), (0.0, None)), ([None, 1], (None, 1.0))]
)
def test_a_range_is_two_numbers_or_none(value, bounds):
    assert check_range(value) == bounds


def test_a_logarithm_has_a_largest_epistemic_variance_and_other_scales_none():
    assert (
        max_epistemic(Link("identity"), np.ones(2)) is None
        and max_epistemic(Link("logit", 0.0, 1.0), np.ones(2)) is None
    )
    limit = max_epistemic(Link("log", 0.0), np.array([0.5, 2.0]))
    assert limit is not None and limit.tolist() == [4 * MAX_LOG_STD**2, MAX_LOG_STD**2 / 4]
