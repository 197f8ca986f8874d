"""Files of the catalogue: found in a folder, in the cache, or downloaded; always checked.

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
    """A data file is missing, damaged, or not what the catalogue says. The message says which and what to do."""


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
    """Whether all files of a source are here already, unchecked; what can be generated counts as here."""
    needed = [entry.path for entry in catalog()[name].files if not entry.generated]
    return all(any(os.path.exists(folder / path) for folder in _folders()) for path in needed)


def cache_folder() -> Path:
    """Where downloads are kept."""
    if chosen := os.environ.get("NSAC_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nsac"


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Whatever goes wrong inside is said as: this file is not `what`, for this reason, do that."""
    try:
        yield
    except DataError:
        raise
    except Exception as err:  # on damaged bytes the parsers of pandas, numpy, gzip, zip and tar raise all sorts
        reason = " ".join(f"{type(err).__name__}: {err}".split())  # in one line
        raise DataError(f"{path} is not {what} ({reason}). {replace(path)}") from None


def read_text(path: Path) -> str:
    """Text of a file, decompressed if its name says so."""
    return _content(path).decode("utf-8", errors="replace")  # units of some headers were damaged at the source


def read_npz(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Arrays of an archive by name; nothing is unpickled."""
    # Opened as a zip first: np.load takes what is none for a pickle and advises to trust it.
    with reading(path, "a whole archive of arrays"), zipfile.ZipFile(path), np.load(path, allow_pickle=False) as packed:
        return {name: packed[name] for name in names}


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


def replace(path: Path) -> str:
    """What to do about a damaged file."""
    source = next((s for s in catalog().values() if any(path.match(entry.path) for entry in s.files)), None)
    if source is None:
        return "Put an intact copy in its place."
    if not source.has_address:
        return f"Put an intact copy in its place; the originals of {source.name} are at {source.address}."
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


@lru_cache(maxsize=256)  # a file that did not change is hashed once per process
def _check(path: Path, entry: File, size: int, *changed: int) -> None:
    del changed  # part of the key only
    found = _sha256(path)
    if found == entry.sha256 or (not entry.sha256 and size == entry.size):
        return
    if entry.content and hashlib.sha256(_content(path)).hexdigest() == entry.content:
        return  # compressed by another program, same content
    if entry.generated:
        return _check_splits(path)  # packed by another version of numpy
    raise DataError(
        f"{path} has {size} bytes and sha256 {found[:16]}..., but the catalogue says {entry.size} bytes and sha256 "
        f"{entry.sha256[:16] + '...' if entry.sha256 else 'not known'}. {replace(path)}"
    )


def _check_splits(path: Path) -> None:
    standard = split_arrays(path.parent.name)
    given = read_npz(path, standard)
    for name, array in standard.items():
        if given[name].dtype != array.dtype or not np.array_equal(given[name], array):
            raise DataError(f"{name!r} in {path} is not the standard one. {replace(path)}")


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _content(path: Path) -> bytes:
    """Bytes of a file, decompressed if its name says so."""
    if path.suffix != ".gz":
        with reading(path, "a file that can be read"):
            return path.read_bytes()
    with reading(path, "a whole gzip file"), gzip.open(path, "rb") as stream:
        return stream.read()


def _fetch(entry: File) -> Path:
    """Make a file beside its place in the cache, then move it: never half a file."""
    target = cache_folder() / entry.path
    if not entry.url:
        source = next(source for source in catalog().values() if entry in source.files)
        given = os.environ.get("NSAC_DATA") or "not set"
        raise DataError(
            f"{entry.path} ({source.name}) is in none of NSAC_DATA ({given}) and {cache_folder()}, and cannot "
            f"be downloaded as one file. Get the originals from {source.address}, or set NSAC_DATA to a folder that "
            f"holds {entry.path}."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / "made"
            if entry.generated:
                write_splits(made, target.parent.name)
            else:
                content = _download(entry, Path(folder))
                made.write_bytes(gzip.compress(content, mtime=0) if entry.content else content)
            os.replace(made, target)
    except OSError as err:
        raise DataError(
            f"{target} cannot be written ({err}). Set NSAC_CACHE to a folder that can, or NSAC_DATA to one that holds "
            f"{entry.path}."
        ) from None
    return target


def _download(entry: File, folder: Path) -> bytes:
    """What the address gives, or a member of the archive it gives, checked."""
    try:
        import pooch
    except ImportError:
        raise DataError(
            f"{entry.path} must be downloaded, which needs pooch. Install it with `pip install 'nsac[bench]'`, "
            f"or put the file from {entry.url} into {cache_folder() / entry.path}."
        ) from None
    url, _, member = entry.url.partition("#")
    digest = entry.content or entry.sha256
    known = f"sha256:{digest}" if digest and not member else None  # an archive's own checksum is not known
    try:
        got = Path(pooch.retrieve(url, known, fname="download", path=folder))
        if member:
            with zipfile.ZipFile(got) as archive:
                content = archive.read(member)
            if hashlib.sha256(content).hexdigest() != digest:
                raise ValueError(f"the sha256 of {member} is not that of the catalogue")
            return content
        content = got.read_bytes()
        if not digest and len(content) != entry.size:
            raise ValueError(f"it gives {len(content)} bytes, but the catalogue says {entry.size}")
        return content
    except Exception as err:  # whatever the network, pooch or the archive says, once, with what to do
        raise DataError(
            f"{entry.path} could not be downloaded from {entry.url}: {err}. Try again later, or set NSAC_DATA to a "
            f"folder that holds {entry.path}."
        ) from None
