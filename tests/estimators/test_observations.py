import numpy as np
import pandas as pd
import pytest

from nsac.estimators.observations import SeriesColumns, check_inputs, find_columns, read_observations
from support.series import hourly

PLAIN = SeriesColumns("t", None, "y", ())
TWO_SERIES = SeriesColumns("t", "id", "y", ())


@pytest.fixture
def mixed():
    return hourly(3, y=[1, 2, 3], a=[1.0, 2, 3], flag=[True, False, True], name=["u", "v", "w"], number=["1", "2", "3"])


@pytest.fixture
def two_series():
    return pd.DataFrame({"t": [1, 1, 2, 2, 3], "id": ["b", "a", "b", "a", "b"], "y": [10.0, 20, 11, 21, 12]})


def test_every_other_column_of_numbers_is_a_covariate(mixed):
    assert find_columns(mixed, "t", None, "y", None).covariates == ("a", "flag", "number")


def test_covariates_can_be_chosen(mixed):
    assert find_columns(mixed, "t", "name", "y", ["a"]) == SeriesColumns("t", "name", "y", ("a",))


@pytest.mark.parametrize(
    ("series", "covariates", "message"),
    [("y", None, "must be different columns"), (None, ["y"], "`covariates` must be other columns than")],
)
def test_a_column_has_one_role(mixed, series, covariates, message):
    with pytest.raises(ValueError, match=message):
        find_columns(mixed, "t", series, "y", covariates)


def test_only_frames_are_read():
    with pytest.raises(TypeError, match="`frame` must be a pandas DataFrame. Got list"):
        read_observations([1, 2], PLAIN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="y"), "`target` must name a column of the frame. Got 'y'"),
        (lambda f: f.drop(columns="t"), "`time` must name a column of the frame. Got 't'"),
        (lambda f: f.head(0), "`frame` must have rows"),
        (lambda f: f.assign(t=f["t"].where(f.index != 4)), "Row 4 is empty"),
        (lambda f: f.assign(t=f["t"].iloc[[0, 1, 2, 2, 4, 5, 6, 7, 8, 9]].to_numpy()), "must differ. Row 3 has"),
        (lambda f: f.assign(y=f["y"].astype(object).where(f.index != 3, "low")), "Column 'y' .* Row 3 has 'low'"),
        (lambda f: f.assign(a=f["a"].astype(object).where(f.index != 5, "n.a.")), "Column 'a' .* Row 5 has 'n.a.'"),
        (lambda f: f.assign(y=f["y"].where(f.index != 6, np.inf)), "Column 'y' must hold numbers of at most .* Row 6"),
        (lambda f: f.assign(t=["2024-01-01 00:00"] * 5 + ["noon"] + ["2024-01-02"] * 4), "Row 5 has 'noon'"),
        (lambda f: pd.concat([f, f[["a"]]], axis=1), "Column 'a' must be there once"),
    ],
)
def test_an_error_names_the_column_and_the_row(change, message):
    frame = change(hourly(10, y=np.arange(10.0), a=np.arange(10.0)))
    with pytest.raises(ValueError, match=message):
        read_observations(frame, find_columns(frame, "t", None, "y", None))


def test_rows_in_any_order_are_the_same_observations(two_series):
    observations = read_observations(two_series, TWO_SERIES)
    with pytest.warns(UserWarning, match="'t' are not in order: the rows were sorted. The first that moved is row 1"):
        shuffled = read_observations(two_series[::-1].reset_index(drop=True), TWO_SERIES)
    for name in ("times", "codes", "values"):
        np.testing.assert_array_equal(getattr(shuffled, name), getattr(observations, name))


def test_rows_that_are_not_in_order_may_be_of_several_series():
    frame = hourly(4, y=np.arange(4.0), a=np.arange(4.0)).iloc[[0, 1, 3, 2]]
    with pytest.warns(UserWarning, match=r"with 2024-01-01 03:00:00. If they are of several series.*`series`"):
        assert read_observations(frame, PLAIN).values[:, 0].tolist() == [0, 1, 2, 3]


def test_observations_are_sorted_by_series(two_series):
    observations = read_observations(two_series, TWO_SERIES)
    assert observations.names == ["a", "b"] and observations.codes.tolist() == [0, 0, 1, 1, 1]
    assert observations.values[:, 0].tolist() == [20, 21, 10, 11, 12]


def test_every_series_has_its_last_time(two_series):
    assert read_observations(two_series, TWO_SERIES).last.tolist() == [2, 3]


def test_observations_can_begin_at_a_time_of_each_series(two_series):
    assert read_observations(two_series, TWO_SERIES).since(np.array([1, 3])).values[:, 0].tolist() == [20, 21, 12]


