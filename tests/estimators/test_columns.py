import numpy as np
import pandas as pd
import pytest
import torch

from nsac.estimators.columns import Columns, standardise, target_names, target_std, target_values
from support.table_problems import mixed


def fitted(table, categorical=()):
    names = [str(name) for name in getattr(table, "columns", range(np.shape(table)[1]))]
    return Columns.fit(table, names, categorical)


def test_numbers_are_standardised_and_missing_values_stay():
    x = np.array([[1.0, 5.0], [3.0, np.nan], [5.0, 7.0]])
    out = fitted(x).tensors(x)["x"]
    torch.testing.assert_close(out[:, 0], torch.tensor([-1.5, 0, 1.5], dtype=torch.float32) * (2 / 3) ** 0.5)
    assert out[1, 1].isnan() and out[0, 1] == -out[2, 1] and out.dtype == torch.float32


def test_text_and_categories_become_codes_and_truth_values_numbers():
    frame, _ = mixed()
    columns = fitted(frame)
    parts = columns.tensors(frame)
    assert set(columns.categories) == {2, 3} and parts["x"].shape == (80, 3) and parts["c"].shape == (80, 2)
    assert (parts["c"][::9, 0] == 0).all() and (parts["c"][:, 1] > 0).all()


def test_an_array_of_objects_is_taken_column_by_column():
    x = np.array([[1, "a"], [2, "b"], [None, "a"], ["4", "b"]], dtype=object)
    columns = fitted(x)
    parts = columns.tensors(x)
    assert columns.categories == {1: ("a", "b")}
    assert parts["c"][:, 0].tolist() == [1, 2, 1, 2] and parts["x"][2, 0].isnan()


def test_categories_that_are_unseen_or_seen_once_count_as_missing():
    columns = fitted(pd.DataFrame({"k": list("aabbc")}))
    assert columns.tensors(pd.DataFrame({"k": list("acz")}))["c"][:, 0].tolist() == [1, 0, 0]


def test_numbers_may_be_categories_in_any_type():
    columns = fitted(np.array([[1.0], [2.0], [1.0], [2.0]]), categorical=[0])
    for same in (np.array([[2], [1]]), pd.DataFrame({"k": [2, 1]}), np.array([[2, 0], [True, 0]], dtype=object)[:, :1]):
        assert columns.tensors(same)["c"][:, 0].tolist() == [2, 1]


@pytest.mark.parametrize(("fit", "same"), [(["7", "8"], [7, 8]), ([7, 8], ["7", "8"]), ([7.0, 8.0], ["7", "8"])])
def test_a_category_of_whole_numbers_is_the_same_as_text_and_as_number(fit, same):
    columns = fitted(pd.DataFrame({"k": fit * 2}), categorical=[0])
    assert columns.tensors(pd.DataFrame({"k": same}))["c"][:, 0].tolist() == [1, 2]


def test_a_constant_column_is_zero_and_a_far_number_is_finite():
    columns = fitted(np.array([[7.0, 0.0], [7.0, 1.0]]))
    out = columns.tensors(np.array([[7.0, 1e99], [8.0, -1e99]]))["x"]
    assert out[0, 0] == 0 and out[1, 0] > 0 and out[0, 1] == -out[1, 1] and out[0, 1] < 1000


def test_huge_numbers_are_standardised_without_overflow():
    assert fitted(np.array([[1e99], [-1e99]])).tensors(np.array([[1e99]]))["x"].item() == 1


