import gzip
import hashlib
import http.server
import io
import os
import shutil
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from nsac.lab.datasets import (
    DataError,
    catalog,
    load_bearing,
    load_drive,
    load_ettm1,
    load_jena,
    load_raw_bearing,
    load_uci,
    locate,
)
from nsac.lab.datasets import store as store_module
from nsac.lab.datasets.catalog import File
from nsac.lab.datasets.weather import JENA_COLUMNS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder and an empty cache."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("NSAC_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NSAC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data"


def listed(monkeypatch, **changes):
    """Pretend the catalogue lists one file with these properties."""
    monkeypatch.setattr(store_module, "file", lambda path: File(**{"path": path, "size": 0, **changes}))


def unchecked(monkeypatch, folder):
    """Pretend the catalogue has no checksums and whatever size a file has."""
    monkeypatch.setattr(store_module, "file", lambda path: File(path, (folder / path).stat().st_size))


def copy(data: Path, path: str, folder: Path) -> Path:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copyfile(data / path, folder / path))


def test_the_catalogue_says_for_every_source_whose_it_is():
    for source in catalog().values():
        assert all((source.description, source.citation, source.licence, source.address))
        for file in source.files:
            assert file.size > 0 and (len(file.sha256) == 64 or source.name == "jena-2009-2016")
            assert not file.path.startswith("/") and ".." not in file.path


def test_every_listed_file_is_in_the_folder_and_intact(data):
    for source in catalog().values():
        for file in source.files:
            if source.name != "jena-2009-2016":
                assert locate(file.path) == data / file.path


def test_a_changed_byte_is_named_with_what_to_do(data, folder):
    path = copy(data, "boston/boston.txt", folder)
    path.write_bytes(path.read_bytes().replace(b"0.00632", b"0.00633", 1))
    with pytest.raises(
        DataError, match=r"boston\.txt has 49081 bytes and sha256 .* but the catalogue says .*nsac data fetch boston`"
    ):
        load_uci("boston")


def test_a_file_changed_behind_its_time_stamp_is_noticed(data, folder):
    path = copy(data, "boston/boston.txt", folder)
    locate("boston/boston.txt")
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"0.00632", b"0.00633", 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataError, match="but the catalogue says"):
        locate("boston/boston.txt")


def test_a_truncated_gzip_is_named_with_what_to_do(data, folder):
    path = copy(data, "ettm1/ETTm1.csv.gz", folder)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match=r"ETTm1\.csv\.gz is not a whole gzip file.*Delete"):
        load_ettm1()


def test_a_gzip_made_by_another_program_is_accepted_by_its_content(data, folder):
    path = copy(data, "ettm1/ETTm1.csv.gz", folder)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1))
    assert len(load_ettm1()) == 69680


def test_a_valid_gzip_with_one_other_digit_is_refused(data, folder):
    path = copy(data, "ettm1/ETTm1.csv.gz", folder)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"5.827", b"5.828", 1)))
    with pytest.raises(DataError, match=r"ETTm1\.csv\.gz has .* but the catalogue says .*nsac data fetch ettm1`"):
        load_ettm1()


def test_a_changed_header_is_named_with_what_was_expected(data, folder, monkeypatch):
    path = copy(data, "ettm1/ETTm1.csv.gz", folder)
    text = gzip.decompress(path.read_bytes()).replace(b"HUFL", b"LOAD", 1)
    path.write_bytes(gzip.compress(text))
    unchecked(monkeypatch, folder)
    with pytest.raises(DataError, match=r"ETTm1\.csv\.gz must have the columns date, HUFL.*Got date, LOAD"):
        load_ettm1()


def test_a_missing_row_is_noticed_without_a_checksum(data, folder, monkeypatch):
    path = copy(data, "ettm1/ETTm1.csv.gz", folder)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).rsplit(b"\n", 2)[0]))
    unchecked(monkeypatch, folder)
    with pytest.raises(DataError, match=r"must have 69680 rows\. Got 69679"):
        load_ettm1()


def test_a_file_that_is_nowhere_and_cannot_be_downloaded_says_where_to_get_it(folder):
    with pytest.raises(DataError, match=r"udacity/IMG\.tar .* none of NSAC_DATA .* Get the originals from https://"):
        locate("udacity/IMG.tar")


