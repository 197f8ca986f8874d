import numpy as np
import pytest
import torch

from nsac import Prediction
from nsac.estimators.event_calibration import BINS, EventCalibration, trust_of
from nsac.estimators.samples import normal_scores

HORIZON = 10.0


def forecasts(rows=400, targets=2, per_row=8, seed=0, wide=1.0, correlated=0.0):
    """Standard Gaussian predictions whose errors grow with the lead time, `per_row` of each origin."""
    random = np.random.default_rng(seed)
    lead = torch.as_tensor(np.sort(random.uniform(0.01, HORIZON, (rows, per_row)), 1).ravel())
    target = torch.as_tensor(random.integers(0, targets, rows * per_row))
    row = torch.arange(rows).repeat_interleave(per_row)
    common = random.normal(size=rows)[row]
    noise = np.sqrt(correlated) * common + np.sqrt(1 - correlated) * random.normal(size=len(lead))
    y = torch.as_tensor(noise) * (1 + lead / HORIZON) * torch.where(target == 0, 1.0, wide)
    return Prediction.gaussian(torch.zeros_like(y), torch.ones_like(y)), y, target, lead, row


def fit(by_series=False, **options):
    p, y, target, lead, row = forecasts(**options)
    return EventCalibration.fit(p, y, target, lead, row, by_series, 2, HORIZON)


def test_scales_follow_lead_time_and_target():
    calibration = fit(wide=3.0)
    scale = calibration.scale.view(2, BINS)
    assert scale[0, 0] < 1.2 and scale[0, -1] > 1.7
    assert scale[1, 0] > 2.5


@pytest.mark.parametrize("by_series", [False, True])
def test_intervals_cover_each_target_and_lead_time(by_series):
    calibration = fit(by_series, rows=600, wide=3.0)
    p, y, target, lead, _ = forecasts(rows=600, wide=3.0, seed=1)
    column = calibration.columns(target, lead)
    lower, upper = calibration.interval(calibration.apply(p, column), column, 0.9)
    covered = ((lower <= y) & (y <= upper)).double()
    for chosen in (target == 0, target == 1, lead < 3, lead > 7):
        assert 0.86 < covered[chosen].mean() < 0.94


def test_a_quiet_time_narrows_intervals_by_the_blocks_of_time_it_has():
    p, y, *others = forecasts(targets=1)
    few, many = (EventCalibration.fit(p, 0.1 * y, *others, False, 1, HORIZON, trust) for trust in (0.2, 1.0))
    assert (many.scale < 0.25).all()
    torch.testing.assert_close(few.scale, many.scale**0.2)
    torch.testing.assert_close(few.margins(0.9), many.margins(0.9))  # of the shape of the errors, not of their size


def test_errors_larger_than_predicted_count_in_full():
    p, y, *others = forecasts(targets=1)
    few, many = (EventCalibration.fit(p, 5 * y, *others, False, 1, HORIZON, trust) for trust in (0.2, 1.0))
    torch.testing.assert_close(few.scale, many.scale, rtol=0, atol=0)
    torch.testing.assert_close(few.scores, many.scores, rtol=0, atol=0)


def test_trust_grows_with_the_blocks_of_time_and_not_with_the_number_of_forecasts():
    few, many = np.linspace(0, 15, 10), np.linspace(0, 15, 1000)
    assert trust_of(few, 10.0) == trust_of(many, 10.0) == 2 / 6
    assert trust_of(np.linspace(0, 1e5, 100_000), 10.0) > 0.999


def test_few_scores_are_in_one_bin():
    assert fit(rows=20).column.unique().tolist() == [0, BINS]


def test_a_target_with_too_few_scores_has_the_margin_of_all():
    p, y, _, lead, row = forecasts(rows=50)
    target = torch.zeros(len(y), dtype=torch.long)
    target[:3] = 1
    calibration = EventCalibration.fit(p, y, target, lead, row, False, 2, HORIZON)
    assert torch.isfinite(calibration.margins(0.9)).all()


def test_with_too_few_scores_the_interval_is_that_of_the_mixture():
    p, y, target, lead, row = (each[:5] for each in forecasts())
    calibration = EventCalibration.fit(p, y, target, lead, row, False, 2, HORIZON)
    column = calibration.columns(target, lead)
    with pytest.warns(UserWarning, match="5 forecasts of calibration are too few"):
        lower, _ = calibration.interval(p, column, 0.9)
    torch.testing.assert_close(lower, p.interval(0.9)[0])


@pytest.mark.parametrize("correlated", [0.0, 0.6])
def test_the_correlation_of_errors_is_learned(correlated):
    p, y, target, lead, row = forecasts(rows=800, correlated=correlated)
    calibration = EventCalibration.fit(p, y, target, lead, row, False, 2, HORIZON)
    z = normal_scores(calibration.apply(p, calibration.columns(target, lead)), y)
    calibration = calibration.with_correlation(z, target, lead, row, 0.1)
    found = calibration.correlation(torch.tensor([0, 0, 1]), torch.tensor([2.0, 5.0, 5.0]))
    np.testing.assert_allclose(found[[0, 0, 1], [1, 2, 2]], correlated, atol=0.12)
    assert torch.linalg.eigvalsh(found).min() > -1e-9


def test_it_is_restored_from_tensors():
    p, y, target, lead, row = forecasts(rows=50)
    calibration = EventCalibration.fit(p, y, target, lead, row, True, 2, HORIZON)
    calibration = calibration.with_correlation(y, target, lead, row, 0.1)
    again = EventCalibration.from_tensors(calibration.to_tensors(), 2)
    torch.testing.assert_close(again.margins(0.8), calibration.margins(0.8), rtol=0, atol=0)
    assert (again.exponent, again.weight, again.gap) == (calibration.exponent, calibration.weight, calibration.gap)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("edges", torch.ones(3, BINS - 1)),
        ("scale", torch.ones(2 * BINS + 1)),
        ("scale", -torch.ones(2 * BINS)),
        ("column", torch.full((400,), 2 * BINS)),
        ("groups", torch.zeros(3)),
        ("between", torch.ones(1, 1)),
        ("correlation", torch.tensor([1.0, 2.0, 1.0, 0.0])),
        ("scores", torch.full((400,), -1.0)),
    ],
)
def test_tensors_that_are_not_those_of_a_calibration_are_refused(name, value):
    with pytest.raises(ValueError, match="must"):
        EventCalibration.from_tensors(fit(rows=50).to_tensors() | {name: value}, 2)