def test_numbers_are_a_line_near_the_mean_and_a_logarithm_far_away():
    z = np.linspace(-50, 50, 10_001)
    out = standardise(z, 0.0, 1.0)
    assert np.array_equal(out[np.abs(z) <= 2], z[np.abs(z) <= 2]) and out.max() == 2 + np.log1p(48)
    assert (np.diff(out) > 0).all() and np.diff(out).max() <= 0.01 + 1e-9


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0, "n/a", 4.0], "Column 'b' must hold numbers. Got 'n/a' in row 2"),  # mostly numbers
        ([1.0, np.inf, 2.0, 3.0], "Column 'b' must hold finite numbers.*row 1"),
        ([None, None, None, None], "Column 'b' must have a value"),
        ([np.nan] * 4, "Column 'b' must have a value"),
        (list("abcd"), "Column 'b' must have categories that repeat"),  # a name
        (pd.to_timedelta([1, 2, 3, 4]), "Column 'b' must hold numbers. It holds durations"),
        ([1.0, 2.0, 3.0, 1e101], "Column 'b' must hold numbers of at most 1e.100.*Got 1e.101 in row 3"),
        (pd.to_datetime([None] * 4), "Column 'b' must have a date"),
    ],
)
def test_errors_name_the_column(values, message):
    with pytest.raises(ValueError, match=message):
        fitted(pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": values}))


def test_text_in_a_column_of_numbers_is_refused_in_prediction():
    columns = fitted(pd.DataFrame({"a": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="Column 'a' must hold numbers. Got 'x' in row 1"):
        columns.tensors(pd.DataFrame({"a": [1.0, "x"]}))


def test_a_list_in_a_cell_is_an_error():
    for first in ("a", [1, 2]):  # in training and in prediction
        with pytest.raises(TypeError, match=r"Column 'b'.*Got \[1, 2\] in row 0"):
            columns = fitted(pd.DataFrame({"a": [1.0, 2.0], "b": [first, first]}))
            columns.tensors(pd.DataFrame({"a": [1.0], "b": [[1, 2]]}))


def test_a_column_of_dates_is_its_calendar():
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "when": pd.to_datetime(["2024-01-01", "2024-02-03", None])})
    columns = fitted(frame)
    x = columns.tensors(frame)["x"]
    assert not columns.categories and x.shape == (3, 6) and x[2, 1:].isnan().all() and x[:2].isfinite().all()


def test_dates_as_text_are_the_same_as_dates():
    dates, texts = pd.to_datetime(["2024-01-01", "2024-02-03", "2024-12-31"]), ["1/1/2024", "3/2/2024", "31/12/2024"]
    with pytest.warns(UserWarning, match="Column 'when' holds dates such as '1/1/2024'. Its features: year, month"):
        columns = fitted(pd.DataFrame({"when": texts}))
    typed = fitted(pd.DataFrame({"when": dates}))
    torch.testing.assert_close(
        columns.tensors(pd.DataFrame({"when": texts})), typed.tensors(pd.DataFrame({"when": dates}))
    )
    one = columns.tensors(pd.DataFrame({"when": ["3/2/2024"]}))[
        "x"
    ]  # the order of day and month is known from training
    torch.testing.assert_close(one[0], typed.tensors(pd.DataFrame({"when": dates}))["x"][1])


def test_a_column_of_dates_that_is_named_categorical_has_categories():
    columns = fitted(pd.DataFrame({"when": ["2024-01-01", "2024-01-02"] * 2}), categorical=[0])
    assert columns.categories == {0: ("2024-01-01", "2024-01-02")} and not columns.dates


def test_missing_dates_are_predicted_whatever_their_type():
    columns = fitted(pd.DataFrame({"when": pd.to_datetime(["2024-01-01", "2024-02-03"])}))
    assert columns.tensors(pd.DataFrame({"when": [np.nan]}))["x"].isnan().all()


def test_numbers_with_separators_are_numbers():
    with pytest.warns(UserWarning, match="Column 'price' holds numbers with separators: '1,100' is read as 1100"):
        columns = fitted(pd.DataFrame({"price": ["950", "1,100", None, "12,345.5"]}))
    plain = fitted(pd.DataFrame({"price": [950, 1100, None, 12345.5]}))
    np.testing.assert_array_equal(columns.centre, plain.centre)
    text, number = pd.DataFrame({"price": ["1,100"]}), pd.DataFrame({"price": [1100]})
    torch.testing.assert_close(columns.tensors(text), plain.tensors(number))
    torch.testing.assert_close(columns.tensors(number), plain.tensors(number))
    with pytest.raises(ValueError, match="Column 'price' must hold numbers. Got '1,100'"):
        plain.tensors(text)  # training did not say what the comma means


@pytest.mark.filterwarnings("ignore:Column")
def test_plain_values_restore_them():
    frame, _ = mixed()
    frame["when"] = pd.date_range("2024-01-01 10:00", periods=len(frame)).astype(str)
    frame["price"] = ["1,100", "900"] * (len(frame) // 2)
    columns = fitted(frame)
    assert columns.dates and columns.decimals
    again = Columns.from_dict(columns.to_dict(), torch.as_tensor(columns.centre), torch.as_tensor(columns.scale))
    for mine, theirs in zip(columns.tensors(frame).values(), again.tensors(frame).values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("y", "names"),
    [(pd.Series([1.0], name="price"), ["price"]), (pd.DataFrame({"a": [1], 2: [3]}), ["a", "2"]), (np.ones(3), [])],
)
def test_names_are_those_of_the_frame(y, names):
    assert target_names(y) == names


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "Model requires y to be passed"),
        (np.zeros((2, 2, 2)), "y"),
        (np.zeros(0), "Input y must hold numbers"),
        (np.array([1.0, np.inf]), "contains infinity: y, row 1 .1 such values."),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), "contains NaN: column 1 of y, row 1"),
        (np.array([1.0, -1e300]), "contains a number above 1e.100: y, row 1"),
        (
            pd.Series(["a", "b"], name="kind"),
            "target .column 'kind'. must hold numbers.*Classification is not supported",
        ),
        (pd.Series(pd.to_datetime(["2024-01-01"] * 2), name="when"), "column 'when'.*It holds dates"),
        (np.array(["2024-01-01"] * 2, dtype="datetime64[D]"), "y. must hold numbers. It holds dates"),
        (pd.DataFrame({"a": [1.0, 2.0], "b": pd.to_timedelta([1, 2], "D")}), "column 'b'.*It holds dates or durations"),
        (pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), "column 'b'. must hold numbers. Got 'x' in row 0"),
    ],
)
def test_values_that_cannot_be_learned_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        target_values(y, "Model")