def test_a_folder_that_does_not_exist_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("NSAC_DATA", str(tmp_path / "nothing"))
    with pytest.raises(DataError, match="NSAC_DATA must name an existing folder"):
        locate("boston/boston.txt")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("train_3", lambda rows: rows[::-1]),  # the same rows in another order
        ("test_19", lambda rows: rows.astype(float)),  # equal, but no row numbers
        ("index_features", lambda _: np.arange(14, dtype=np.int32)),  # the target among the inputs
        ("index_target", lambda _: np.array([0], dtype=np.int32)),  # another target
    ],
)
def test_changed_splits_are_refused_when_they_are_located(data, folder, name, change):
    path = copy(data, "boston/splits.npz", folder)
    arrays = packed(path)
    np.savez(path, **{**arrays, name: change(arrays[name])})
    with pytest.raises(DataError, match=rf"'{name}' in .*splits\.npz is not the standard one.*nsac data fetch boston`"):
        locate("boston/splits.npz")


def test_splits_packed_by_another_program_are_accepted_by_their_content(data, folder):
    path = copy(data, "boston/splits.npz", folder)
    np.savez(path, **packed(path))
    assert locate("boston/splits.npz") == path


def packed(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return dict(arrays)


def test_splits_that_are_missing_are_made_again(data, folder):
    copy(data, "boston/boston.txt", folder)
    assert len(load_uci("boston").splits) == 20


@pytest.fixture
def server(tmp_path):
    """A web server on this machine; what is put into the folder can be downloaded."""
    (tmp_path / "web").mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path / "web"))

        def log_message(self, format, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()  # seconds until it stops
        yield tmp_path / "web", f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


TEXT = b"1 2\n3 4\n"


def sha(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def test_a_download_is_checked_kept_and_not_repeated(folder, server, monkeypatch):
    web, address = server
    (web / "a.txt").write_bytes(TEXT)
    listed(monkeypatch, sha256=sha(TEXT), url=f"{address}/a.txt")
    first = locate("some/a.txt")
    (web / "a.txt").unlink()
    assert locate("some/a.txt") == first and first.read_bytes() == TEXT
    assert [path.name for path in first.parent.iterdir()] == ["a.txt"]  # nothing half done is left


def test_a_download_can_be_read_by_others(folder, server, monkeypatch):
    web, address = server
    (web / "a.txt").write_bytes(TEXT)
    for path, changes in {
        "a.txt": {"sha256": sha(TEXT)},
        "a.txt.gz": {"sha256": "0" * 64, "content": sha(TEXT)},
    }.items():
        listed(monkeypatch, url=f"{address}/a.txt", **changes)
        found = locate(f"some/{path}")
        beside = found.parent / "beside"
        beside.touch()
        assert found.stat().st_mode == beside.stat().st_mode


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("page.zip#a.txt", "not a zip file"),  # a page that asks to log in, say
        ("a.zip#b.txt", "no item named 'b.txt'"),
        ("a.zip#a.txt", "the sha256 of a.txt is not that of the catalogue"),
    ],
)
def test_an_archive_without_the_member_is_named_and_leaves_nothing(folder, server, monkeypatch, url, reason):
    web, address = server
    (web / "page.zip").write_bytes(b"<html>")
    with zipfile.ZipFile(web / "a.zip", "w") as archive:
        archive.writestr("a.txt", TEXT)
    listed(monkeypatch, sha256="0" * 64, content=sha(b"other"), url=f"{address}/{url}")
    with pytest.raises(DataError, match=rf"some/a\.txt\.gz could not be downloaded from http.*{reason}.*set NSAC_DATA"):
        locate("some/a.txt.gz")
    assert not [path for path in store_module.cache_folder().rglob("*") if path.is_file()]


def test_without_a_checksum_the_size_is_compared(folder, server, monkeypatch):
    web, address = server
    (web / "a.zip").write_bytes(b"<html>")
    listed(monkeypatch, size=13568290, url=f"{address}/a.zip")
    with pytest.raises(DataError, match="it gives 6 bytes, but the catalogue says 13568290"):
        locate("some/a.zip")
    (folder / "a.zip").write_bytes(b"<html>")
    with pytest.raises(DataError, match=r"a\.zip has 6 bytes .* but the catalogue says 13568290 bytes"):
        locate("a.zip")


