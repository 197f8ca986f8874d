import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nsac.uncertainty import Link
from nsac.uncertainty.link import MARGIN_RANGE

LINKS = [
    Link("identity"),
    Link("log", lower=0.0),
    Link("log", upper=2.0, margin=0.1),
    Link("softplus", lower=-1.0, scale=0.5),
    Link("softplus", upper=5.0, scale=3.0, margin=0.01),
    Link("logit", 0.0, 1.0),
    Link("logit", -3.0, 40.0, margin=0.5),
]
ALL = pytest.mark.parametrize("link", LINKS, ids=[f"{link.name}, {link.lower}, {link.upper}" for link in LINKS])


def targets(link: Link) -> torch.Tensor:
    """In the range, ends included."""
    low = -10.0 if link.lower is None and link.upper is None else link.lower
    low = link.upper - 10 if low is None else low
    return torch.linspace(low, low + 10 if link.upper is None else link.upper, 101)


@ALL
def test_a_target_survives_the_link_and_back(link: Link):
    y = targets(link)
    torch.testing.assert_close(link.inverse(link.forward(y)), y, rtol=1e-9, atol=1e-9)


@ALL
def test_the_derivative_is_the_slope_of_the_link(link: Link):
    y = targets(link)[1:-1].requires_grad_()
    (slope,) = torch.autograd.grad(link.forward(y).sum(), y)
    torch.testing.assert_close(link.log_derivative(y), slope.log())


@ALL
def test_a_link_is_finite_and_increasing_from_bound_to_bound(link: Link):
    z = link.forward(targets(link))
    assert z.isfinite().all() and (z.diff() > 0).all()


@ALL
@given(z=st.floats(-1e6, 1e6))
def test_the_inverse_never_leaves_the_bounds(link: Link, z: float):
    y = link.inverse(torch.tensor(z)).item()
    assert -1e150 < y < 1e150
    assert (link.lower is None or y >= link.lower) and (link.upper is None or y <= link.upper)


@ALL
def test_a_link_survives_a_text_file(link: Link):
    assert Link.from_dict(json.loads(json.dumps(link.to_dict(), allow_nan=False))) == link


@ALL
def test_a_missing_target_stays_missing(link: Link):
    assert link.forward(torch.tensor([torch.nan])).isnan().all()


def test_the_links_are_their_formulas():
    y, margin = torch.tensor([0.1, 0.5, 0.9]), 1e-12
    torch.testing.assert_close(Link("log", lower=0.0, margin=margin).forward(y), y.log())
    torch.testing.assert_close(Link("log", upper=1.0, margin=margin).forward(y), -(1 - y).log())
    torch.testing.assert_close(Link("logit", 0.0, 1.0, margin=margin).forward(y), y.logit())
    z = Link("softplus", lower=0.0, scale=0.2, margin=margin).forward(y)
    torch.testing.assert_close(0.2 * torch.nn.functional.softplus(z), y)


def test_softplus_is_linear_far_above_its_scale():
    y = torch.tensor([30.0, 40.0])
    torch.testing.assert_close(Link("softplus", lower=0.0, margin=1e-9).forward(y), y)


def test_a_bound_in_single_precision_is_in_the_range():
    """0.3 is rounded up in single precision."""
    link = Link("logit", 0.1, 0.3)
    y = torch.tensor([0.1, 0.3], dtype=torch.float32)
    assert link.forward(y).isfinite().all() and link.forward(y).dtype == torch.float64


@pytest.mark.parametrize("call", ["forward", "log_derivative"])
@pytest.mark.parametrize(("link", "value"), [(Link("log", 0.0), -3.0), (Link("log", upper=0.0), 3.0)])
def test_a_target_outside_the_bounds_is_refused(link: Link, value: float, call: str):
    with pytest.raises(ValueError, match=rf"`target_range` must contain .* 0\.0\. Got {value} at index \(1,\)"):
        getattr(link, call)(torch.tensor([0.0, value]))


# Fit


def test_the_margin_of_counts_is_half_a_count():
    y = torch.tensor([0.0, 0, 0, 1, 2, 5, 8, 20, torch.nan])
    link = Link.fit("log", y, lower=0.0)
    assert link.margin == 0.5 and link.scale == 5


def test_the_margin_has_the_unit_of_the_targets(generator):
    y = torch.randn(100, generator=generator).exp()
    one, other = (Link.fit("softplus", factor * y, lower=0.0) for factor in (1.0, 1000.0))
    assert other.margin == pytest.approx(1000 * one.margin) and other.scale == pytest.approx(1000 * one.scale)


@pytest.mark.parametrize("smallest", [1e-12, 0.5])
def test_the_margin_is_small_but_not_too_small(smallest: float):
    link = Link.fit("log", torch.tensor([smallest, 1.0, 1.0, 3.0, 9.0]), lower=0.0)
    assert MARGIN_RANGE[0] * link.scale <= link.margin <= MARGIN_RANGE[1] * link.scale


def test_targets_far_from_their_bound_have_a_nearly_linear_softplus(generator):
    y = 290 + 10 * torch.randn(500, generator=generator)
    z = Link.fit("softplus", y, lower=0.0).forward(y)
    torch.testing.assert_close((z - z.mean()) / z.std(), (y - y.mean()) / y.std(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("y", [torch.zeros(5), torch.zeros(0), torch.full((3,), torch.nan)])
def test_targets_that_are_all_on_the_bound_have_a_link(y: torch.Tensor):
    assert Link.fit("log", y, lower=0.0).forward(torch.zeros(1)).isfinite().all()


def test_a_share_has_a_margin_at_both_bounds():
    link = Link.fit("logit", torch.tensor([0.0, 0.02, 0.05, 0.1, 1.0]), 0.0, 1.0)
    assert link.margin == pytest.approx(0.005)  # a tenth of 0.05, the median distance from 0


def test_a_fit_refuses_targets_outside_the_bounds():
    with pytest.raises(ValueError, match="`target_range` must contain"):
        Link.fit("log", torch.tensor([1.0, -1.0]), lower=0.0)


# Refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "sqrt"}, "`name` must be one of"),
        ({"name": ["log"]}, "`name` must be one of"),
        ({"lower": None}, "must have one bound for the link 'log'"),
        ({"upper": 1.0}, "must have one bound"),
        ({"name": "identity"}, "must have no bound"),
        ({"name": "logit"}, "must have both bounds"),
        ({"name": "logit", "upper": 0.0}, "`lower` must be below `upper`"),
        ({"name": "logit", "lower": -1.7e308, "upper": 1.7e308}, "`lower` must be below `upper`"),
        ({"lower": float("nan")}, "`lower` of a link must be a finite number"),
        ({"lower": "0"}, "`lower` of a link must be a finite number"),
        ({"lower": True}, "`lower` of a link must be a finite number"),
        ({"lower": 10**400}, "`lower` of a link must be a finite number"),
        ({"margin": None}, "`margin` of a link must be a finite number"),
        ({"margin": 0.0}, "`margin` must be a finite number above 0"),
        ({"scale": -1.0}, "`scale` must be a finite number above 0"),
        ({"more": 1}, "must have the values"),
    ],
)
def test_values_that_are_no_link_are_refused(change: dict, message: str):
    with pytest.raises(ValueError, match=message):
        Link.from_dict(Link("log", 0.0).to_dict() | change)


@pytest.mark.parametrize("state", [{}, None, [1, 2]])
def test_a_state_that_is_no_link_is_refused(state: object):
    with pytest.raises(ValueError, match="A link must have the values"):
        Link.from_dict(state)  # pyright: ignore
