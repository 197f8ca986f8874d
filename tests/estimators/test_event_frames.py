import numpy as np
import pandas as pd
import pytest

from nsac.estimators.event_frames import find_event_columns, latest_values, read_events
from nsac.estimators.times import TimeReading
from support.events import stays


def find(frame, covariates=None, static=(), known=(), series="stay", targets=("HR", "MAP")):
    return find_event_columns(frame, "t", series, targets, covariates, known, static, TimeReading())


def same(a, b):
    return all(
        np.array_equal(getattr(a.events, n), getattr(b.events, n)) for n in ("series", "times", "column", "values")
    )


@pytest.fixture
def frame():
    return stays(dated=False)


def test_other_columns_of_numbers_are_covariates(frame):
    assert find(frame).channels == ["HR", "MAP", "age", "dose"]


def test_a_covariate_that_was_never_observed_is_left_out(frame):
    assert find(frame.assign(lab=np.nan)).channels == find(frame).channels


def test_every_observed_value_is_an_event(frame):
    events = read_events(frame, find(frame, covariates=[])).events
    assert len(events.values) == frame[["HR", "MAP"]].notna().sum().sum()


def test_events_are_sorted_by_series_time_and_channel(frame):
    events = read_events(frame, find(frame)).events
    order = np.lexsort([events.column, events.times, events.series])
    assert (order == np.arange(len(order))).all()


def test_the_order_of_rows_does_not_matter(frame):
    columns = find(frame)
    assert same(read_events(frame.sample(frac=1, random_state=1), columns), read_events(frame, columns))


def test_values_of_one_time_may_be_in_several_rows(frame):
    columns = find(frame)
    apart = pd.concat([frame.assign(HR=np.nan), frame[["stay", "t", "HR", "age"]]])
    assert same(read_events(apart, columns), read_events(frame, columns))


def test_copies_of_rows_are_events_once(frame):
    columns = find(frame)
    assert same(read_events(pd.concat([frame, frame.iloc[:10]]), columns), read_events(frame, columns))


def test_different_values_of_one_time_are_averaged():
    frame = pd.DataFrame({"t": [1.0, 1.0, 2.0], "y": [3.0, 5.0, 7.0]})
    events = read_events(frame, find(frame, series=None, targets=["y"])).events
    assert events.values.tolist() == [4.0, 7.0] and events.times.tolist() == [1.0, 2.0]


def test_series_are_sorted_by_name():
    frame = pd.DataFrame({"t": range(3), "y": [1.0, 2.0, 3.0], "stay": [10, 9, 10]})
    read = read_events(frame, find(frame, targets=["y"]))
    assert read.names == [9, 10] and read.events.series.tolist() == [0, 1, 1]


def test_attributes_are_numbers_or_one_number_per_category(frame):
    frame["ward"] = frame["stay"].map({"s0": "a", "s1": "b", "s2": None})
    read = read_events(frame, find(frame, static=["age", "ward"]))
    np.testing.assert_array_equal(read.static, [[50, 1, 0], [51, 0, 1], [52, np.nan, np.nan]])


def test_a_category_that_was_not_seen_in_training_is_none_of_those_that_were(frame):
    frame["ward"] = "a"
    columns = find(frame, static=["ward"])
    with pytest.warns(UserWarning, match="'ward' has a category that was not in `fit`: 'b'"):
        assert read_events(frame.assign(ward="b"), columns).static.tolist() == [[0.0]] * 3


def test_an_attribute_that_varies_within_a_series_is_refused(frame):
    with pytest.raises(ValueError, match="'dose' must have one value in all rows of a series. Series 's0' has several"):
        read_events(frame, find(frame, static=["dose"]))


def test_a_column_has_one_role(frame):
    with pytest.raises(
        ValueError, match="`known_future` and `static` must be different columns. Got 'age' more than once"
    ):
        find(frame, static=["age"], known=["age"])


def test_a_target_without_a_value_is_refused(frame):
    with pytest.raises(ValueError, match="Column 'HR' must have a value"):
        find(frame.assign(HR=np.nan))


def test_a_column_that_is_not_there_is_named_with_its_role(frame):
    with pytest.raises(ValueError, match="`static` must name a column of the frame. Got 'sex'"):
        find(frame, static=["sex"])


def test_the_latest_value_is_the_last_at_or_before_a_time():
    frame = pd.DataFrame({"t": [1.0, 2.0, 2.0], "stay": ["a", "a", "b"], "y": [3.0, 5.0, 7.0]})
    events = read_events(frame, find(frame, targets=["y"])).events
    series, times = np.array([0, 0, 0, 1, 1]), np.array([0.5, 1.0, 9.0, 1.9, 2.0])
    np.testing.assert_array_equal(latest_values(events, 0, series, times), [np.nan, 3, 5, np.nan, 7])


def test_dates_are_counted_in_seconds():
    frame = stays(1)
    read = read_events(frame, find(frame))
    seconds = (frame["t"] - frame["t"].min()).dt.total_seconds().unique()
    np.testing.assert_allclose(read.clock(read.row_times), seconds)
