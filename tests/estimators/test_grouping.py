import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from nsac.estimators.grouping import counted_rows, group_codes, row_weights, warn_if_grouped

GROUPS, SIZE = 12, 20


def grouped(order: np.ndarray | None = None) -> tuple[pd.DataFrame, dict[str, torch.Tensor]]:
    """Rows of 12 groups one after the other, each around its own centre, with the name of the group."""
    random = np.random.default_rng(0)
    group = np.repeat(np.arange(GROUPS), SIZE)
    x = 3 * random.normal(size=(GROUPS, 2))[group] + 0.1 * np.cumsum(random.normal(size=(len(group), 2)), 0)
    frame = pd.DataFrame(x, columns=["a", "b"])
    frame["machine"] = random.permutation(list("abcdefghijkl"))[group]
    frame = frame if order is None else frame.iloc[order].reset_index(drop=True)
    return frame, {"x": torch.tensor(frame[["a", "b"]].to_numpy())}


def unrelated(n: int = 240) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(n, 2, generator=torch.Generator().manual_seed(0))}


def silent(table, inputs) -> bool:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warn_if_grouped(table, inputs)
    return not seen


def test_groups_in_runs_are_noticed_by_their_name_and_by_similar_neighbours():
    with pytest.warns(
        UserWarning, match="column 'machine' has the same value.* and the most similar row of .*`groups`"
    ):
        warn_if_grouped(*grouped())


def test_groups_are_noticed_by_their_name_alone():
    with pytest.warns(
        UserWarning, match="Rows look grouped: column 'machine' has the same value in long runs of rows. If"
    ):
        warn_if_grouped(grouped()[0], unrelated())


def test_groups_without_a_name_are_noticed_by_similar_neighbours():
    frame, inputs = grouped()
    with pytest.warns(UserWarning, match="Rows look grouped: the most similar row"):
        warn_if_grouped(frame[["a", "b"]].to_numpy(), inputs)


@pytest.mark.parametrize("seed", [0, 1])
def test_shuffled_rows_have_no_sign_of_groups(seed):
    assert silent(*grouped(np.random.default_rng(seed).permutation(GROUPS * SIZE)))


@pytest.mark.parametrize("patients", [[7, 3, 9, 1], [7.0, 3.0, 9.0, 1.0]])
def test_whole_numbers_can_name_groups(patients):
    frame = pd.DataFrame({"patient": np.repeat(patients, 10)})
    with pytest.warns(UserWarning, match="'patient'"):
        warn_if_grouped(frame, unrelated(40))


@pytest.mark.parametrize("dtype", [float, object, "Int64", "string"])
def test_missing_cells_do_not_hide_a_column_that_names_groups(dtype):
    frame = pd.DataFrame({"patient": pd.Series(np.repeat([7, 3, 9, 1], 10), dtype=dtype)})
    frame.loc[[0, 13, 14, 39], "patient"] = None
    with pytest.warns(UserWarning, match="'patient'"):
        warn_if_grouped(frame, unrelated(40))


def test_groups_whose_rows_are_similar_but_not_in_order_are_noticed():
    random = np.random.default_rng(0)
    group = np.repeat(np.arange(20), 30)
    x = 0.7 * random.normal(size=(20, 6))[group] + 0.5 * random.normal(size=(600, 6))
    with pytest.warns(UserWarning, match="of the rows is among the 10% around them"):
        warn_if_grouped(x, {"x": torch.tensor(x)})
    assert silent(x, {"x": torch.tensor(random.permutation(x))})


@pytest.mark.parametrize(
    "column",
    [
        np.repeat([1, 2, 3, 4], 10),  # sorted
        np.repeat([4.0, 3.0, 2.0, 1.0], 10),
        np.repeat([1.5, 0.5, 3.5, 2.5], 10),  # measured
        np.repeat([1.5, np.nan, 3.0, 2.0], 10),
        np.repeat(["a", "b"], 20),  # two
        np.tile(["b", "a", "d", "c"], 10),  # no runs
        np.arange(40)[::-1] ** 2 % 41,
        np.array([f"row {i}" for i in range(40)]),
        [None] * 40,
    ],
)
def test_other_columns_do_not_look_like_groups(column):
    assert silent(pd.DataFrame({"column": column}), unrelated(40))


