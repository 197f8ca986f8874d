import numpy as np
import pytest
import torch

from nsac import Prediction
from nsac.estimators.event_calibration import BINS, EventCalibration, shared_correlation, trust_of
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
    cell = calibration.cells(target, lead, 0)
    lower, upper = calibration.interval(calibration.apply(p, cell), cell, 0.9)
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
    with pytest.warns(UserWarning, match="5 forecasts of calibration are too few"):
        lower, _ = calibration.interval(p, calibration.cells(target, lead, 0), 0.9)
    largest = p.mean - calibration.scores.max() * p.std  # intervals of lower coverage are no wider
    torch.testing.assert_close(lower, torch.minimum(p.interval(0.9)[0], largest))


@pytest.mark.parametrize("correlated", [0.0, 0.6])
def test_the_correlation_of_errors_is_learned(correlated):
    p, y, target, lead, row = forecasts(rows=800, correlated=correlated)
    calibration = EventCalibration.fit(p, y, target, lead, row, False, 2, HORIZON)
    z = normal_scores(calibration.apply(p, calibration.cells(target, lead, 0)), y)
    calibration = calibration.with_correlation(z, target, lead, row, 0.1)
    found = calibration.correlation(torch.tensor([0, 0, 1]), torch.tensor([2.0, 5.0, 5.0]))
    np.testing.assert_allclose(found[[0, 0, 1], [1, 2, 2]], correlated, atol=0.12)
    assert torch.linalg.eigvalsh(found).min() > -1e-9


def with_missing(**options):
    """Forecasts of which a tenth has twice the error, where the second of two channels was not observed."""
    p, y, target, lead, row = forecasts(**options)
    channels = torch.ones(len(y), 2, dtype=torch.float64)
    channels[row % 10 == 0, 1] = torch.nan
    return p, torch.where(channels[:, 1].isnan(), 2 * y, y), target, lead, row, channels


@pytest.mark.parametrize("by_series", [False, True])
def test_intervals_cover_rows_with_a_missing_channel(by_series):
    p, y, target, lead, row, channels = with_missing(rows=2000)
    calibration = EventCalibration.fit(p, y, target, lead, row, by_series, 2, HORIZON, channels=channels)
    p, y, target, lead, row, channels = with_missing(rows=2000, seed=1)
    cell = calibration.cells(target, lead, calibration.classify(channels))
    lower, upper = calibration.interval(calibration.apply(p, cell), cell, 0.9)
    covered, missing = ((lower <= y) & (y <= upper)).double(), channels[:, 1].isnan()
    assert 0.87 < covered[missing].mean() < 0.93 and 0.88 < covered[~missing].mean() < 0.92
    other = calibration.cells(target, lead, calibration.patterns.n_classes)  # a pattern that was never seen
    lower, upper = calibration.interval(calibration.apply(p, other), other, 0.9)
    assert ((lower <= y) & (y <= upper)).double()[missing].mean() < 0.8


def test_patterns_with_few_scores_have_the_margins_of_all():
    p, y, target, lead, row, channels = with_missing(rows=80)
    found = EventCalibration.fit(p, y, target, lead, row, False, 2, HORIZON, channels=channels)
    rare = found.classify(channels[:1])
    assert channels[0, 1].isnan() and torch.equal(found.margins(0.9)[rare][0], found.margins(0.9)[-1])


def test_patterns_of_few_series_have_the_margins_of_all():
    p, y, target, lead, row, channels = with_missing(rows=2000)
    for series, own in ((20, False), (1000, True)):
        found = EventCalibration.fit(p, y, target, lead, row % series, True, 2, HORIZON, channels=channels)
        margins = found.margins(0.9)
        assert torch.equal(margins[found.classify(channels[:1])][0], margins[-1]) != own


def test_complete_rows_have_one_class():
    p, y, target, lead, row, channels = with_missing(rows=50)
    found = EventCalibration.fit(p, y, target, lead, row, False, 2, HORIZON, channels=torch.ones_like(channels))
    assert found.patterns is None and found.margins(0.9).shape == (1, 2 * BINS)
    assert found.classify(channels).tolist() == [0] * len(y)


def test_patterns_are_restored_from_tensors():
    p, y, target, lead, row, channels = with_missing()
    calibration = EventCalibration.fit(p, y, target, lead, row, False, 2, HORIZON, channels=channels)
    again = EventCalibration.from_tensors(calibration.to_tensors(), 2)
    assert torch.equal(again.margins(0.8), calibration.margins(0.8))
    assert torch.equal(again.classify(channels), calibration.classify(channels))
    with pytest.raises(ValueError, match="`classes` must be"):
        EventCalibration.from_tensors(calibration.to_tensors() | {"classes": calibration.classes + 9}, 2)


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


@pytest.mark.parametrize("by_series", [False, True])
@pytest.mark.parametrize("rows", [5, 10, 30, 200])
@pytest.mark.filterwarnings("ignore:.*forecasts of calibration are too few")
def test_intervals_are_nested(rows, by_series):
    calibration = fit(by_series, rows=rows, wide=3.0)
    p, _, target, lead, _ = forecasts(rows=20, seed=1)
    cell = calibration.cells(target, lead, 0)
    before = torch.zeros_like(p.mean)
    for coverage in (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999):
        lower, upper = calibration.interval(calibration.apply(p, cell), cell, coverage)
        assert (upper - lower >= before - 1e-9).all(), coverage
        before = upper - lower


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_the_correlation_of_errors_of_two_series_at_one_time_is_found(correlation):
    random, blocks, series = np.random.default_rng(0), 400, 8
    common, own = random.normal(size=(blocks, 1)), random.normal(size=(blocks, series))
    z = torch.from_numpy((np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own).ravel())
    number, time = np.tile(np.arange(series), blocks), np.repeat(np.arange(blocks) * HORIZON, series)
    found, error = shared_correlation(z, number, time, HORIZON)
    assert abs(found - correlation) < 4 * error < 0.3
    assert shared_correlation(z, number, time + 1e6 * number, HORIZON) == (0.0, 0.0)  # they do not overlap
