import gzip
import hashlib
import http.server
import os
import threading
import zipfile

import numpy as np
import pytest

from nsac.lab.datasets import DataError, catalog, load_uci, locate
from nsac.lab.datasets.store import cache_folder, present, split_arrays
from support.data_files import copy, list_file, replace_compressed

BOSTON, SPLITS, ETTM1 = "boston/boston.txt", "boston/splits.npz", "ettm1/ETTm1.csv.gz"


def change_one_digit(path):
    path.write_bytes(path.read_bytes().replace(b"0.00632", b"0.00633", 1))


def test_every_listed_file_is_in_the_folder_and_intact(data):
    for source in catalog().values():
        for file in source.files:
            if source.name != "jena-2009-2016":
                assert locate(file.path) == data / file.path


def test_a_changed_byte_is_refused_with_a_fix(data, folder):
    change_one_digit(copy(data, BOSTON, folder))
    message = r"boston\.txt has 49081 bytes and sha256 .* but the catalogue lists .*nsac data fetch boston`"
    with pytest.raises(DataError, match=message):
        load_uci("boston")


def test_a_file_changed_without_a_change_of_its_modification_time_is_refused(data, folder):
    path = copy(data, BOSTON, folder)
    locate(BOSTON)
    before = path.stat()
    change_one_digit(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataError, match="but the catalogue lists"):
        locate(BOSTON)


def test_a_truncated_gzip_is_refused_with_a_fix(data, folder):
    path = copy(data, ETTM1, folder)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match=r"ETTm1\.csv\.gz is not a whole gzip file.*Delete"):
        locate(ETTM1)


def test_a_gzip_of_another_program_is_accepted_by_its_content(data, folder):
    path = copy(data, ETTM1, folder)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1))
    assert locate(ETTM1) == path


def test_a_valid_gzip_with_one_changed_digit_is_refused(data, folder):
    replace_compressed(copy(data, ETTM1, folder), lambda text: text.replace(b"5.827", b"5.828", 1))
    with pytest.raises(DataError, match=r"ETTm1\.csv\.gz has .* but the catalogue lists .*nsac data fetch ettm1`"):
        locate(ETTM1)


def test_the_error_of_a_missing_file_that_cannot_be_downloaded_names_its_homepage(folder):
    with pytest.raises(DataError, match=r"udacity/IMG\.tar .* neither in NSAC_DATA .* Get the originals from https://"):
        locate("udacity/IMG.tar")


def test_a_data_folder_that_does_not_exist_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("NSAC_DATA", str(tmp_path / "nothing"))
    with pytest.raises(DataError, match="NSAC_DATA must name an existing folder"):
        locate(BOSTON)


def test_a_path_that_is_not_in_the_catalogue_is_refused(folder):
    with pytest.raises(DataError, match="must be a file of the catalogue. Got 'nope'.*nsac data info"):
        locate("nope")


def test_a_cache_that_cannot_be_written_is_refused(folder, monkeypatch):
    monkeypatch.setenv("NSAC_CACHE", "/dev/null/cache")
    with pytest.raises(DataError, match=r"/dev/null/cache/boston/splits\.npz cannot be written .*Set NSAC_CACHE"):
        locate(SPLITS)


@pytest.mark.parametrize(("name", "here"), [("spiral", True), ("boston", True), ("kin8nm", False)])
def test_a_source_is_present_if_all_files_that_are_not_generated_are(data, folder, name, here):
    copy(data, BOSTON, folder)
    assert present(name) == here


@pytest.fixture
def server(tmp_path):
    """A web server on this machine: the folder of its files, and its URL."""
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


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def test_a_download_is_checked_kept_and_not_repeated(folder, server, monkeypatch):
    web, url = server
    (web / "a.txt").write_bytes(TEXT)
    list_file(monkeypatch, sha256=sha256(TEXT), url=f"{url}/a.txt")
    first = locate("some/a.txt")
    (web / "a.txt").unlink()
    assert locate("some/a.txt") == first and first.read_bytes() == TEXT
    assert [path.name for path in first.parent.iterdir()] == ["a.txt"]  # no temporary file is left


