"""What data there is, where it comes from, and what its files must be."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class File:
    """One file of a source."""

    path: str
    """inside a data folder"""
    size: int
    """in bytes"""
    sha256: str = ""
    """of the file; empty where no copy was at hand to take it from"""
    content: str = ""
    """sha256 after decompression, for a file that is compressed here and plain at its address"""
    url: str = ""
    """where it can be downloaded; `archive.zip#member` for a member, `generated:splits` for what needs no download"""

    @property
    def generated(self) -> bool:
        """Whether it follows from a seed: `splits.npz` of a table."""
        return self.url == "generated:splits"


@dataclass(frozen=True)
class Source:
    """A data set: whose it is and of which files it consists."""

    name: str
    description: str
    citation: str
    licence: str
    address: str
    """of those who published it"""
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(file.size for file in self.files)

    @property
    def has_address(self) -> bool:
        """Whether its files can be downloaded, or generated."""
        return all(file.url for file in self.files)


@cache
def catalog() -> dict[str, Source]:
    """All sources by name."""
    text = (files("nsac.lab.datasets") / "catalog.toml").read_text(encoding="utf-8")
    sources = {}
    for entry in tomllib.loads(text)["source"]:
        listed = tuple(File(**file) for file in entry.pop("files"))
        sources[entry["name"]] = Source(**entry, files=listed)
    return sources


@cache
def file(path: str) -> File:
    """The entry of one file."""
    return {file.path: file for source in catalog().values() for file in source.files}[path]