def test_a_cache_that_cannot_be_written_is_named(folder, monkeypatch):
    monkeypatch.setenv("NSAC_CACHE", "/dev/null/cache")
    with pytest.raises(DataError, match=r"/dev/null/cache/boston/splits\.npz cannot be written .*Set NSAC_CACHE"):
        locate("boston/splits.npz")


def test_a_path_that_is_not_in_the_catalogue_is_refused(folder):
    with pytest.raises(DataError, match="must be a file of the catalogue. Got 'nope'.*nsac data info"):
        locate("nope")


def test_a_download_with_another_checksum_is_refused_and_leaves_nothing(folder, server, monkeypatch):
    web, address = server
    (web / "a.txt").write_bytes(TEXT + b"5 6\n")
    listed(monkeypatch, sha256=sha(TEXT), url=f"{address}/a.txt")
    with pytest.raises(DataError, match=r"some/a\.txt could not be downloaded .*hash"):
        locate("some/a.txt")
    assert not list(store_module.cache_folder().rglob("*.txt"))


def test_a_plain_file_is_compressed_and_a_member_is_taken_from_its_archive(folder, server, monkeypatch):
    web, address = server
    with zipfile.ZipFile(web / "a.zip", "w") as archive:
        archive.writestr("inner/a.txt", TEXT)
    (web / "a.txt").write_bytes(TEXT)
    for url in ("a.txt", "a.zip#inner/a.txt"):
        listed(monkeypatch, sha256="0" * 64, content=sha(TEXT), url=f"{address}/{url}")
        path = locate(f"{url.replace('#', '_')}/a.txt.gz")
        assert gzip.decompress(path.read_bytes()) == TEXT


def test_an_address_that_does_not_answer_is_named(folder, monkeypatch):
    listed(monkeypatch, sha256=sha(TEXT), url="http://127.0.0.1:9/a.txt")
    with pytest.raises(DataError, match=r"could not be downloaded from http.*set NSAC_DATA"):
        locate("some/a.txt")


def test_the_record_of_2009_to_2016_is_read_from_its_archive(folder, monkeypatch):
    path = folder / "jena/jena_climate_2009_2016.csv.zip"
    path.parent.mkdir()
    header = '"Date Time",' + ",".join(f'"{name}"' for name in JENA_COLUMNS)
    rows = ["01.01.2009 00:10:00" + ",1.5" * 14, "01.01.2009 00:20:00" + ",1.5" * 11 + ",-9999.00,2,3"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("jena_climate_2009_2016.csv", "\n".join([header, *rows]) + "\n")
    with pytest.raises(DataError, match="but the catalogue says 13568290 bytes.*nsac data fetch jena-2009-2016`"):
        load_jena("2009-2016")
    unchecked(monkeypatch, folder)
    with pytest.raises(DataError, match="must have 420551 rows. Got 2"):
        load_jena("2009-2016")
    monkeypatch.setattr("nsac.lab.datasets.weather.expect_rows", lambda *_: None)
    frame = load_jena("2009-2016")
    assert frame["date"].astype(str).tolist() == ["2009-01-01 00:10:00", "2009-01-01 00:20:00"]
    assert frame["wv (m/s)"].isna().tolist() == [False, True] and frame["wd (deg)"].tolist() == [1.5, 3.0]


# Damage of every kind that a checksum would notice first, so readers are on their own.

JENA = "jena/jena_climate_2009_2016.csv.zip"
XJTU = "bearings/xjtu/Bearing2_4_features_with_labels.csv.gz"
RAW = "bearings/raw-pronostia/Full_Test_Set_Bearing3_3.npz"
LOG, FRAMES = "udacity/driving_log_track2.csv", "udacity/IMG_track2.tar"

READERS = {
    "boston/boston.txt": lambda: load_uci("boston"),
    "boston/splits.npz": lambda: load_uci("boston"),
    "ettm1/ETTm1.csv.gz": load_ettm1,
    "jena/jena_2020.csv.gz": load_jena,
    JENA: lambda: load_jena("2009-2016"),
    XJTU: lambda: load_bearing("xjtu", "2_4"),
    RAW: lambda: load_raw_bearing("3_3"),
    LOG: lambda: load_drive("mountain"),
    FRAMES: lambda: load_drive("mountain"),
}


def zipped(text: bytes, name: str = "jena_climate_2009_2016.csv") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, text)
    return stream.getvalue()


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]


