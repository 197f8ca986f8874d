import numpy as np
import pytest

from nsac.lab.datasets import DataError, load_uci, locate
from nsac.lab.datasets.splits import make_splits, split_arrays, write_splits
from support.data_files import copy

SPLITS = "boston/splits.npz"


def test_a_split_divides_all_rows_nine_to_one():
    for train, test in make_splits(50, 3):
        assert len(train) == 45 and sorted([*train, *test]) == list(range(50))


def test_written_splits_are_the_standard_arrays(tmp_path):
    write_splits(tmp_path / "splits.npz", "boston")
    with np.load(tmp_path / "splits.npz") as arrays:
        for name, array in split_arrays("boston").items():
            np.testing.assert_array_equal(arrays[name], array)


@pytest.fixture
def copied(data, folder):
    path = copy(data, SPLITS, folder)
    with np.load(path) as arrays:
        return path, dict(arrays)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("train_3", lambda rows: rows[::-1]),  # the same rows in another order
        ("test_19", lambda rows: rows.astype(float)),  # equal, but not integers
        ("index_features", lambda _: np.arange(14, dtype=np.int32)),  # the target among the inputs
        ("index_target", lambda _: np.array([0], dtype=np.int32)),  # another target
    ],
)
def test_changed_splits_are_refused(copied, name, change):
    path, arrays = copied
    np.savez(path, **{**arrays, name: change(arrays[name])})
    with pytest.raises(DataError, match=rf"'{name}' in .*splits\.npz is not the standard one.*nsac data fetch boston`"):
        locate(SPLITS)


def test_splits_packed_by_another_program_are_accepted_by_their_content(copied):
    path, arrays = copied
    np.savez(path, **arrays)
    assert locate(SPLITS) == path


def test_missing_splits_are_generated(data, folder):
    copy(data, "boston/boston.txt", folder)
    assert len(load_uci("boston").splits) == 20
