import numpy as np
import pandas as pd
import pytest

from nsac.lab.datasets import catalog, load_uci
from nsac.lab.datasets.store import split_arrays
from support.data_files import DAMAGES, copy, expect_refusal, skip_checksums, write

pytestmark = pytest.mark.usefixtures("data")

TABLES = {  # rows, features, first and last target, smallest and largest target, first and last entry of x, sum of x
    "boston": (506, 13, 24.0, 11.9, 5.0, 50.0, 0.00632, 7.88, 460946.55522),
    "kin8nm": (8192, 8, 0.53652416, 0.49685261, 0.040165378, 1.4585206, -0.015119208, -1.3273843, 162.05629912064336),
    "concrete": (1030, 8, 79.99, 32.4, 2.33, 82.6, 540.0, 28.0, 2460861.1),
    "power-plant": (9568, 4, 480.48, 451.67, 420.26, 495.76, 8.34, 71.24, 11103904.07),
    "wine-red": (1599, 11, 5.0, 6.0, 3.0, 8.0, 7.4, 11.0, 143072.78194),
    "protein": (45730, 9, 17.284, 18.827, 0.0, 20.999, 13558.3, 29.8118, 63360363222.70981),
    "energy": (768, 8, 15.55, 16.64, 6.01, 43.1, 0.98, 5.0, 905758.88),
    "yacht": (308, 6, 0.11, 46.66, 0.01, 62.42, -2.3, 0.45, 3203.844),
    "naval": (11934, 16, 0.95, 1.0, 0.95, 1.0, 1.138, 1.704, 474737688.413),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_known_rows_and_values(name):
    rows, features, first, last, low, high, corner, end, total = TABLES[name]
    table = load_uci(name)
    assert table.x.shape == (rows, features) == (len(table.y), len(table.features))
    assert (table.y[0], table.y[-1], table.y.min(), table.y.max()) == (first, last, low, high)
    assert (table.x[0, 0], table.x[-1, -1]) == (corner, end)
    assert table.x.sum() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("name", TABLES)
def test_the_splits_of_the_file_are_those_of_seed_one(name):
    table = load_uci(name)
    assert len(table.splits) == (5 if name == "protein" else 20)
    made = split_arrays(catalog()[name].files[0].path.split("/")[0])
    for i, (train, test) in enumerate(table.splits):
        np.testing.assert_array_equal(train, made[f"train_{i}"])
        np.testing.assert_array_equal(test, made[f"test_{i}"])


@pytest.mark.parametrize(("name", "repeated"), [("concrete", 25), ("protein", 1711)])
def test_repeated_rows_are_kept(name, repeated):
    table = load_uci(name)
    assert pd.DataFrame(np.column_stack([table.x, table.y])).duplicated().sum() == repeated


@pytest.mark.parametrize("path", ["boston/boston.txt", "boston/splits.npz"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(data, folder, monkeypatch, path, damage):
    copy(data, "boston/boston.txt", folder)
    write(folder, path, DAMAGES[damage]((data / path).read_bytes()))
    skip_checksums(monkeypatch, folder)
    expect_refusal(lambda: load_uci("boston"), folder / path)


@pytest.mark.parametrize("path", ["boston/boston.txt", "boston/splits.npz"])
def test_a_folder_in_place_of_a_file_is_refused(data, folder, path):
    if path != "boston/boston.txt":
        copy(data, "boston/boston.txt", folder)
    (folder / path).mkdir(parents=True)
    expect_refusal(lambda: load_uci("boston"), folder / path)


def test_splits_that_are_an_array_and_not_an_archive_are_refused(data, folder):
    copy(data, "boston/boston.txt", folder)
    with (folder / "boston/splits.npz").open("wb") as stream:
        np.save(stream, np.arange(3))
    expect_refusal(lambda: load_uci("boston"), folder / "boston/splits.npz")


def test_the_second_target_of_naval_is_no_feature():
    table = load_uci("naval")
    assert table.target == "kMc" and "kMt" not in table.features and len(np.unique(table.y)) == 51
