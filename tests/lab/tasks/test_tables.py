from dataclasses import replace

import numpy as np
import pytest

from nsac.lab.datasets import load_uci
from nsac.lab.tasks import tables
from nsac.lab.tasks.base import load_task
from support.splits import assert_only_the_test_split_differs

REPEATED = {  # test rows of split 0, and how many of them equal a row of the nine tenths
    "boston": (51, 0), "kin8nm": (819, 0), "concrete": (103, 5), "power-plant": (957, 11), "wine-red": (160, 51),
    "protein": (4573, 297),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATED)
def test_the_text_of_a_table_states_how_many_test_rows_are_repeated(data, name):
    n, repeated = REPEATED[name]
    task = load_task(name, "sound")
    assert f" {repeated} of the {n} test rows equal a row of the nine tenths" in task.text and len(task.test) == n


@pytest.mark.parametrize("protocol", ["paper", "sound"])
def test_the_test_rows_of_a_table_change_no_scaler_and_no_training_tensor(data, protocol):
    table = load_uci("boston")
    order = np.random.default_rng(2).permutation(506)
    test = order[round(0.9 * 506) :] if protocol == "paper" else table.splits[2][1]
    x, y = table.x.copy(), table.y.copy()
    x[test], y[test] = 1e3 * np.random.default_rng(0).permutation(x[test]), y[test][::-1] * 7
    task, other = (tables.build("boston", protocol, 2, t) for t in (table, replace(table, x=x, y=y)))
    assert_only_the_test_split_differs(task, other)
