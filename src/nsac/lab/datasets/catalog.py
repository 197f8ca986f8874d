"""The catalogue of data sources: publisher, licence, files, checksums and download URLs."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class File:
    """One file of a data source."""

    path: str  # relative to a data folder
    size: int  # in bytes
    sha256: str = ""  # checksum of the file; empty where no copy was available to compute it from
    content: str = ""  # sha256 after decompression, for a file that is compressed here and plain at its download URL
    url: str = ""  # download URL; `archive.zip#member` for a member, `generated:splits` for a file that is generated

    @property
    def generated(self) -> bool:
        """Whether it is generated from a seed: `splits.npz` of a table."""
        return self.url == "generated:splits"


@dataclass(frozen=True)
class Source:
    """A data source: its publisher and its files."""

    name: str
    description: str
    citation: str
    licence: str
    homepage: str  # web page of the publisher; for generated data, the function that generates it
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(file.size for file in self.files)

    @property
    def downloadable(self) -> bool:
        """Whether all its files can be downloaded or generated."""
        return all(file.url for file in self.files)


@cache
def catalog() -> dict[str, Source]:
    """All data sources by name."""
    text = (files("nsac.lab.datasets") / "catalog.toml").read_text(encoding="utf-8")
    sources = {}
    for entry in tomllib.loads(text)["source"]:
        listed = tuple(File(**file) for file in entry.pop("files"))
        sources[entry["name"]] = Source(**entry, files=listed)
    return sources


@cache
def file(path: str) -> File:
    """The catalogue entry of one file."""
    return {file.path: file for source in catalog().values() for file in source.files}[path]
