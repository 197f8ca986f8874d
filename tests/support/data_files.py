"""Data files that are copied, listed or damaged, shared by tests of the datasets."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nsac.lab.datasets import DataError
from nsac.lab.datasets import store as store_module
from nsac.lab.datasets.catalog import File

DAMAGES = {
    "empty": lambda content: b"",
    "other text": lambda content: b"hello\n",
    "truncated": lambda content: content[: len(content) // 2],
}


def list_file(monkeypatch, **changes) -> None:
    """Pretend that the catalogue lists one file with these properties."""
    monkeypatch.setattr(store_module, "file", lambda path: File(**{"path": path, "size": 0, **changes}))


def skip_checksums(monkeypatch, folder: Path) -> None:
    """Pretend that the catalogue has no checksums and the sizes of the files in `folder`."""
    monkeypatch.setattr(store_module, "file", lambda path: File(path, (folder / path).stat().st_size))


def copy(data: Path, path: str, folder: Path) -> Path:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copyfile(data / path, folder / path))


def write(folder: Path, path: str, content: bytes) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(content)


def replace_compressed(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change the content of a gzip file."""
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))


def expect_refusal(read: Callable[[], object], path: Path) -> None:
    """The error names the file and how to replace it, on one line."""
    with pytest.raises(DataError) as caught:
        read()
    message = str(caught.value)
    assert str(path) in message and "intact copy" in message and "\n" not in message