@pytest.mark.parametrize(
    ("path", "listed"),
    [("a.txt", {"sha256": sha256(TEXT)}), ("a.txt.gz", {"sha256": "0" * 64, "content": sha256(TEXT)})],
)
def test_a_download_has_the_permissions_of_other_files(folder, server, monkeypatch, path, listed):
    web, url = server
    (web / "a.txt").write_bytes(TEXT)
    list_file(monkeypatch, url=f"{url}/a.txt", **listed)
    found = locate(f"some/{path}")
    other = found.parent / "other"
    other.touch()
    assert found.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("page.zip#a.txt", "not a zip file"),  # for example a login page
        ("a.zip#b.txt", "no item named 'b.txt'"),
        ("a.zip#a.txt", "the sha256 of a.txt is not that of the catalogue"),
    ],
)
def test_an_archive_without_the_member_is_refused_and_leaves_no_file(folder, server, monkeypatch, url, reason):
    web, root = server
    (web / "page.zip").write_bytes(b"<html>")
    with zipfile.ZipFile(web / "a.zip", "w") as archive:
        archive.writestr("a.txt", TEXT)
    list_file(monkeypatch, sha256="0" * 64, content=sha256(b"other"), url=f"{root}/{url}")
    with pytest.raises(DataError, match=rf"some/a\.txt\.gz could not be downloaded from http.*{reason}.*set NSAC_DATA"):
        locate("some/a.txt.gz")
    assert not [path for path in cache_folder().rglob("*") if path.is_file()]


def test_a_download_of_another_size_is_refused_where_no_checksum_is_known(folder, server, monkeypatch):
    web, url = server
    (web / "a.zip").write_bytes(b"<html>")
    list_file(monkeypatch, size=13568290, url=f"{url}/a.zip")
    with pytest.raises(DataError, match="the file has 6 bytes, but the catalogue lists 13568290"):
        locate("some/a.zip")


def test_a_file_of_another_size_is_refused_where_no_checksum_is_known(folder, monkeypatch):
    (folder / "a.zip").write_bytes(b"<html>")
    list_file(monkeypatch, size=13568290)
    with pytest.raises(DataError, match=r"a\.zip has 6 bytes .* but the catalogue lists 13568290 bytes"):
        locate("a.zip")


def test_a_download_with_another_checksum_is_refused_and_leaves_no_file(folder, server, monkeypatch):
    web, url = server
    (web / "a.txt").write_bytes(TEXT + b"5 6\n")
    list_file(monkeypatch, sha256=sha256(TEXT), url=f"{url}/a.txt")
    with pytest.raises(DataError, match=r"some/a\.txt could not be downloaded .*hash"):
        locate("some/a.txt")
    assert not list(cache_folder().rglob("*.txt"))


@pytest.mark.parametrize("name", ["a.txt", "a.zip#inner/a.txt"])
def test_a_plain_file_or_a_member_of_an_archive_is_compressed(folder, server, monkeypatch, name):
    web, url = server
    with zipfile.ZipFile(web / "a.zip", "w") as archive:
        archive.writestr("inner/a.txt", TEXT)
    (web / "a.txt").write_bytes(TEXT)
    list_file(monkeypatch, sha256="0" * 64, content=sha256(TEXT), url=f"{url}/{name}")
    assert gzip.decompress(locate("some/a.txt.gz").read_bytes()) == TEXT


def test_a_server_that_does_not_respond_is_an_error_with_a_fix(folder, monkeypatch):
    list_file(monkeypatch, sha256=sha256(TEXT), url="http://127.0.0.1:9/a.txt")
    with pytest.raises(DataError, match=r"could not be downloaded from http.*set NSAC_DATA"):
        locate("some/a.txt")


def test_a_split_divides_all_rows_nine_to_one():
    arrays = split_arrays("boston")
    assert len(arrays["train_3"]) == 455 and sorted([*arrays["train_3"], *arrays["test_3"]]) == list(range(506))


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
    with pytest.raises(DataError, match=rf"must have the standard splits. Its '{name}' is another.*fetch boston`"):
        locate(SPLITS)


def test_splits_packed_by_another_program_are_accepted_by_their_content(copied):
    path, arrays = copied
    np.savez(path, **arrays)
    assert locate(SPLITS) == path


def test_missing_splits_are_generated(folder):
    with np.load(locate(SPLITS)) as arrays:
        assert set(arrays) == set(split_arrays("boston"))
