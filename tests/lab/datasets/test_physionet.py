import gzip

import numpy as np
import pytest

from nsac.lab.datasets import DataError, load_stays
from nsac.lab.datasets.physionet import CHANNELS
from support.data_files import DAMAGES, expect_refusal, skip_checksums, write

FILE = "physionet2012/set-a.csv.gz"
ROWS = """RecordID,Time,Parameter,Value
7,00:00,RecordID,7
7,00:00,Age,54
7,00:00,Gender,0
7,00:00,Height,-1
7,00:00,ICUType,4
7,00:00,Weight,-1
7,01:07,HR,73
7,00:30,HR,70
7,00:30,HR,74
7,47:59,pH,735
7,02:00,,3
5,00:00,RecordID,5
5,00:00,Age,80
5,00:00,Gender,1
5,00:00,Height,170
5,00:00,ICUType,1
5,00:00,Weight,66.5
5,10:00,Weight,-1
"""


def put(folder, monkeypatch, text=ROWS):
    write(folder, FILE, gzip.compress(text.encode()))
    skip_checksums(monkeypatch, folder)


def test_observations_are_sorted_and_repeated_ones_averaged(folder, monkeypatch):
    put(folder, monkeypatch)
    stays = load_stays(["a"])
    assert stays.record.tolist() == [5, 7]
    assert stays.stay.tolist() == [0, 1, 1, 1]
    assert stays.minutes.tolist() == [0, 30, 67, 2879]
    assert [CHANNELS[i] for i in stays.channel] == ["Weight", "HR", "HR", "pH"]
    assert stays.value.tolist() == [66.5, 72, 73, 735]


def test_an_unknown_attribute_is_nan(folder, monkeypatch):
    put(folder, monkeypatch)
    static = load_stays(["a"]).static
    np.testing.assert_array_equal(static, [[80, 1, 170, 1, 66.5], [54, 0, np.nan, 4, np.nan]])


def test_a_parameter_that_is_not_known_is_refused(folder, monkeypatch):
    put(folder, monkeypatch, ROWS.replace("pH", "mood"))
    with pytest.raises(DataError, match="must have known parameters. Got 'mood'"):
        load_stays(["a"])


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(folder, monkeypatch, damage):
    write(folder, FILE, DAMAGES[damage](gzip.compress(ROWS.encode())))
    skip_checksums(monkeypatch, folder)
    expect_refusal(lambda: load_stays(["a"]), folder / FILE)


@pytest.mark.slow
def test_the_sets_have_the_known_stays(data):
    stays = load_stays()
    assert len(stays.record) == 12_000 and len(stays.value) == 5_210_622
    counts = dict(zip(CHANNELS, np.bincount(stays.channel), strict=True))
    assert counts["HR"] == 687_133 and counts["Cholesterol"] == 994 and stays.minutes.max() <= 48 * 60
    assert (np.diff(stays.stay) >= 0).all() and (np.diff(stays.minutes)[np.diff(stays.stay) == 0] >= 0).all()
