"""Files of the catalogue: located in a folder or in the cache, or downloaded; always checked.

The folder is given by the environment variable `NSAC_DATA`; the cache is `NSAC_CACHE`, or the user's cache directory.
"""

import gzip
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np

from nsac.lab.datasets.catalog import File, catalog, file
from nsac.lab.datasets.splits import split_arrays, write_splits


class DataError(Exception):
    """A data file is missing, damaged, or differs from the catalogue. The message names it and how to fix it."""


def locate(path: str) -> Path:
    """A checked file of the catalogue: from the folder `NSAC_DATA`, else the cache, else downloaded into the cache."""
    try:
        entry = file(path)
    except KeyError:
        raise DataError(
            f"`path` must be a file of the catalogue. Got {path!r} instead. `nsac data info NAME` lists a set's files."
        ) from None
    for folder in _folders():
        if os.path.exists(folder / path):
            return _checked(folder / path, entry)
    return _checked(_fetch(entry), entry)


def present(name: str) -> bool:
    """Whether all files of a source are present, unchecked; files that can be generated count as present."""
    needed = [entry.path for entry in catalog()[name].files if not entry.generated]
    return all(any(os.path.exists(folder / path) for folder in _folders()) for path in needed)


def cache_folder() -> Path:
    """Folder of downloaded files."""
    if chosen := os.environ.get("NSAC_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nsac"


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn every error inside into a `DataError`: the file is not `what`, the reason, and how to fix it."""
    try:
        yield
    except DataError:
        raise
    except Exception as err:  # parsers of pandas, numpy, gzip, zip and tar raise many types on damaged bytes
        reason = " ".join(f"{type(err).__name__}: {err}".split())  # on one line
        raise DataError(f"{path} is not {what} ({reason}). {how_to_replace(path)}") from None


def read_text(path: Path) -> str:
    """Text of a file, decompressed if its name ends in .gz."""
    return _content(path).decode("utf-8", errors="replace")  # units of some headers were damaged at the source


def read_npz(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Arrays of an archive by name; nothing is unpickled."""
    # Opened as a zip first: np.load takes any other file for a pickle and advises to trust it.
    with reading(path, "a whole archive of arrays"), zipfile.ZipFile(path), np.load(path, allow_pickle=False) as packed:
        return {name: packed[name] for name in names}


def expect_header(path: Path, found: list[str], expected: list[str]) -> None:
    """Refuse a file with other columns than the expected ones."""
    if found != expected:
        raise DataError(
            f"{path} must have the columns {', '.join(expected)}. Got {', '.join(found)} instead. "
            f"The source may have changed its format. {how_to_replace(path)}"
        )


def expect_rows(path: Path, found: int, expected: int) -> None:
    """Refuse a file with another number of rows than the expected one."""
    if found != expected:
        raise DataError(f"{path} must have {expected} rows. Got {found} instead. {how_to_replace(path)}")


def how_to_replace(path: Path) -> str:
    """Instruction for replacing a damaged file."""
    source = next((s for s in catalog().values() if any(path.match(entry.path) for entry in s.files)), None)
    if source is None:
        return "Put an intact copy in its place."
    if not source.downloadable:
        return f"Put an intact copy in its place; the originals of {source.name} are at {source.homepage}."
    return f"Delete {path} and run `nsac data fetch {source.name}`, or put an intact copy in its place."


def _folders() -> list[Path]:
    given = os.environ.get("NSAC_DATA")
    if given and not os.path.isdir(given):
        raise DataError(f"NSAC_DATA must name an existing folder. Got {given!r} instead. Correct or unset it.")
    return [*([Path(given)] if given else []), cache_folder()]


def _checked(path: Path, entry: File) -> Path:
    with reading(path, "a file that can be read"):
        stat = path.stat()
        _check(path, entry, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
    return path


@lru_cache(maxsize=256)  # an unchanged file is hashed once per process
def _check(path: Path, entry: File, size: int, *changed: int) -> None:
    del changed  # only part of the cache key
    found = _sha256(path)
    if found == entry.sha256 or (not entry.sha256 and size == entry.size):
        return
    if entry.content and hashlib.sha256(_content(path)).hexdigest() == entry.content:
        return  # compressed by another program, same content
    if entry.generated:
        return _check_splits(path)  # packed by another version of numpy
    raise DataError(
        f"{path} has {size} bytes and sha256 {found[:16]}..., but the catalogue lists {entry.size} bytes and sha256 "
        f"{entry.sha256[:16] + '...' if entry.sha256 else 'not known'}. {how_to_replace(path)}"
    )


def _check_splits(path: Path) -> None:
    standard = split_arrays(path.parent.name)
    given = read_npz(path, standard)
    for name, array in standard.items():
        if given[name].dtype != array.dtype or not np.array_equal(given[name], array):
            raise DataError(f"{name!r} in {path} is not the standard one. {how_to_replace(path)}")


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _content(path: Path) -> bytes:
    """Bytes of a file, decompressed if its name ends in .gz."""
    if path.suffix != ".gz":
        with reading(path, "a file that can be read"):
            return path.read_bytes()
    with reading(path, "a whole gzip file"), gzip.open(path, "rb") as stream:
        return stream.read()


def _fetch(entry: File) -> Path:
    """Create a file in a temporary folder and move it into the cache, so that it is never incomplete there."""
    target = cache_folder() / entry.path
    if not entry.url:
        source = next(source for source in catalog().values() if entry in source.files)
        given = os.environ.get("NSAC_DATA") or "not set"
        raise DataError(
            f"{entry.path} ({source.name}) is neither in NSAC_DATA ({given}) nor in {cache_folder()}, and cannot "
            f"be downloaded as one file. Get the originals from {source.homepage}, or set NSAC_DATA to a folder that "
            f"contains {entry.path}."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            created = Path(folder) / "created"
            if entry.generated:
                write_splits(created, target.parent.name)
            else:
                content = _download(entry, Path(folder))
                created.write_bytes(gzip.compress(content, mtime=0) if entry.content else content)
            os.replace(created, target)
    except OSError as err:
        raise DataError(
            f"{target} cannot be written ({err}). Set NSAC_CACHE to a writable folder, or NSAC_DATA to one that "
            f"contains {entry.path}."
        ) from None
    return target


def _download(entry: File, folder: Path) -> bytes:
    """Content at the download URL, or of a member of the archive there, checked."""
    try:
        import pooch
    except ImportError:
        raise DataError(
            f"{entry.path} must be downloaded, which needs pooch. Install it with `pip install 'nsac[bench]'`, "
            f"or put the file from {entry.url} into {cache_folder() / entry.path}."
        ) from None
    url, _, member = entry.url.partition("#")
    digest = entry.content or entry.sha256
    known = f"sha256:{digest}" if digest and not member else None  # the checksum of the archive itself is not known
    try:
        downloaded = Path(pooch.retrieve(url, known, fname="download", path=folder))
        if member:
            with zipfile.ZipFile(downloaded) as archive:
                content = archive.read(member)
            if hashlib.sha256(content).hexdigest() != digest:
                raise ValueError(f"the sha256 of {member} is not that of the catalogue")
            return content
        content = downloaded.read_bytes()
        if not digest and len(content) != entry.size:
            raise ValueError(f"the file has {len(content)} bytes, but the catalogue lists {entry.size}")
        return content
    except Exception as err:  # one message for all errors of the network, pooch and the archive
        raise DataError(
            f"{entry.path} could not be downloaded from {entry.url}: {err}. Try again later, or set NSAC_DATA to a "
            f"folder that contains {entry.path}."
        ) from None
