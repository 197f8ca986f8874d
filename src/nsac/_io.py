"""Files that are there as a whole or not at all."""

import contextlib
import os
import uuid
from pathlib import Path


def write_atomic(path: str | os.PathLike, content: bytes) -> None:
    """Write a file under another name, flush it to the disk, rename it; at no moment is there half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        write_flushed(temporary, content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_flushed(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder."""
    with contextlib.suppress(OSError):  # not every system can flush a folder; then a rename may come late
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