def test_repeated_rows_are_no_neighbours():
    assert silent(np.zeros((60, 1)), {"x": torch.zeros(60, 1)})


def test_few_rows_and_tables_without_numbers_say_nothing():
    assert silent(np.zeros((20, 1)), {"x": torch.arange(20.0)[:, None]})
    assert silent(np.zeros((60, 1)), {"x": torch.zeros(60, 0)})


def test_missing_values_do_not_stop_the_search():
    frame, inputs = grouped()
    frame.loc[::9, "a"] = np.nan
    frame.loc[::11, "machine"] = None
    inputs["x"][::9, 0] = torch.nan
    with pytest.warns(UserWarning, match="most similar row"):
        warn_if_grouped(frame, inputs)


def test_groups_are_numbered_from_zero():
    assert group_codes(None, 4) is None
    assert group_codes(["b", "a", "b", "c"], 4).tolist() == [0, 1, 0, 2]
    assert group_codes(pd.Series([5, 5, 7, 1], index=[9, 8, 7, 6]), 4).tolist() == [0, 0, 1, 2]
    assert group_codes([1.0, 1, 2.5, 3.0], 4).tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1, 2, 3], r"`groups` must have one entry per row, \(4,\). Got shape \(3,\)"),
        ([[1], [2], [3], [4]], "one entry per row"),
        (["a", None, "b", "c"], "`groups` must have no missing entry. Row 1 has none"),
        ([1.0, 2.0, np.nan, 3.0], "Row 2 has none"),
        (pd.array([1, 2, 3, None], dtype="Int64"), "Row 3 has none"),
        ([1, 1, 2, 2], "at least 3 different values.* Got 2"),
    ],
)
def test_wrong_groups_are_named(groups, message):
    with pytest.raises(ValueError, match=message):
        group_codes(groups, 4)


def test_rows_of_weight_zero_are_removed():
    frame, y = pd.DataFrame({"a": range(8)}), np.arange(8.0)[:, None]
    table, target, weight, codes = counted_rows(frame, y, [0, 1, 1, 1, 2, 3, 1, 0], [*"zaabbccz"])
    assert table["a"].tolist() == target[:, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert weight is not None and weight.tolist() == row_weights([1, 1, 1, 2, 3, 1], 6).tolist()
    assert codes is not None and codes.tolist() == [0, 0, 1, 1, 2, 2]
    assert counted_rows(y, y, [0] + [4.0] * 7, None)[2] is None  # the others are equal
    assert counted_rows(y, y, None, None) == (y, y, None, None)


def test_too_few_rows_with_a_weight_are_named():
    with pytest.raises(ValueError, match="`sample_weight` must be above 0 in at least 5 rows. Got 4 instead"):
        counted_rows(np.ones((6, 1)), np.ones((6, 1)), [1, 1, 1, 1, 0, 0], None)


def test_weights_have_mean_one():
    weight = row_weights([1, 2, 3, 0], 4)
    assert weight.tolist() == pytest.approx([2 / 3, 4 / 3, 2, 0]) and weight.dtype == torch.float64


@pytest.mark.parametrize("weight", [None, 2.0, [3, 3, 3, 3]])
def test_equal_weights_are_none(weight):
    assert row_weights(weight, 4) is None


@pytest.mark.parametrize("weight", [[1, 2], [1, -1, 1, 1], [0, 0, 0, 0], [1, np.nan, 1, 1], [1, np.inf, 1, 1], -1.0])
def test_wrong_weights_are_named(weight):
    with pytest.raises(ValueError, match="`sample_weight` must be"):
        row_weights(weight, 4)
