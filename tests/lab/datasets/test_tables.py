import gzip
import json

import numpy as np
import pandas as pd
import pytest

from nsac.lab.datasets import catalog, load_table, load_uci
from nsac.lab.datasets.tables import SUITE, TABLES, split
from support.data_files import DAMAGES, copy, expect_refusal, replace_compressed, skip_checksums, write

pytestmark = pytest.mark.usefixtures("data")


def test_the_catalogue_has_the_tables_and_checksums_of_the_list(data):
    listed = json.loads((data / "tables/tables.json").read_text())
    files = {file.path: file.sha256 for file in catalog()["tables"].files[1:]}
    assert files == {f"tables/{name}.csv.gz": table["sha256"] for name, table in listed.items()}
    assert tuple(listed) == TABLES and len(TABLES) == 18 and len(SUITE) == 27


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_listed_rows_columns_and_texts(data, name):
    listed = json.loads((data / "tables/tables.json").read_text())[name]
    table = load_table(name)
    texts = [column for column in table.x if not pd.api.types.is_numeric_dtype(table.x[column])]
    assert table.x.shape == (listed["rows"], listed["columns"] - 1) and table.target == listed["target"]
    assert table.y.shape == (listed["rows"],) and np.isfinite(table.y).all() and table.target not in table.x
    assert table.x.isna().sum().sum() == listed["missing"] and len(texts) == listed["text"]


def test_a_uci_set_is_a_frame_of_the_same_numbers():
    table, same = load_table("yacht"), load_uci("yacht")
    np.testing.assert_array_equal(table.x.to_numpy(), same.x)
    np.testing.assert_array_equal(table.y, same.y)
    assert tuple(table.x.columns) == same.features and table.target == same.target


@pytest.mark.parametrize("name", ["penguins", "Wage", "yacht"])
def test_a_split_has_every_row_once_and_a_tenth_of_them_for_the_test(name):
    train, test = split(name, 1)
    rows = len(load_table(name).y)
    assert len(train) == round(0.9 * rows)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(rows))


def test_a_split_is_that_of_its_seed():
    train, test = split("penguins", 0)
    np.testing.assert_array_equal(np.concatenate([train, test]), np.random.default_rng(0).permutation(342))
    assert not np.array_equal(test, split("penguins", 1)[1])


def test_the_split_of_a_uci_set_is_its_standard_one():
    for given, standard in zip(split("yacht", 2), load_uci("yacht").splits[2], strict=True):
        np.testing.assert_array_equal(given, standard)


def test_a_uci_set_has_no_split_beyond_its_standard_ones():
    with pytest.raises(ValueError, match="`seed` must be one of 0, 1, 2, 3, 4. Got 5 instead."):
        split("protein", 5)


@pytest.mark.parametrize("call", [load_table, lambda name: split(name, 0)])
def test_an_unknown_table_is_refused_with_the_known_ones(call):
    with pytest.raises(ValueError, match="must be one of 'ames', .*'naval'. Got 'iris' instead."):
        call("iris")


@pytest.mark.parametrize("path", ["tables/penguins.csv.gz", "tables/tables.json"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(data, folder, monkeypatch, path, damage):
    for each in ("tables/penguins.csv.gz", "tables/tables.json"):
        copy(data, each, folder).chmod(0o644)
    write(folder, path, DAMAGES[damage]((data / path).read_bytes()))
    skip_checksums(monkeypatch, folder)
    expect_refusal(lambda: load_table("penguins"), folder / path)


def test_a_table_that_lacks_a_row_is_refused(data, folder, monkeypatch):
    copy(data, "tables/tables.json", folder)
    path = copy(data, "tables/penguins.csv.gz", folder)
    replace_compressed(path, lambda content: content[: content.rstrip().rindex(b"\n") + 1])
    skip_checksums(monkeypatch, folder)
    expect_refusal(lambda: load_table("penguins"), path)


def test_a_table_with_another_checksum_is_refused(data, folder):
    copy(data, "tables/tables.json", folder)
    content = gzip.decompress((data / "tables/penguins.csv.gz").read_bytes())
    write(folder, "tables/penguins.csv.gz", gzip.compress(content.replace(b"3750.0", b"3751.0")))
    expect_refusal(lambda: load_table("penguins"), folder / "tables/penguins.csv.gz")