def test_the_largest_target_is_allowed():
    np.testing.assert_array_equal(target_values(np.array([-1e100, 1e100]), "Model"), [-1e100, 1e100])


def test_targets_with_separators_are_numbers():
    np.testing.assert_array_equal(target_values(pd.Series(["1,100", "900"]), "Model"), [1100, 900])


def test_a_target_that_hardly_varies_has_no_scale():
    values = np.array([[1e-300], [2e-300]])
    with pytest.raises(ValueError, match="y. must vary by at least 1e-100.*is 1e-300"):
        target_std(values, values[:, 0])


def test_the_scale_is_the_standard_deviation():
    values = np.array([[1.0, 10.0], [3.0, 30.0]])
    np.testing.assert_array_equal(target_std(values, values), [1, 10])


def test_a_constant_target_has_no_scale():
    values = np.array([[1.0, 2.0], [3.0, 2.0]])
    with pytest.raises(ValueError, match="column 1 of y. must vary. It is 2"):
        target_std(values, values)


@pytest.mark.filterwarnings("ignore:Column 'when' holds dates")
@pytest.mark.parametrize("texts", [["2024-01-02", "2024-12-31"], ["05/05/2024", "5 May 2024"], ["a", "a"], [1.0, 2.0]])
def test_dayfirst_without_a_date_that_depends_on_it_is_warned_of(texts):
    with pytest.warns(UserWarning, match=r"`dayfirst=False` \(`--no-dayfirst`\) has no effect: no column of the table"):
        Columns.fit(pd.DataFrame({"when": texts}), ["when"], [], dayfirst=False)


@pytest.mark.parametrize("texts", [["01/02/2024", "2024-12-31"], ["31/12/2024", None]])
def test_dayfirst_that_decides_a_date_is_not_warned_of(texts):
    with pytest.warns(UserWarning) as warned:
        Columns.fit(pd.DataFrame({"when": texts}), ["when"], [], dayfirst=True)
    assert [str(each.message).split(" such")[0] for each in warned] == ["Column 'when' holds dates"]
