import gzip

import numpy as np
import pytest

from nsac.lab.datasets import DataError, load_brusselator, load_glucose
from support.data_files import DAMAGES, expect_refusal, skip_checksums, write

GLUCOSE, BRUSSELATOR = "glucose/broll_5_subjects.csv.gz", "brusselator/bxlator.csv.gz"
READINGS = """"","id","time","gl"
"1","Subject 2",2015-06-06 16:50:27,153
"2","Subject 1",2015-06-06 17:05:27,137
"3","Subject 1",2015-06-06 17:00:27,128
"""
VALUES = """ID,Time,Value_1,Value_2,Mask_1,Mask_2,Cov
1.0,3.5,1.5,2.5,1.0,1.0,0.0
0.0,2.0,0.0,4.5,0.0,1.0,0.0
0.0,1.0,5.5,0.0,1.0,0.0,0.0
"""
FILES = {GLUCOSE: (READINGS, load_glucose), BRUSSELATOR: (VALUES, load_brusselator)}


def put(folder, monkeypatch, path, text):
    write(folder, path, gzip.compress(text.encode()))
    skip_checksums(monkeypatch, folder)


def test_readings_are_sorted_by_person_and_time(folder, monkeypatch):
    put(folder, monkeypatch, GLUCOSE, READINGS)
    table = load_glucose(rows=3)
    assert table.names == ("Subject 1", "Subject 2") and table.series.tolist() == [0, 0, 1]
    assert table.times.tolist() == [10, 15, 0] and table.value.tolist() == [128, 137, 153]


def test_values_without_a_mask_of_1_are_left_out(folder, monkeypatch):
    put(folder, monkeypatch, BRUSSELATOR, VALUES)
    table = load_brusselator(rows=3)
    assert table.series.tolist() == [0, 0, 1, 1] and table.times.tolist() == [1, 2, 3.5, 3.5]
    assert table.channel.tolist() == [0, 1, 0, 1] and table.value.tolist() == [5.5, 4.5, 1.5, 2.5]


@pytest.mark.parametrize("path", FILES)
def test_another_number_of_rows_is_refused(folder, monkeypatch, path):
    text, load = FILES[path]
    put(folder, monkeypatch, path, text)
    with pytest.raises(DataError, match="4 rows. Got .* and 3 rows instead"):
        load(rows=4)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("path", FILES)
def test_a_damaged_file_is_refused(folder, monkeypatch, path, damage):
    text, load = FILES[path]
    write(folder, path, DAMAGES[damage](gzip.compress(text.encode())))
    skip_checksums(monkeypatch, folder)
    expect_refusal(lambda: load(rows=3), folder / path)


def test_the_files_have_the_known_rows(data):
    glucose, brusselator = load_glucose(), load_brusselator()
    assert len(glucose.value) == 13_866 and len(glucose.names) == 5
    assert len(brusselator.names) == 1000 and np.bincount(brusselator.channel).min() > 10_000
