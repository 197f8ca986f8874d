import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from nsac.lab.datasets import DataError, load_ettm1, load_jena, segments, weather
from nsac.lab.datasets.weather import JENA_COLUMNS
from support.data_files import DAMAGES, copy, expect_refusal, replace_compressed, skip_checksums, write

ETTM1 = {  # first, last, smallest and largest value, to the file's three decimals
    "HUFL": (5.827, 12.994, -23.242, 24.18), "HULL": (2.009, 3.818, -5.693, 10.315),
    "MUFL": (1.599, 8.244, -26.367, 18.087), "MULL": (0.462, 1.777, -6.041, 7.853),
    "LUFL": (4.203, 4.721, -1.188, 8.498), "LULL": (1.34, 1.523, -1.371, 3.046), "OT": (30.531, 9.778, -4.221, 46.007),
}  # fmt: skip
JENA = {
    "p (mbar)": (1008.89, 978.24, 955.58, 1020.07), "T (degC)": (0.71, 2.01, -6.44, 34.8),
    "Tpot (K)": (273.18, 276.89, 266.19, 309.13), "Tdew (degC)": (-1.33, -0.66, -13.81, 20.5),
    "rh (%)": (86.1, 82.4, 21.16, 100.0), "VPmax (mbar)": (6.43, 7.06, 3.77, 55.67),
    "VPact (mbar)": (5.54, 5.82, 2.09, 24.16), "VPdef (mbar)": (0.89, 1.24, 0.0, 42.1),
    "sh (g/kg)": (3.42, 3.71, 1.3, 15.4), "H2OC (mmol/mol)": (5.49, 5.95, 2.09, 24.53),
    "rho (g/m**3)": (1280.62, 1235.71, 1107.38, 1318.52), "wv (m/s)": (1.02, 0.57, 0.08, 13.77),
    "max. wv (m/s)": (1.6, 1.08, 0.0, 22.9), "wd (deg)": (224.3, 221.3, 0.0, 360.0),
    "rain (mm)": (0.0, 0.0, 0.0, 11.2), "raining (s)": (0.0, 0.0, 0.0, 600.0), "SWDR": (0.0, 0.0, 0.0, 1115.29),
    "PAR": (0.0, 0.0, 0.0, 2131.76), "max. PAR": (0.0, 0.0, 0.0, 2498.94), "Tlog (degC)": (11.45, 13.48, 6.9, 49.09),
    "OT": (428.1, 436.5, 305.5, 524.2),
}  # fmt: skip


def expect_values(frame, known):
    assert list(frame.columns) == ["date", *known]
    for column, expected in known.items():
        values = frame[column]
        found = (values.iloc[0], values.iloc[-1], values.min(), values.max())
        assert found == pytest.approx(expected, abs=1e-6), column


def test_ettm1_has_the_known_rows_and_values(data):
    frame = load_ettm1()
    assert frame.shape == (69680, 8) and not frame.isna().any(axis=None)
    assert frame["date"].iloc[[0, -1]].astype(str).tolist() == ["2016-07-01 00:00:00", "2018-06-26 19:45:00"]
    expect_values(frame, ETTM1)


def test_ettm1_is_regularly_sampled(data):
    assert (segments(load_ettm1()["date"], pd.Timedelta("15min")) == 0).all()


def test_jena_has_the_known_rows_and_values(data):
    frame = load_jena()
    assert frame.shape == (52696, 22)
    assert frame["date"].iloc[[0, -1]].astype(str).tolist() == ["2020-01-01 00:10:00", "2021-01-01 00:00:00"]
    expect_values(frame, JENA)


def test_missing_values_of_jena_are_nan_and_not_minus_9999(data):
    frame = load_jena()
    assert frame.isna().sum().loc[lambda n: n > 0].to_dict() == {"wv (m/s)": 1, "max. PAR": 30, "OT": 50}
    assert frame.drop(columns="date").min(axis=None) > -100


def test_jena_keeps_its_repeated_time_and_its_gap(data):
    dates = load_jena()["date"]
    steps = dates.diff().value_counts().to_dict()
    assert steps == {pd.Timedelta("10min"): 52693, pd.Timedelta(0): 1, pd.Timedelta("100min"): 1}
    assert dates[19044] == dates[19043] == pd.Timestamp("2020-05-12 06:00")


def test_segments_of_jena_end_at_its_repeated_time_and_at_its_gap(data):
    segment = segments(load_jena()["date"], pd.Timedelta("10min"))
    assert np.flatnonzero(np.diff(segment)).tolist() == [19043, 21513]


