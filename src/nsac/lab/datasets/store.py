"""Files of the catalogue: located in a folder or in the cache, or downloaded; always checked.

The folder is given by the environment variable `NSAC_DATA`; the cache is `NSAC_CACHE`, or the user's cache directory.
"""

import gzip
import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from nsac.lab.datasets.catalog import File, catalog, file

SPLIT_SIZES = {
    "boston": (506, 14, 20),
    "kin8nm": (8192, 9, 20),
    "uci-concrete": (1030, 9, 20),
    "uci-power-plant": (9568, 5, 20),
    "uci-wine-quality-red": (1599, 12, 20),
    "uci-protein": (45730, 10, 5),
    "uci-energy": (768, 9, 20),
    "uci-yacht": (308, 7, 20),
    "uci-naval": (11934, 17, 20),
}
"""Folder of a UCI regression set to rows, columns that are read (the last is the target), and standard splits."""


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
        raise unusable(path, f"is not {what} ({reason}).") from None


def read_text(path: Path) -> str:
    """Text of a file, decompressed if its name ends in .gz or .zip."""
    return _content(path).decode("utf-8", errors="replace")  # units of some headers were damaged at the source


def read_table(path: Path, columns: list[str], rows: int) -> pd.DataFrame:
    """A table of comma-separated values with these columns; units that were damaged are not part of a column's name."""
    with reading(path, "a table"):
        frame = pd.read_csv(io.StringIO(read_text(path)))
    frame.columns = [name.split(" (")[0] if "\ufffd" in name else name for name in frame.columns]
    if list(frame.columns) != columns:
        wanted, found = ", ".join(columns), ", ".join(frame.columns)
        problem = f"must have the columns {wanted}. Got {found} instead. The source may have changed its format."
        raise unusable(path, problem)
    if len(frame) != rows:
        raise unusable(path, f"must have {rows} rows. Got {len(frame)} instead.")
    return frame


def read_npz(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Arrays of an archive by name; nothing is unpickled."""
    # Opened as a zip first: np.load takes any other file for a pickle and advises to trust it.
    with reading(path, "a whole archive of arrays"), zipfile.ZipFile(path), np.load(path, allow_pickle=False) as packed:
        return {name: packed[name] for name in names}


def split_arrays(folder: str) -> dict[str, np.ndarray]:
    """The arrays of the file `splits.npz` of a set: train and test rows, nine to one, of a generator with seed 1."""
    rows, columns, n = SPLIT_SIZES[folder]
    generator = np.random.RandomState(1)  # the legacy generator that made the published splits
    inputs, target = np.split(np.arange(columns, dtype=np.int32), [columns - 1])
    arrays = {"index_features": inputs, "index_target": target}
    for i in range(n):
        order = generator.permutation(rows).astype(np.int32)
        arrays[f"train_{i}"], arrays[f"test_{i}"] = np.split(order, [round(0.9 * rows)])
    return arrays


def unusable(path: Path, problem: str) -> DataError:
    """The error of a damaged file: its problem, a sentence without the subject, and how to replace it."""
    source = next((s for s in catalog().values() if any(path.match(entry.path) for entry in s.files)), None)
    fix = "Put an intact copy in its place."
    if source is not None and source.downloadable:
        fix = f"Delete {path} and run `nsac data fetch {source.name}`, or put an intact copy in its place."
    elif source is not None:
        fix = f"Put an intact copy in its place; the originals of {source.name} are at {source.homepage}."
    return DataError(f"{path} {problem} {fix}")


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
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found == entry.sha256 or (not entry.sha256 and size == entry.size):
        return
    if entry.content and hashlib.sha256(_content(path)).hexdigest() == entry.content:
        return  # compressed by another program, same content
    if entry.generated:
        standard = split_arrays(path.parent.name)
        given = read_npz(path, standard)
        for name, array in standard.items():
            if given[name].dtype != array.dtype or not np.array_equal(given[name], array):
                raise unusable(path, f"must have the standard splits. Its {name!r} is another one.")
        return  # packed by another version of numpy
    listed = f"{entry.size} bytes and sha256 {entry.sha256[:16] + '...' if entry.sha256 else 'not known'}"
    raise unusable(path, f"has {size} bytes and sha256 {found[:16]}..., but the catalogue lists {listed}.")


def _content(path: Path) -> bytes:
    if path.suffix == ".gz":
        with reading(path, "a whole gzip file"), gzip.open(path, "rb") as stream:
            return stream.read()
    if path.suffix == ".zip":
        with reading(path, f"a whole zip archive with {path.stem}"), zipfile.ZipFile(path) as archive:
            return archive.read(path.stem)
    with reading(path, "a file that can be read"):
        return path.read_bytes()


def _fetch(entry: File) -> Path:
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
            created = Path(folder) / "created.npz"  # numpy would add the suffix to another name
            if entry.generated:
                np.savez_compressed(created, allow_pickle=False, **split_arrays(target.parent.name))
            else:
                content = _download(entry, Path(folder))
                created.write_bytes(gzip.compress(content, mtime=0) if entry.content else content)
            os.replace(created, target)  # it is never incomplete in the cache
    except OSError as err:
        raise DataError(
            f"{target} cannot be written ({err}). Set NSAC_CACHE to a writable folder, or NSAC_DATA to one that "
            f"contains {entry.path}."
        ) from None
    return target


def _download(entry: File, folder: Path) -> bytes:
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
