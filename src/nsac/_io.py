"""Files that are complete or absent: atomic writes, locks, and headers with a checksum."""

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import sys
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
    """Write or replace a file: under a temporary name, flushed, then renamed, so no reader ever sees half of it.

    A symbolic link stays: the file it points to is written.
    """
    path = resolve(path)
    with _flushed_beside(path, content, temporary) as written:
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
    temporary = temporary or _hidden(path)
    try:
        _write_flushed(temporary, content)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files under a temporary name, flush it, and exchange it for the folder, if that exists.

    Writers of one folder take turns. If the process is killed, the folder is the old or the new one; where the system
    cannot exchange two folders in one step, it may be absent until `restore_folder` or the next write restores it.
    """
    folder = resolve(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock(_lock_path(folder)):
        _restore(folder)
        for left in _left_over(folder, NEW) + _left_over(folder, OLD):  # of writers that were killed
            shutil.rmtree(left, ignore_errors=True)
        new, old = _hidden(folder, NEW), _hidden(folder, OLD)
        try:
            new.mkdir()
            for name, content in files.items():
                _write_flushed(new / name, content)
            _sync_folder(new)
            if not folder.exists():
                os.rename(new, folder)
            elif not _exchange(new, folder):
                os.rename(folder, old)
                os.rename(new, folder)
            _sync_folder(folder.parent)
        finally:
            _restore(folder)
            shutil.rmtree(new, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)


def restore_folder(folder: Path) -> None:
    """Put a folder back that `write_folder` had renamed when its process was killed; waits for one that is running."""
    folder = resolve(folder)
    if not folder.exists() and _left_over(folder, OLD):
        with contextlib.suppress(OSError), lock(_lock_path(folder)):  # a disk may be read-only
            _restore(folder)


@contextlib.contextmanager
def lock(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold a lock file, or raise `BlockingIOError` if another process holds it and `wait` is False.

    The system frees the lock when its process ends, even if it is killed. File systems without locks are not locked.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock_handle(handle, wait)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path), os.fstat(handle)):  # not one that its last holder has removed
                    break
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows removes no open file; it stays, unlocked
            os.unlink(path)
        os.close(handle)


def _lock_handle(handle: int, wait: bool) -> None:
    if sys.platform == "win32":
        import msvcrt

        while True:
            try:
                return msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            except OSError as err:  # LK_LOCK gives up after ten seconds
                if not wait:
                    raise BlockingIOError(errno.EAGAIN, "is locked") from err
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as err:
        if err.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise


def check_writable(path: str | os.PathLike) -> None:
    """Raise the `OSError` of a write to a file or folder, before there is anything to write; leaves nothing behind."""
    path = resolve(path)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "is a device or a pipe, not a file", str(path))
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    made = []
    try:
        for parent in reversed(path.parents):
            if parent.exists() and not parent.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(parent))
            if not parent.exists():
                parent.mkdir()
                made.append(parent)
        with _flushed_beside(path, bytes(4096)):  # a block: a full disk has room for an empty file
            pass
    finally:
        for parent in reversed(made):
            with contextlib.suppress(OSError):
                parent.rmdir()


def resolve(path: str | os.PathLike) -> Path:
    """The absolute path that symbolic links lead to, whether it exists or not; a circle of links is an `OSError`."""
    resolved = Path(os.path.realpath(path))
    if resolved.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return resolved


NEW, OLD = "new", "old"  # endings of the hidden names of a folder while it is written, and while it is replaced
RENAME_EXCHANGE, RENAME_SWAP, AT_FDCWD = 2, 2, -100  # of Linux, of macOS, and of Linux


def _hidden(path: Path, ending: str = "tmp") -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.{ending}")


def _left_over(folder: Path, ending: str) -> list[Path]:
    pattern = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{8}}\.{ending}")
    with contextlib.suppress(OSError):
        return [path for path in folder.parent.iterdir() if pattern.fullmatch(path.name)]
    return []


def _lock_path(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


def _restore(folder: Path) -> None:
    """With the lock held."""
    for old in _left_over(folder, OLD):
        if not folder.exists():
            os.rename(old, folder)


def _exchange(a: Path, b: Path) -> bool:
    """Exchange two folders in one step; False if the system cannot."""
    first, second = os.fsencode(a), os.fsencode(b)
    try:
        if sys.platform == "linux":
            return ctypes.CDLL(None).renameat2(AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE) == 0
        if sys.platform == "darwin":
            return ctypes.CDLL(None).renamex_np(first, second, RENAME_SWAP) == 0
    except AttributeError:  # an old C library
        pass
    return False


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
