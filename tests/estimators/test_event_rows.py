import numpy as np
import pytest
import torch

from nsac.estimators.event_forecasts import _fit_maker
from nsac.estimators.event_frames import find_event_columns, read_events
from nsac.estimators.event_rows import Origins, _some_of_each, draw_origins, split_origins
from nsac.estimators.times import TimeReading
from nsac.estimators.windows import WindowShape
from support.events import stays

LOOKBACK, HORIZON = 24.0, 6.0


def read(count=3, rows=60):
    frame = stays(count, rows, dated=False)
    columns = find_event_columns(frame, "t", "stay", ["HR", "MAP"], [], ["dose"], ["age"], TimeReading())
    return read_events(frame, columns), columns


def draw(events, columns, seed=0):
    return draw_origins(events, columns, LOOKBACK, HORIZON, 0.5, np.random.default_rng(seed))


@pytest.fixture
def drawn():
    events, columns = read()
    origins = draw(events, columns)
    maker = _fit_maker(events, columns, origins, [], LOOKBACK, HORIZON)
    return events, origins, maker, maker.rows(events, origins, maker.observed_queries(events, origins), torch.float64)


def test_every_series_has_origins_from_its_beginning_on(drawn):
    events, origins, *_ = drawn
    assert set(origins.series) == {0, 1, 2} and origins.times.min() < 3


def test_some_origins_are_in_an_outage(drawn):
    _, origins, *_ = drawn
    age = origins.times - origins.seen
    assert 0.1 < (age > 0).mean() < 0.25 and age.max() <= LOOKBACK / 2


def test_nothing_after_the_last_observation_that_is_seen_is_an_input(drawn):
    events, origins, _, rows = drawn
    for i in range(len(rows)):
        seen = rows.times[rows.start[i] : rows.stop[i]]
        assert len(seen) and seen.max() <= origins.seen[i] and seen.min() > origins.times[i] - LOOKBACK


def test_some_origins_come_again_without_a_channel(drawn):
    _, origins, _, rows = drawn
    missing = np.isfinite(origins.until)
    assert 0.1 < missing.any(1).mean() < 0.25 and not missing[:, 2].any()  # the last channel is known in advance
    assert (missing[missing.any(1)].sum(1) == 1).all()  # of two
    age = (origins.times[:, None] - origins.until)[missing]
    assert age.min() > 0.5 and 0.3 < (age == LOOKBACK).mean() < 0.7 and age.max() == LOOKBACK
    count, *_ = rows.moments(torch.arange(len(rows)), 3)
    assert (count[torch.from_numpy(origins.until <= origins.times[:, None] - LOOKBACK)] == 0).all()


def test_a_single_channel_is_only_missing_in_an_outage():
    frame = stays(3, 60, dated=False)
    columns = find_event_columns(frame, "t", "stay", ["HR"], [], ["dose"], ["age"], TimeReading())
    assert draw(read_events(frame, columns), columns).until is None


def test_queries_are_the_targets_within_the_horizon(drawn):
    _, origins, _, rows = drawn
    queries = rows.queries
    for i in range(len(rows)):
        lead = queries.times[queries.start[i] : queries.stop[i]] - origins.times[i]
        assert len(lead) and lead.min() > 0 and lead.max() <= HORIZON
    assert set(queries.channel.tolist()) == {0, 1}


def test_known_future_values_are_those_of_the_time_that_is_predicted(drawn):
    events, _, maker, rows = drawn
    dose = events.events.where(events.events.column == 2)
    known = rows.queries.future[:, 0].numpy() * maker.known_std[0] + maker.known_mean[0]
    observed = dict(zip(zip(dose.series, dose.times, strict=True), dose.values, strict=True))
    targets = events.events.where(events.events.column < 2)
    expected = [observed[key] for key in zip(targets.series, targets.times, strict=True)]
    np.testing.assert_allclose(known, expected)


def test_attributes_are_those_of_the_series(drawn):
    _, origins, maker, rows = drawn
    age = rows.static[:, 0].numpy() * maker.static_std[0] + maker.static_mean[0]
    np.testing.assert_allclose(age, 50 + origins.series)


def test_values_of_a_row_are_standardised_by_its_own_series(drawn):
    *_, rows = drawn
    batch = rows.batch(torch.arange(len(rows)))
    own = batch["x"].masked_fill(batch["mask"] | (batch["channel"] != 0), 0).sum(1) / 20
    assert own.abs().mean() < 0.2


def test_many_series_are_split_by_series():
    events, columns = read(12, 30)
    origins = draw(events, columns)
    splits = split_origins(events, origins, 3, WindowShape(24, 6), 1.0, np.random.default_rng(0))
    assert splits.by_series
    parts = [set(origins.series[rows]) for rows in (splits.calibration, *splits.members[0])]
    assert len(parts[0]) == 3 and not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])


def test_few_series_are_split_by_time_in_each_of_them():
    events, columns = read(3, 150)
    origins = draw(events, columns)
    splits = split_origins(events, origins, 2, WindowShape(24, 6), 1.0, np.random.default_rng(0))
    assert not splits.by_series and set(origins.series[splits.calibration]) == {0, 1, 2}
    for series in range(3):
        times = [origins.times[rows][origins.series[rows] == series] for rows in (splits.rest, splits.calibration)]
        assert times[0].max() < times[1].min()


@pytest.mark.parametrize(("rows", "hours", "members"), [(200, 48, 1), (200, 120, 2), (800, 600, 5)])
def test_a_short_series_has_fewer_members(rows, hours, members):
    frame = stays(1, rows, dated=False)
    frame["t"] *= hours / 48
    columns = find_event_columns(frame, "t", "stay", ["HR", "MAP"], [], ["dose"], ["age"], TimeReading())
    events = read_events(frame, columns)
    step = hours / rows
    shape = WindowShape(round(LOOKBACK / step), round(HORIZON / step))
    origins = draw_origins(events, columns, LOOKBACK, HORIZON, step, np.random.default_rng(0))
    splits = split_origins(events, origins, 5, shape, step, np.random.default_rng(0))
    assert len(splits.members) == members
    for _, validation in splits.members if members > 1 else ():
        assert np.ptp(origins.times[validation]) > 2 * HORIZON


def test_a_maximum_of_origins_is_shared_by_the_series():
    series = np.repeat([0, 1, 2], [5, 1000, 1000])
    rows = _some_of_each(series, 105, np.random.default_rng(0))
    assert np.bincount(series[rows]).tolist() == [5, 50, 50]


def test_some_of_the_origins_can_be_chosen():
    origins = Origins(np.arange(3), np.arange(3.0), np.arange(3.0))
    assert len(origins.where(np.array([0, 2]))) == 2
