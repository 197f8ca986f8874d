"""Files of the catalogue: found in a folder, in the cache, or downloaded; always checked.

The folder is given by the environment variable `NSAC_DATA`; the cache is `NSAC_CACHE`, or the user's cache directory.
"""

import gzip
import hashlib
import os
import shutil
import tempfile
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path

from nsac.datasets.catalog import File, catalog, file
from nsac.datasets.splits import write_splits


class DataError(Exception):
    """A data file is missing, damaged, or not what the catalogue says. The message says which and what to do."""


def locate(path: str) -> Path:
    """A checked file of the catalogue: from the folder `NSAC_DATA`, else the cache, else downloaded into the cache."""
    entry = file(path)
    for folder in (_folder(), cache_folder()):
        if folder is not None and (folder / path).exists():
            return _checked(folder / path, entry)
    return _checked(_fetch(entry), entry)


def present(name: str) -> bool:
    """Whether all files of a source are here already, unchecked."""
    folders = [folder for folder in (_folder(), cache_folder()) if folder is not None]
    return all(any((folder / entry.path).exists() for folder in folders) for entry in catalog()[name].files)


def cache_folder() -> Path:
    """Where downloads are kept."""
    if chosen := os.environ.get("NSAC_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nsac"


def read_text(path: Path) -> str:
    """Text of a file, decompressed if its name says so."""
    if path.suffix == ".gz":
        try:
            with gzip.open(path, "rb") as stream:
                raw = stream.read()
        except (EOFError, OSError, zlib.error) as err:
            raise DataError(f"{path} is not a whole gzip file ({err}). {replace(path)}") from None
    else:
        raw = path.read_bytes()
    return raw.decode("utf-8", errors="replace")  # units of some headers were damaged at the source


def expect_header(path: Path, found: list[str], expected: list[str]) -> None:
    """The columns are those we know; a file with others is read by nobody."""
    if found != expected:
        raise DataError(
            f"{path} must have the columns {', '.join(expected)}. Got {', '.join(found)} instead. "
            f"The source may have changed its format. {replace(path)}"
        )


def expect_rows(path: Path, found: int, expected: int) -> None:
    """The number of rows is the known one."""
    if found != expected:
        raise DataError(f"{path} must have {expected} rows. Got {found} instead. {replace(path)}")


def _folder() -> Path | None:
    given = os.environ.get("NSAC_DATA")
    if not given:
        return None
    folder = Path(given)
    if not folder.is_dir():
        raise DataError(f"NSAC_DATA must name an existing folder. Got {given!r} instead. Correct or unset it.")
    return folder


def _checked(path: Path, entry: File) -> Path:
    stat = path.stat()
    _check(path, entry, stat.st_size, stat.st_mtime_ns)
    return path


@lru_cache(maxsize=256)  # a file that did not change is hashed once per process
def _check(path: Path, entry: File, size: int, changed: int) -> None:
    del size, changed  # part of the key only
    if not entry.sha256 or _sha256(path) == entry.sha256:
        return
    if entry.content and hashlib.sha256(_unzipped(path)).hexdigest() == entry.content:
        return  # compressed by another program, same content
    if entry.url == "generated:splits":
        return  # packed by another version of numpy; the reader checks what is in it
    raise DataError(
        f"{path} has sha256 {_sha256(path)[:16]}... and {path.stat().st_size} bytes, "
        f"but the catalogue says {entry.sha256[:16]}... and {entry.size} bytes. {replace(path)}"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unzipped(path: Path) -> bytes:
    try:
        with gzip.open(path, "rb") as stream:
            return stream.read()
    except (EOFError, OSError, zlib.error) as err:
        raise DataError(f"{path} is not a whole gzip file ({err}). {replace(path)}") from None


def replace(path: Path) -> str:
    """What to do about a damaged file."""
    return f"Delete {path} and run `nsac data fetch`, or put an intact copy in its place."


def _fetch(entry: File) -> Path:
    """Download into a temporary file beside its place in the cache, then move: never half a file."""
    target = cache_folder() / entry.path
    if not entry.url:
        source = next(source for source in catalog().values() if entry in source.files)
        given = os.environ.get("NSAC_DATA") or "not set"
        raise DataError(
            f"{entry.path} ({source.name}) is in none of NSAC_DATA ({given}) and {cache_folder()}, and cannot "
            f"be downloaded as one file. Get the originals from {source.address}, or set NSAC_DATA to a folder that "
            f"holds {entry.path}."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "made"
        if entry.url == "generated:splits":
            write_splits(made, target.parent.name)
        else:
            _repack(_download(entry, Path(folder)), made, entry)
        os.replace(made, target)
    return target


def _download(entry: File, folder: Path) -> Path:
    try:
        import pooch
    except ImportError:
        raise DataError(
            f"{entry.path} must be downloaded, which needs pooch. Install it with `pip install 'nsac[bench]'`, "
            f"or put the file from {entry.url} into {cache_folder() / entry.path}."
        ) from None
    url, _, member = entry.url.partition("#")
    digest = "" if member else entry.content or entry.sha256  # an archive's own checksum is not known, its member's is
    try:
        return Path(pooch.retrieve(url, f"sha256:{digest}" if digest else None, fname="download", path=folder))
    except Exception as err:  # whatever the network or pooch says, once, with what to do
        raise DataError(
            f"{entry.path} could not be downloaded from {url}: {err}. Try again later, or set NSAC_DATA to a folder "
            f"that holds {entry.path}."
        ) from None


def _repack(downloaded: Path, made: Path, entry: File) -> None:
    """From what the address gives to what the catalogue lists: a member of an archive, compressed or as it is."""
    member = entry.url.partition("#")[2]
    if member:
        with zipfile.ZipFile(downloaded) as archive:
            content = archive.read(member)
        if hashlib.sha256(content).hexdigest() != entry.content:
            raise DataError(f"{member} in {entry.url} is not the file the catalogue lists: its sha256 differs.")
    elif entry.content:
        content = downloaded.read_bytes()
    else:
        shutil.move(downloaded, made)
        return
    with made.open("wb") as stream, gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed:
        packed.write(content)