def test_times_must_differ_within_a_series(two_series):
    with pytest.raises(ValueError, match="of series 'a' must differ. Row 3 has 1 and row 1"):
        read_observations(two_series.assign(t=[1, 1, 2, 1, 3]), TWO_SERIES)


def test_rows_of_one_time_with_values_in_different_columns_are_one_row():
    frame = hourly(4, y=[1.0, 2.0, np.nan, 4.0], a=[np.nan, 6.0, 7.0, 8.0])
    targets, covariates = frame.assign(a=np.nan), frame.assign(y=np.nan)
    apart = pd.concat([targets, covariates.iloc[::-1]]).iloc[[0, 4, 1, 5, 2, 6, 3, 7]]
    with pytest.warns(UserWarning, match="not in order"):
        found = read_observations(apart, PLAIN)
    expected = read_observations(frame, PLAIN)
    assert np.array_equal(found.values, expected.values, equal_nan=True)
    assert found.times.tolist() == expected.times.tolist() and found.codes.tolist() == expected.codes.tolist()
    with pytest.raises(ValueError, match="must differ"):
        read_observations(pd.concat([apart, targets.assign(y=9.0).iloc[:1]]), PLAIN)


@pytest.mark.parametrize("stacked", [True, False])
def test_a_column_that_makes_repeated_times_differ_is_suggested_as_the_series(stacked):
    frame = hourly(6, y=np.arange(6.0), a=np.arange(6) % 2)
    frame = pd.concat([frame.assign(shop=name) for name in ("u", "v", "w")])
    frame = frame if stacked else frame.sort_values("t", kind="stable")
    with pytest.raises(
        ValueError, match=r"rows are of several series: pass `series='shop'` \(`--series shop`\)"
    ) as err:
        read_observations(frame, PLAIN)
    assert "drop_duplicates" not in str(err.value)


def test_a_series_may_be_a_whole_number():
    frame = pd.concat([hourly(6, y=np.arange(6.0), a=np.arange(6), shop=number) for number in (3, 5)])
    with pytest.raises(ValueError, match="`series='shop'`"):
        read_observations(frame, PLAIN)


def test_different_rows_of_one_time_are_never_to_be_deleted():
    frame = pd.concat([hourly(6, y=np.arange(6.0)), hourly(6, y=np.arange(6.0) + 1)])
    with pytest.raises(ValueError, match=r"Average them with `frame.groupby\(\['t'\]") as err:
        read_observations(frame, PLAIN)
    assert "drop_duplicates" not in str(err.value)


def test_copies_of_a_row_are_left_out_with_a_note():
    frame = hourly(6, y=np.arange(6.0))
    with pytest.warns(UserWarning, match="copies of others.*: 2 of 7. The first is row 3, with 2024-01-01 02:00"):
        observations = read_observations(frame.iloc[[0, 1, 2, 2, 3, 3, 4]], PLAIN)
    assert observations.values[:, 0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("role", "name"), [("time", "mean"), ("series", "std"), ("series", "lower_90")])
def test_a_column_of_the_forecasts_is_no_name_of_time_or_series(role, name):
    frame = hourly(4, y=np.arange(4.0), s="a").rename(columns={"t" if role == "time" else "s": name})
    names = {"time": "t", "series": "s"} | {role: name}
    with pytest.raises(ValueError, match=f"`{role}` must not be a column of the forecasts .*Got '{name}'"):
        find_columns(frame, names["time"], names["series"], "y", None)


def test_every_row_names_its_series(two_series):
    with pytest.raises(ValueError, match="Column 'id' must name a series. Row 2 is empty"):
        read_observations(two_series.assign(id=["b", "a", None, "a", "b"]), TWO_SERIES)


def test_a_series_is_not_named_by_several_values(two_series):
    names = [("b", 1), ("a", 1), ("a", 1), ("a", 2), ("b", 1)]
    with pytest.raises(ValueError, match="Column 'id' must name a series by a text or a number. Got \\('b', 1\\)"):
        read_observations(two_series.assign(id=names), TWO_SERIES)


def test_the_index_may_hold_the_times():
    frame = hourly(5, y=np.arange(5.0))
    assert (
        read_observations(frame.set_index("t"), PLAIN).times.tolist() == read_observations(frame, PLAIN).times.tolist()
    )


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.nan, "Column 'y' must have a value in at least one row"),
        (3.0, "Target column 'y' must vary. It is 3 in every row"),
        (np.arange(5) * 1e-300, "Column 'y' must vary by at least 1e-100. .* is 4e-300. Choose another unit"),
    ],
)
def test_a_target_without_variation_is_refused(y, message):
    observations = read_observations(hourly(5, y=y), PLAIN)
    with pytest.raises(ValueError, match=message):
        check_inputs(observations, PLAIN)
