from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nsac.estimators.tables import MIN_ROWS, as_frame
from support.table_problems import mixed, numbers, quick


class Column:
    """What `as_frame` needs of a series of polars, which is not installed everywhere."""

    def __init__(self, values: list[Any]):
        self.values, self.dtype = values, self

    def to_list(self) -> list[Any]:
        return self.values

    def is_numeric(self) -> bool:
        return all(isinstance(value, int | float) for value in self.values if value is not None)

    def is_nested(self) -> bool:
        return any(isinstance(value, list) for value in self.values)


class Frame(dict):
    columns = property(lambda self: list(self))


Frame.__module__ = "polars.dataframe.frame"


def test_a_frame_of_polars_becomes_one_of_pandas():
    frame = as_frame(
        Frame(
            number=Column([1, None, 3.5]),
            text=Column(["a", None, "b"]),
            day=Column([datetime(2024, 1, 1), datetime(2024, 1, 2), None]),
            sequence=Column([[1], [2, 3], None]),
        )
    )
    assert isinstance(frame, pd.DataFrame) and list(frame.columns) == ["number", "text", "day", "sequence"]
    np.testing.assert_array_equal(frame["number"], [1, np.nan, 3.5])
    assert frame["text"].isna().tolist() == [False, True, False]
    assert frame["day"].dtype.kind == "M" and frame["sequence"].dtype == object


def test_a_real_frame_of_polars_is_predicted_as_one_of_pandas():
    polars = pytest.importorskip("polars")
    frame, y = mixed()
    frame["grade"] = frame["grade"].astype(str)
    known = {name: [None if pd.isna(value) else value for value in frame[name]] for name in frame.columns}
    other = polars.DataFrame(known)
    one, two = (quick(method="ridge").fit(each, y).predict(each) for each in (frame, other))
    np.testing.assert_allclose(one, two)


@pytest.mark.parametrize("table", [np.zeros((3, 2)), pd.DataFrame({"a": [1, 2]}), [[1, 2]]])
def test_other_tables_stay_as_they_are(table):
    assert as_frame(table) is table


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame])
def test_a_table_has_some_rows_to_leave_out(kind):
    x, y = numbers(MIN_ROWS - 1)
    with pytest.raises(ValueError, match=f"minimum of {MIN_ROWS}"):
        quick(method="ridge").fit(kind(x), y)
