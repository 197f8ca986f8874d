"""Files that are complete or absent: atomic writes, and headers with a checksum."""

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class HeaderError(ValueError):
    """A header that does not fit its file; the message completes the sentence "The file ..."."""


class VersionError(HeaderError):
    """A header of another version of the format."""


def digest(facts: Any, *contents: bytes) -> str:
    """Hexadecimal sha256 of plain values and, where they belong to files, of the files' contents.

    The order of keys does not matter; NaN and infinity are refused.
    """
    total = hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())
    for content in contents:
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


def add_header(file_format: str, version: int, facts: Mapping[str, Any], *contents: bytes) -> dict[str, Any]:
    """The facts with `format`, `version`, and `sha256`, the digest of all of them and of `contents`."""
    headed = {"format": file_format, "version": version, **facts}
    return {**headed, "sha256": digest(headed, *contents)}


def remove_header(file_format: str, version: int, headed: Any, *contents: bytes) -> dict[str, Any]:
    """The facts that were given to `add_header`, if the header fits; otherwise `HeaderError`."""
    if not isinstance(headed, dict) or headed.get("format") != file_format:
        raise HeaderError(f"does not have the format {file_format!r}")
    if headed.get("version") != version:
        raise VersionError(f"has format version {headed.get('version')!r}; this library reads version {version}")
    facts = {name: value for name, value in headed.items() if name != "sha256"}
    try:
        matches = headed.get("sha256") == digest(facts, *contents)
    except (ValueError, RecursionError):  # values that `add_header` would have refused
        matches = False
    if not matches:
        raise HeaderError("is damaged: its content does not match its checksum")
    del facts["format"], facts["version"]
    return facts


def write_atomic(path: str | os.PathLike, content: bytes, temporary: Path | None = None) -> None:
    """Write or replace a file: under a temporary name, flushed, then renamed, so no reader ever sees half of it."""
    with _flushed_beside(Path(path), content, temporary) as written:
        os.replace(written, path)


def write_once(path: str | os.PathLike, content: bytes) -> bool:
    """Write a file like `write_atomic`, unless it exists; returns whether it was written."""
    try:
        with _flushed_beside(Path(path), content) as written:
            os.link(written, path)  # a rename would replace
    except FileExistsError:
        return False
    return True


@contextlib.contextmanager
def _flushed_beside(path: Path, content: bytes, temporary: Path | None = None) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary or _temporary_path(path)
    try:
        _write_flushed(temporary, content)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files under a temporary name, flush it, rename it; a folder that exists is replaced."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = _temporary_path(folder), _temporary_path(folder)
    replaces = folder.exists()
    try:
        temporary.mkdir()
        for name, content in files.items():
            _write_flushed(temporary / name, content)
        _sync_folder(temporary)
        if replaces:
            os.rename(folder, old)
        os.replace(temporary, folder)
        _sync_folder(folder.parent)
    except BaseException:
        if replaces and old.exists() and not folder.exists():
            os.rename(old, folder)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")


def _write_flushed(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can flush a folder; a rename may then reach the disk late
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