PATHS = {"ettm1/ETTm1.csv.gz": load_ettm1, "jena/jena_2020.csv.gz": load_jena}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(data, folder, monkeypatch, path, damage):
    write(folder, path, DAMAGES[damage]((data / path).read_bytes()))
    skip_checksums(monkeypatch, folder)
    expect_refusal(PATHS[path], folder / path)


@pytest.mark.parametrize("path", PATHS)
def test_a_folder_in_place_of_a_file_is_refused(folder, path):
    (folder / path).mkdir(parents=True)
    expect_refusal(PATHS[path], folder / path)


def test_a_changed_header_is_refused_with_the_expected_one(data, folder, monkeypatch):
    path = copy(data, "ettm1/ETTm1.csv.gz", folder)
    replace_compressed(path, lambda text: text.replace(b"HUFL", b"LOAD", 1))
    skip_checksums(monkeypatch, folder)
    with pytest.raises(DataError, match=r"ETTm1\.csv\.gz must have the columns date, HUFL.*Got date, LOAD"):
        load_ettm1()


def test_a_missing_row_is_refused_where_no_checksum_is_known(data, folder, monkeypatch):
    path = copy(data, "ettm1/ETTm1.csv.gz", folder)
    replace_compressed(path, lambda text: text.rsplit(b"\n", 2)[0])
    skip_checksums(monkeypatch, folder)
    with pytest.raises(DataError, match=r"must have 69680 rows\. Got 69679"):
        load_ettm1()


OLDER = "jena/jena_climate_2009_2016.csv.zip"
HEADER = '"Date Time",' + ",".join(f'"{name}"' for name in JENA_COLUMNS)
TWO_ROWS = "\n".join(
    [HEADER, "01.01.2009 00:10:00" + ",1.5" * 14, "01.01.2009 00:20:00" + ",1.5" * 11 + ",-9999.00,2,3", ""]
).encode()


def zipped(text: bytes, name: str = "jena_climate_2009_2016.csv") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, text)
    return stream.getvalue()


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]


def test_the_series_of_2009_to_2016_is_read_from_its_archive(folder, monkeypatch):
    write(folder, OLDER, zipped(TWO_ROWS))
    skip_checksums(monkeypatch, folder)
    monkeypatch.setitem(weather._JENA_ROWS, "2009-2016", 2)
    frame = load_jena("2009-2016")
    assert frame["date"].astype(str).tolist() == ["2009-01-01 00:10:00", "2009-01-01 00:20:00"]
    assert frame["wv (m/s)"].isna().tolist() == [False, True] and frame["wd (deg)"].tolist() == [1.5, 3.0]


def test_the_series_of_2009_to_2016_must_have_the_size_of_the_catalogue(folder):
    write(folder, OLDER, zipped(TWO_ROWS))
    with pytest.raises(DataError, match="but the catalogue lists 13568290 bytes.*nsac data fetch jena-2009-2016`"):
        load_jena("2009-2016")


def test_the_series_of_2009_to_2016_must_have_all_rows(folder, monkeypatch):
    write(folder, OLDER, zipped(TWO_ROWS))
    skip_checksums(monkeypatch, folder)
    with pytest.raises(DataError, match="must have 420551 rows. Got 2"):
        load_jena("2009-2016")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "a whole zip archive"),
        (b"hello\n", "a whole zip archive"),
        (zipped(b"a,b\n" * 99)[:60], "a whole zip archive"),
        (flipped(zipped(np.random.default_rng(0).bytes(2000)), 400), "a whole zip archive"),
        (zipped(b"x", name="other.csv"), "a whole zip archive with jena_climate_2009_2016.csv"),
        (zipped(TWO_ROWS.replace(b"1.5", b"wet")), "a table of numbers"),
    ],
    ids=[
        "empty",
        "text",
        "truncated",
        "flipped bit",
        "other name",
        "text in a number",
    ],  # archives have times
)
def test_a_damaged_archive_of_2009_to_2016_is_refused_with_the_reason(folder, monkeypatch, content, reason):
    write(folder, OLDER, content)
    skip_checksums(monkeypatch, folder)
    monkeypatch.setitem(weather._JENA_ROWS, "2009-2016", 2)
    with pytest.raises(DataError, match=rf"{OLDER} is not .*{reason}.*nsac data fetch jena-2009-2016`"):
        load_jena("2009-2016")