def refused(path, folder):
    with pytest.raises(DataError) as caught:
        READERS[path]()
    assert str(folder / path) in str(caught.value) and "intact copy" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", READERS)
@pytest.mark.parametrize(
    "damage", [lambda whole: b"", lambda whole: b"hello\n", lambda whole: whole[: len(whole) // 2]]
)
def test_a_damaged_file_is_named_with_what_to_do(data, folder, monkeypatch, path, damage):
    for other in ("boston/boston.txt", LOG):
        copy(data, other, folder)
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(damage(zipped(b"a,b\n" * 99) if path == JENA else (data / path).read_bytes()))
    unchecked(monkeypatch, folder)
    refused(path, folder)


@pytest.mark.parametrize("path", READERS)
def test_a_folder_in_place_of_a_file_is_named(data, folder, path):
    for other in {"boston/boston.txt", LOG} - {path}:
        copy(data, other, folder)
    (folder / path).mkdir(parents=True)
    refused(path, folder)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (flipped(zipped(np.random.default_rng(0).bytes(2000)), 400), "a whole zip archive"),
        (zipped(b"p (mbar)\xff"), "UnicodeDecodeError"),
        (zipped(b"x", name="other.csv"), "a whole zip archive with jena_climate_2009_2016.csv"),
        (zipped(b'"Date Time","p (mbar)"\n01.01.2009 00:10:00,wet\n'), "a table of numbers"),
    ],
)
def test_a_damaged_record_of_2009_to_2016_is_named(folder, monkeypatch, content, reason):
    (folder / "jena").mkdir()
    (folder / JENA).write_bytes(content)
    unchecked(monkeypatch, folder)
    with pytest.raises(DataError, match=rf"{JENA} is not .*{reason}.*nsac data fetch jena-2009-2016`"):
        load_jena("2009-2016")


def test_splits_that_are_an_array_and_no_archive_are_named(data, folder):
    copy(data, "boston/boston.txt", folder)
    with (folder / "boston/splits.npz").open("wb") as stream:
        np.save(stream, np.arange(3))
    refused("boston/splits.npz", folder)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"]", b", 1.0]", "'Horizontal' of row 0 has 8 numbers"),  # would shift all rows after it
        (b"[", b"[high, ", "'Horizontal' of row 0 has 8 numbers"),
        (b"[", b"[x", "could not convert"),
        (b",2250", b",fast", "could not convert"),
    ],
)
def test_a_bearing_with_a_broken_row_is_refused(data, folder, monkeypatch, old, new, reason):
    path = copy(data, XJTU, folder)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(old, new, 1)))
    unchecked(monkeypatch, folder)
    with pytest.raises(DataError, match=f"{XJTU} is not a table of numbers and lists of 7 numbers .*{reason}"):
        load_bearing("xjtu", "2_4")


def test_a_bearing_that_lacks_a_row_is_refused(data, folder, monkeypatch):
    path = copy(data, XJTU, folder)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).strip().rsplit(b"\n", 1)[0]))
    unchecked(monkeypatch, folder)
    with pytest.raises(DataError, match=r"must have 2000 rows\. Got 1999"):
        load_bearing("xjtu", "2_4")


def test_raw_signals_of_another_shape_are_refused(folder, monkeypatch):
    (folder / RAW).parent.mkdir(parents=True)
    unchecked(monkeypatch, folder)
    for signal in (np.zeros((433, 2560, 2)), np.zeros(())):
        np.savez(folder / RAW, signal=signal, elapsed_seconds=np.zeros(434))
        with pytest.raises(DataError, match=r"Bearing3_3\.npz is not 434 snapshots .* Put an intact copy"):
            load_raw_bearing("3_3")


def test_a_drive_whose_frames_are_another_drives_is_refused(data, folder, monkeypatch):
    copy(data, LOG, folder)
    with tarfile.open(folder / FRAMES, "w") as tar:
        tar.addfile(tarfile.TarInfo("IMG/other.jpg"))
    unchecked(monkeypatch, folder)
    with pytest.raises(DataError, match=r"lacks 1000 of them, for instance IMG/center_2019.* Put an intact copy"):
        load_drive("mountain")
