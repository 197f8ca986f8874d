import gzip
import http.server
import shutil
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from nsac.datasets import DataError, catalog, load_ettm1, load_jena, load_uci, locate
from nsac.datasets import store as store_module
from nsac.datasets.catalog import File
from nsac.datasets.weather import JENA_COLUMNS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder and an empty cache."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("NSAC_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NSAC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data"


def listed(monkeypatch, **changes):
    """Pretend the catalogue lists one file with these properties."""
    monkeypatch.setattr(store_module, "file", lambda path: File(path=path, size=0, **changes))


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
    with pytest.raises(DataError, match=r"boston\.txt has sha256 .* but the catalogue says .*nsac data fetch"):
        load_uci("boston")


def test_a_truncated_gzip_is_named_with_what_to_do(data, folder):
    path = copy(data, "ettm1/ETTm1.csv.gz", folder)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match=r"ETTm1\.csv\.gz is not a whole gzip file.*Delete"):
        load_ettm1()


def test_a_gzip_made_by_another_program_is_accepted_by_its_content(data, folder):
    path = copy(data, "ettm1/ETTm1.csv.gz", folder)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1))
    assert len(load_ettm1()) == 69680


def test_a_changed_header_is_named_with_what_was_expected(data, folder, monkeypatch):
    path = copy(data, "ettm1/ETTm1.csv.gz", folder)
    text = gzip.decompress(path.read_bytes()).replace(b"HUFL", b"LOAD", 1)
    path.write_bytes(gzip.compress(text))
    listed(monkeypatch)
    with pytest.raises(DataError, match=r"ETTm1\.csv\.gz must have the columns date, HUFL.*Got date, LOAD"):
        load_ettm1()


def test_a_missing_row_is_noticed_without_a_checksum(data, folder, monkeypatch):
    path = copy(data, "ettm1/ETTm1.csv.gz", folder)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).rsplit(b"\n", 2)[0]))
    listed(monkeypatch)
    with pytest.raises(DataError, match=r"must have 69680 rows\. Got 69679"):
        load_ettm1()


def test_a_file_that_is_nowhere_and_cannot_be_downloaded_says_where_to_get_it(folder):
    with pytest.raises(DataError, match=r"udacity/IMG\.tar .* none of NSAC_DATA .* Get the originals from https://"):
        locate("udacity/IMG.tar")


def test_a_folder_that_does_not_exist_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("NSAC_DATA", str(tmp_path / "nothing"))
    with pytest.raises(DataError, match="NSAC_DATA must name an existing folder"):
        locate("boston/boston.txt")


def test_changed_splits_are_refused(data, folder):
    copy(data, "boston/boston.txt", folder)
    with np.load(data / "boston/splits.npz") as packed:
        arrays = dict(packed)
    arrays["train_3"] = arrays["train_3"][::-1]
    np.savez(folder / "boston/splits.npz", **arrays)
    with pytest.raises(DataError, match=r"Split 3 of .*splits\.npz is not the standard one"):
        load_uci("boston")


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
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield tmp_path / "web", f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


TEXT = b"1 2\n3 4\n"


def sha(text: bytes) -> str:
    import hashlib

    return hashlib.sha256(text).hexdigest()


def test_a_download_is_checked_kept_and_not_repeated(folder, server, monkeypatch):
    web, address = server
    (web / "a.txt").write_bytes(TEXT)
    listed(monkeypatch, sha256=sha(TEXT), url=f"{address}/a.txt")
    first = locate("some/a.txt")
    (web / "a.txt").unlink()
    assert locate("some/a.txt") == first and first.read_bytes() == TEXT
    assert [path.name for path in first.parent.iterdir()] == ["a.txt"]  # nothing half done is left


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
    with pytest.raises(DataError, match="must have 420551 rows. Got 2"):
        load_jena("2009-2016")
    monkeypatch.setattr("nsac.datasets.weather.expect_rows", lambda *_: None)
    frame = load_jena("2009-2016")
    assert frame["date"].astype(str).tolist() == ["2009-01-01 00:10:00", "2009-01-01 00:20:00"]
    assert frame["wv (m/s)"].isna().tolist() == [False, True] and frame["wd (deg)"].tolist() == [1.5, 3.0]
